//! Tables of records: the interface on which tokens and other records are built.
//!
//! The table of these cases is in all stores, which other cases may share. So keys and projects are
//! new in each case.

use bytes::Bytes;
use futures::future::join_all;
use sukkal_domain::ProjectId;
use sukkal_storage::{Condition, Error, Indexed, Indexes, Read, Row, Table, Write, Written};
use uuid::Uuid;

use crate::conformance::support::subject::{Subject, fresh_project};

const OK: &str = "the store answers";
const END_BYTES: usize = 8;

/// A value is an end (µs), a project and a zero byte, and a text.
static TABLE: Table = Table {
    tag: "conformance",
    prefixes: *b"0123",
    indexes: Some(Indexes { of: indexed, check: |_, _| Ok(String::new()) }),
};

#[expect(clippy::unnecessary_wraps, reason = "the indexes of other tables can fail")]
fn indexed(value: &[u8]) -> Result<Indexed, Error> {
    let (end_us, rest) = value.split_first_chunk::<END_BYTES>().expect("a value begins with an end");
    let project = rest.split(|byte| *byte == 0).next().and_then(|project| str::from_utf8(project).ok());
    Ok(Indexed { project: project.and_then(ProjectId::new), end_us: u64::from_be_bytes(*end_us) })
}

fn row(key: &str, project: &ProjectId, end_us: u64, text: &str) -> Row {
    let value = [&end_us.to_be_bytes()[..], project.as_str().as_bytes(), b"\0", text.as_bytes()].concat();
    Row { key: Bytes::copy_from_slice(key.as_bytes()), value: value.into() }
}

/// Returns keys in their order, which no other case uses.
fn keys<const N: usize>() -> [String; N] {
    let start = Uuid::new_v4();
    std::array::from_fn(|i| format!("{start}-{i:02}"))
}

fn absent(row: &Row) -> Condition {
    Condition::Row { key: row.key.clone(), begins: None }
}

fn begins(row: &Row, bytes: &[u8]) -> Condition {
    Condition::Row { key: row.key.clone(), begins: Some(Bytes::copy_from_slice(bytes)) }
}

fn fewer(project: &ProjectId, max: u32) -> Condition {
    Condition::Fewer { project: Some(project.clone()), max }
}

fn put(conditions: Vec<Condition>, row: &Row) -> Write {
    Write { conditions, puts: vec![row.clone()], ..Write::default() }
}

async fn write(subject: &Subject, write: Write) -> Written {
    subject.store().write_rows(&TABLE, write).await.expect(OK)
}

async fn delete(subject: &Subject, rows: &[Row]) {
    let deletion = Write { deletes: rows.to_vec(), ..Write::default() };
    assert_eq!(write(subject, deletion).await, Written::Done);
}

async fn read(subject: &Subject, reads: Vec<Read>) -> Vec<Vec<Row>> {
    subject.store().read_rows(&TABLE, reads).await.expect(OK).1
}

async fn page(subject: &Subject, project: &ProjectId, after: Option<&Row>, limit: usize) -> Vec<Row> {
    let after = after.map(|row| row.key.clone());
    read(subject, vec![Read::Page { project: Some(project.clone()), after, limit }]).await.concat()
}

pub(in crate::conformance) async fn a_write_is_made_only_if_all_conditions_hold(subject: &Subject) {
    let (project, [one, two]) = (fresh_project(), keys());
    let (one, two) = (row(&one, &project, 0, "one"), row(&two, &project, 0, "two"));
    assert_eq!(write(subject, put(vec![absent(&one), fewer(&project, 1)], &one)).await, Written::Done);

    let longer = [&one.value[..], b"r"].concat();
    for (conditions, refused) in [
        (vec![absent(&two), absent(&one)], 1),
        (vec![begins(&one, &one.value[..9]), fewer(&project, 1), absent(&one)], 1),
        (vec![fewer(&project, 2), begins(&one, &longer)], 1),
        (vec![begins(&two, b"")], 0),
        (vec![Condition::Fewer { project: None, max: 1 }], 0),
    ] {
        assert_eq!(write(subject, put(conditions, &two)).await, Written::Refused(refused));
        assert_eq!(page(subject, &project, None, 10).await, std::slice::from_ref(&one), "nothing has changed");
    }
    let both = Write { deletes: vec![one.clone()], ..put(vec![begins(&one, &one.value), fewer(&project, 2)], &two) };
    assert_eq!(write(subject, both).await, Written::Done);
    assert_eq!(page(subject, &project, None, 10).await, std::slice::from_ref(&two));
    delete(subject, &[one, two]).await;
    assert_eq!(page(subject, &project, None, 10).await, []);
}

pub(in crate::conformance) async fn a_repeated_write_has_no_further_effect(subject: &Subject) {
    let (project, [key]) = (fresh_project(), keys());
    let (first, second) = (row(&key, &project, 0, "first"), row(&key, &project, 0, "second"));
    let create = put(vec![absent(&first), fewer(&project, 1)], &first);
    let replace = put(vec![begins(&first, &first.value)], &second);

    for (attempt, expected) in [(&create, &first), (&create, &first), (&replace, &second), (&replace, &second)] {
        assert_eq!(write(subject, attempt.clone()).await, Written::Done);
        assert_eq!(page(subject, &project, None, 10).await, std::slice::from_ref(expected));
    }
    assert_eq!(write(subject, create).await, Written::Refused(0), "there is another row by now");
    for _ in 0..2 {
        delete(subject, std::slice::from_ref(&second)).await;
    }
    let again = put(vec![fewer(&project, 1)], &first);
    assert_eq!(write(subject, again).await, Written::Done, "the row was counted once");
    delete(subject, &[first]).await;
}

pub(in crate::conformance) async fn concurrent_writes_create_exactly_the_maximum(subject: &Subject) {
    let project = fresh_project();
    for round in 0..3 {
        let rows = keys::<20>().map(|key| row(&key, &project, 0, ""));
        let creations = rows.iter().map(|row| write(subject, put(vec![absent(row), fewer(&project, 7)], row)));

        let outcomes = join_all(creations).await;

        let created: Vec<Row> = rows
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| **outcome == Written::Done)
            .map(|(row, _)| row.clone())
            .collect();
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Written::Refused(1)).count(), 13, "{round}");
        assert_eq!(page(subject, &project, None, 100).await, created);
        delete(subject, &created).await;
    }
}

pub(in crate::conformance) async fn exactly_one_of_concurrent_replacements_succeeds(subject: &Subject) {
    let (project, [key]) = (fresh_project(), keys());
    let mut current = row(&key, &project, 0, "first");
    assert_eq!(write(subject, put(vec![absent(&current)], &current)).await, Written::Done);
    for round in 0..5 {
        let new: Vec<Row> = (0..10).map(|i| row(&key, &project, 0, &format!("{round} {i}"))).collect();
        let replace = |row: &Row| write(subject, put(vec![begins(&current, &current.value)], row));

        let outcomes = join_all(new.iter().map(replace)).await;

        let mut winners = new.iter().zip(outcomes).filter(|(_, outcome)| *outcome == Written::Done);
        let (Some((winner, _)), None) = (winners.next(), winners.next()) else { panic!("one must succeed") };
        current = winner.clone();
        assert_eq!(read(subject, vec![Read::Row(current.key.clone())]).await, [[current.clone()]]);
    }
    delete(subject, &[current]).await;
}

pub(in crate::conformance) async fn rows_are_found_by_key_and_project_and_end(subject: &Subject) {
    // Projects whose texts begin with one another must not be confused.
    let own = fresh_project();
    let other = ProjectId::new(&format!("{own}x")).expect("it is not empty");
    let [a, b, c, d, unknown] = keys();
    let rows =
        [row(&a, &own, 2, "ended"), row(&b, &own, u64::MAX >> 12, ""), row(&c, &own, 0, ""), row(&d, &other, 0, "")];
    let of_others = row(&unknown, &other, 0, "");
    write(subject, Write { puts: rows.to_vec(), ..Write::default() }).await;

    let by_key = |row: &Row| Read::Row(row.key.clone());
    let all = Read::Page { project: None, after: Some(rows[0].key.clone()), limit: 2 };
    let found = read(subject, vec![by_key(&rows[2]), by_key(&of_others), Read::Ended, all]).await;

    assert_eq!((&*found[0], &*found[1], &*found[3]), (&rows[2..3], &[][..], &rows[1..3]));
    assert!(found[2].contains(&rows[0]) && !rows[1..].iter().any(|row| found[2].contains(row)));
    for limit in [1, 2, 3] {
        assert_eq!(page(subject, &own, None, limit).await, rows[..limit]);
        assert_eq!(page(subject, &own, Some(&rows[0]), limit).await, rows[1..3.min(limit + 1)]);
    }
    let all = subject.store().all_rows(&TABLE).await.expect(OK);
    assert!(rows.iter().all(|row| all.contains(row)) && !all.contains(&of_others));
    delete(subject, &rows).await;
    assert_eq!(read(subject, rows.iter().map(by_key).collect()).await.concat(), []);
    let left = subject.store().all_rows(&TABLE).await.expect(OK);
    assert!(!rows.iter().any(|row| left.contains(row)));
    assert!(!read(subject, vec![Read::Ended]).await.concat().contains(&rows[0]));
}
