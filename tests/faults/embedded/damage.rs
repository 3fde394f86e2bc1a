//! Files that cannot be used because another process has them open, or because they have another
//! version or are no store. They are refused with one line, and left unchanged.

use std::fs;
use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use sukkal_domain::ClaimId;
use sukkal_storage::embedded::{EmbeddedStore, Fsync, OpenError};
use sukkal_storage::{ClaimStore, Maintenance};
use tempfile::TempDir;

use super::super::process::refused;
use super::{assert_consistent, created, post};
use support::calls::new_claim;
use support::sukkal::Sukkal;

const REGISTRY: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("registry");
const CONTENTS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("contents");
/// The index of the part in a key of `contents`: see `storage/embedded/rows/keys.rs`.
const PART: usize = 8;

fn open(folder: &TempDir) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(folder.path(), Fsync::Group)
}

fn file(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("sukkal.redb")
}

fn uri(folder: &Path) -> String {
    format!("embedded:{}", folder.display())
}

#[tokio::test]
async fn only_one_process_at_a_time_can_open_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(&folder).unwrap();

    let second = open(&folder);

    assert!(matches!(second, Err(OpenError::InUse(_))));
    drop(first);
    assert!(open(&folder).is_ok());
}

#[test]
fn a_second_process_reports_the_lock_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let store = uri(folder.path());
    let arguments = ["serve", "--bind", "127.0.0.1:0", "--store", &store];
    let _first = Sukkal::launch(&arguments, &[]);

    for arguments in [&arguments[..], &["check", "--store", &store]] {
        let (code, said) = refused(arguments, &[]);

        assert_eq!(code, Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("in use by another process"), "{said}");
    }
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_a_store() {
    use std::os::unix::fs::PermissionsExt;

    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a").join("b");
    let _store = EmbeddedStore::open(&folder, Fsync::Group).unwrap();

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("sukkal.redb")), 0o600);
}

#[test]
fn a_file_of_another_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder).unwrap());
    for format in [1_u32, 2, 3, 4, 7] {
        let database = Database::open(file(&folder)).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(REGISTRY).unwrap().insert(&b"format"[..], &format.to_be_bytes()[..]).unwrap();
        transaction.commit().unwrap();
        drop(database);

        let refusal = open(&folder).err().unwrap().to_string();

        assert!(refusal.contains(&format!("has format {format}")) && !refusal.contains('\n'), "{refusal}");
    }
}

#[test]
fn a_file_that_is_no_store_is_refused_and_unchanged() {
    let store = {
        let folder = tempfile::tempdir().unwrap();
        drop(open(&folder).unwrap());
        fs::read(file(&folder)).unwrap()
    };
    let without_head = [&[0; 4_096], &store[4_096..]].concat();
    for content in [b"not a database".to_vec(), vec![7; 100_000], without_head, store[..8_192].to_vec()] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(file(&folder), &content).unwrap();

        let refusal = open(&folder).err().expect("it is no store");

        assert!(matches!(refusal, OpenError::Damaged { .. } | OpenError::Io { .. }), "{refusal:?}");
        assert_eq!(refusal.to_string().lines().count(), 1, "{refusal}");
        assert!(fs::read(file(&folder)).unwrap() == content, "{refusal}");
    }
}

#[test]
fn a_foreign_file_of_the_same_engine_is_refused_and_unchanged() {
    const ACCOUNTS: TableDefinition<'static, u64, u64> = TableDefinition::new("accounts");
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(file(&folder)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(ACCOUNTS).unwrap().insert(1, 2).unwrap();
    transaction.commit().unwrap();
    drop(database);

    let refusal = open(&folder).err().expect("it is no store").to_string();

    assert_eq!(refusal.lines().count(), 1, "{refusal}");
    let database = Database::open(file(&folder)).unwrap();
    let reading = database.begin_read().unwrap();
    let tables: Vec<String> = reading.list_tables().unwrap().map(|table| table.name().to_owned()).collect();
    assert_eq!(tables, ["accounts"]);
}

#[tokio::test]
async fn a_check_distinguishes_an_intact_store_from_a_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    created(&store).await;
    drop(store);
    let uri = uri(folder.path());
    let check = ["check", "--store", &uri];
    assert_eq!(refused(&check, &[]), (Some(0), String::new()));

    // The number of queues in the project.
    let database = Database::open(file(&folder)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(REGISTRY).unwrap().insert(&b"pp"[..], &7_u64.to_be_bytes()[..]).unwrap();
    transaction.commit().unwrap();
    drop(database);

    assert_eq!(refused(&check, &[]).0, Some(1));
    let (code, said) = refused(&["check", "--store", "embedded:/nowhere"], &[]);
    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
}

#[tokio::test]
async fn a_check_finds_each_kind_of_damage() {
    const STATE: u8 = 0;
    for (part, becomes, finding) in [
        (1, None, "a set has an entry without a message"),
        (2, None, "is not in exactly one set"),
        (4, Some(Vec::new()), "an entry has 12 bytes"),
        (4, None, "is not in exactly one set"),
        (5, None, "a claim has no lease"),
        (6, None, "has a claim that does not list it"),
        (7, None, "has no expiration"),
        (
            STATE,
            Some([[0; 48].as_slice(), &[0xff; 8], &[0; 85]].concat()),
            "a change is due before the stored time of the next one",
        ),
        (STATE, None, "the stored counts are"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).unwrap();
        let (work, revision) = created(&store).await;
        post(&store, &work, revision, &["a", "b", "c"].map(str::to_owned)).await.unwrap();
        let claim = new_claim(2, 60);
        store.create_claim(&work, ClaimId::random(), &claim).await.unwrap().messages().unwrap();
        assert_consistent(&store).await;
        drop(store);
        let database = Database::open(file(&folder)).unwrap();
        let transaction = database.begin_write().unwrap();
        {
            let mut contents = transaction.open_table(CONTENTS).unwrap();
            let mut keys = contents.iter().unwrap().map(|entry| entry.unwrap().0.value().to_vec());
            let key = keys.find(|key| key[PART] == part).unwrap();
            drop(keys);
            match &becomes {
                Some(value) => drop(contents.insert(&*key, &**value).unwrap()),
                None => drop(contents.remove(&*key).unwrap()),
            }
        }
        transaction.commit().unwrap();
        drop(database);

        let findings = open(&folder).unwrap().check().await.unwrap().findings;

        assert!(findings.iter().any(|one| one.contains(finding)), "{part} {becomes:?}: {findings:?}");
    }
}
