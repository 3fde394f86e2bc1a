//! Listing the queues of a project by name, and counting them.

use serde_json::json;

use sukkal_domain::{QueueId, QueueKind, QueueName};
use sukkal_storage::{NameRange, QueueListing};

use crate::conformance::support::subject::{Subject, fresh_project, queue_id};

const LIMIT: usize = 100;

pub(in crate::conformance) async fn queues_are_listed_in_byte_order_of_their_names(subject: &Subject) {
    let long = "x".repeat(64);
    let names = ["b", "B", "a.b", "ab", "a-b", "a", "_z", "0", "10", "9", "-", ".", "..", "a_b", "aB", &long];
    for name in names {
        subject.queue(name).await;
    }

    let listed = subject.names(subject.project(), None, LIMIT).await;

    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(listed, sorted);
    assert_eq!(subject.count_queues().await, names.len());
}

pub(in crate::conformance) async fn a_list_can_start_after_any_text(subject: &Subject) {
    for name in ["a", "ab", "b", "c"] {
        subject.queue(name).await;
    }
    subject.delete(&subject.id("b")).await;

    for (after, rest) in [
        ("", &["a", "ab", "c"][..]),
        ("a", &["ab", "c"]),
        ("b", &["c"]),
        ("aa", &["ab", "c"]),
        ("B", &["a", "ab", "c"]),
        ("a/", &["ab", "c"]),
        ("a\0", &["ab", "c"]),
        ("a b\r\n", &["ab", "c"]),
        ("(a", &["a", "ab", "c"]),
        ("[b", &["a", "ab", "c"]),
        ("+", &["a", "ab", "c"]),
        ("-", &["a", "ab", "c"]),
        ("c", &[]),
        ("é", &[]),
        ("~", &[]),
    ] {
        assert_eq!(subject.names(subject.project(), Some(after), LIMIT).await, rest, "after {after:?}");
    }
}

pub(in crate::conformance) async fn pages_of_queues_are_full_and_cover_the_whole_list(subject: &Subject) {
    let mut names: Vec<String> = (0..50).map(|number| format!("q{number}")).collect();
    names.sort_unstable();
    futures::future::join_all(names.iter().map(|name| subject.queue(name))).await;

    for limit in [1, 7, 25, 50, 51] {
        let mut listed: Vec<String> = Vec::new();
        while listed.len() < names.len() {
            let page = subject.names(subject.project(), listed.last().map(String::as_str), limit).await;
            assert_eq!(page.len(), limit.min(names.len() - listed.len()));
            listed.extend(page);
        }

        assert_eq!(listed, names);
        let after = subject.names(subject.project(), listed.last().map(String::as_str), limit).await;
        assert_eq!(after, [""; 0]);
    }
}

pub(in crate::conformance) async fn a_list_examines_a_bounded_number_of_names(subject: &Subject) {
    for name in ["a1", "a2", "b1", "a3", "b2"] {
        subject.queue(name).await;
    }

    let (mut steps, mut after) = (Vec::new(), Some(String::new()));
    while let Some(from) = after.take() {
        let listing = QueueListing {
            names: NameRange::of_kind(QueueKind::Queue, Some(&from), None),
            name_part: Some("b".to_owned()),
            examined_max: 2,
            bytes: usize::MAX,
            needs_metadata: true,
        };
        let page = subject.store().list_queues(subject.project(), &listing).await.expect("the store answers");
        let names: Vec<String> = page.queues.iter().map(|(name, _)| name.to_string()).collect();
        after = page.reached.map(|name| name.to_string());
        steps.push((names.join(" "), after.clone().unwrap_or_default()));
    }

    let expected = [("", "a2"), ("b1", "b1"), ("b2", "")];
    assert_eq!(steps, expected.map(|(names, reached)| (names.to_owned(), reached.to_owned())));
}

pub(in crate::conformance) async fn a_list_reads_a_bounded_size_of_metadata(subject: &Subject) {
    let large = json!({ "k": "x".repeat(1_000) });
    for name in ["a", "b", "c", "d", "e"] {
        subject.queue_of(name, if name == "c" { json!({}) } else { large.clone() }).await;
    }

    let (mut steps, mut after) = (Vec::new(), Some(String::new()));
    while let Some(from) = after.take() {
        let names = NameRange::of_kind(QueueKind::Queue, Some(&from), None);
        let listing = QueueListing { names, bytes: 2_000, examined_max: 9, needs_metadata: true, name_part: None };
        let page = subject.store().list_queues(subject.project(), &listing).await.expect("the store answers");
        let names: Vec<String> = page.queues.iter().map(|(name, _)| name.to_string()).collect();
        after = page.reached.map(|name| name.to_string());
        steps.push(names.join(" "));
    }

    steps.retain(|step| !step.is_empty());
    assert_eq!(steps, ["a b", "c d e"]);
}

pub(in crate::conformance) async fn a_list_with_a_prefix_examines_only_names_that_begin_with_it(subject: &Subject) {
    let names = ["a", "a-b", "ab", "ab.c", "abc", "abd", "ac", "b", "-", "_"];
    for name in names {
        subject.queue(name).await;
    }

    for (prefix, after, part, found) in [
        ("ab", None, None, &["ab", "ab.c", "abc", "abd"][..]),
        ("ab", Some("a"), None, &["ab", "ab.c", "abc", "abd"]),
        ("ab", Some("ab"), None, &["ab.c", "abc", "abd"]),
        ("ab", Some("abc"), None, &["abd"]),
        ("ab", Some("ab~"), None, &[]),
        ("ab", Some("b"), None, &[]),
        ("ab", Some("ab\0x"), None, &["ab.c", "abc", "abd"]),
        ("ab", None, Some("c"), &["ab.c", "abc"]),
        ("-", None, None, &["-"]),
        ("", Some("abd"), None, &["ac", "b"]),
        ("abd", None, None, &["abd"]),
        ("abdd", None, None, &[]),
        ("A", None, None, &[]),
        ("a\0", None, None, &[]),
        ("é", None, None, &[]),
        ("\u{ff}\u{10ffff}", None, None, &[]),
        ("[a", None, None, &[]),
        ("(a", None, None, &[]),
        ("+", None, None, &[]),
    ] {
        let listing = QueueListing {
            names: NameRange::of_kind(QueueKind::Queue, after, Some(prefix)),
            name_part: part.map(str::to_owned),
            examined_max: names.len(),
            bytes: usize::MAX,
            needs_metadata: true,
        };
        let page = subject.store().list_queues(subject.project(), &listing).await.expect("the store answers");

        let listed: Vec<String> = page.queues.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(
            (listed, page.reached),
            (found.iter().map(ToString::to_string).collect(), None),
            "{prefix:?} {after:?}"
        );
    }
    let listing = QueueListing {
        names: NameRange::of_kind(QueueKind::Queue, None, Some("ab")),
        name_part: Some("z".to_owned()),
        examined_max: 3,
        bytes: usize::MAX,
        needs_metadata: true,
    };
    let page = subject.store().list_queues(subject.project(), &listing).await.expect("the store answers");
    assert_eq!((page.queues, page.reached), (vec![], "abc".parse().ok()));
}

pub(in crate::conformance) async fn a_list_shows_the_metadata_and_revision_of_each_queue(subject: &Subject) {
    for name in ["a", "b"] {
        subject.queue_of(name, json!({"name": name, "_default_message_ttl": 100})).await;
    }

    let listed = subject.queues(LIMIT).await;

    assert_eq!(listed.len(), 2);
    for (name, queue) in listed {
        assert_eq!(Some(queue), subject.get(&subject.id(name.as_str())).await);
    }
}

pub(in crate::conformance) async fn a_list_skips_deleted_queues(subject: &Subject) {
    for number in 10..30 {
        subject.queue(&format!("q{number}")).await;
    }
    for number in (10..30).filter(|number| number % 3 > 0) {
        subject.delete(&subject.id(&format!("q{number}"))).await;
    }

    let kept = ["q12", "q15", "q18", "q21", "q24", "q27"];
    assert_eq!(subject.names(subject.project(), None, LIMIT).await, kept);
    assert_eq!(subject.names(subject.project(), Some("q12"), 3).await, kept[1..4]);
    assert_eq!(subject.count_queues().await, kept.len());
    subject.queue("q13").await;
    assert_eq!(subject.names(subject.project(), None, 3).await, ["q12", "q13", "q15"]);
}

pub(in crate::conformance) async fn lists_and_counts_include_only_their_own_project(subject: &Subject) {
    // Project ids of which one is a prefix of another, and ids that an ambiguous key format would
    // confuse.
    let base = fresh_project();
    let projects = ["", "2", "/a", ":queues", "}", "%2F", " ä\n"]
        .map(|end| sukkal_domain::ProjectId::new(&format!("{base}{end}")).expect("it is not empty"));
    for (number, project) in projects.iter().enumerate() {
        for copy in 0..=number {
            subject.create(&queue_id(project, &format!("q{number}-{copy}"))).await;
        }
    }

    for (number, project) in projects.iter().enumerate() {
        let own: Vec<String> = (0..=number).map(|copy| format!("q{number}-{copy}")).collect();
        let count = subject.store().count_queues(project, Some(QueueKind::Queue)).await.expect("the store answers");

        assert_eq!(subject.names(project, None, LIMIT).await, own, "{project:?}");
        assert_eq!(count, own.len() as u64);
    }
}

pub(in crate::conformance) async fn topics_are_listed_and_counted_apart_from_queues(subject: &Subject) {
    let parse = |kind, name| QueueName::of_kind(kind, name).expect("it is legal");
    let topic = |name| {
        let project = subject.project().clone();
        QueueId::new(project, parse(QueueKind::Topic, name)).expect("the project is short")
    };
    for name in ["a", "aa", "c", "z"] {
        subject.create(&topic(name)).await;
    }
    for name in ["a", "b", "z"] {
        subject.queue(name).await;
    }
    let list = async |kind, after, prefix, examined_max| {
        let names = NameRange::of_kind(kind, after, prefix);
        let listing = QueueListing { names, examined_max, needs_metadata: true, ..QueueListing::default() };
        let page = subject.store().list_queues(subject.project(), &listing).await.expect("the store answers");
        assert!(page.queues.iter().all(|(name, _)| name.kind() == kind), "{page:?}");
        let names: Vec<_> = page.queues.iter().map(|(name, _)| name.to_string()).collect();
        (names.join(" "), page.reached.is_some())
    };
    let counts = async || {
        let counts = [Some(QueueKind::Queue), Some(QueueKind::Topic), None]
            .map(|kind| subject.store().count_queues(subject.project(), kind));
        futures::future::try_join_all(counts).await.expect("the store answers")
    };

    // Names of the other kind are not examined.
    for (kind, after, prefix, examined_max, found, has_more) in [
        (QueueKind::Queue, None, None, 3, "a b z", true),
        (QueueKind::Queue, Some("z"), None, 1, "", false),
        (QueueKind::Queue, Some("~"), None, 9, "", false),
        (QueueKind::Queue, None, Some("~"), 9, "", false),
        (QueueKind::Topic, None, None, 2, "a aa", true),
        (QueueKind::Topic, Some("aa"), None, 3, "c z", false),
        (QueueKind::Topic, Some("a"), Some("a"), 9, "aa", false),
    ] {
        assert_eq!(list(kind, after, prefix, examined_max).await, (found.to_owned(), has_more), "{kind:?} {after:?}");
    }
    assert_eq!(counts().await, [3, 4, 7]);
    subject.delete(&topic("a")).await;
    subject.delete(&subject.id("b")).await;
    assert_eq!(counts().await, [2, 3, 5]);
    assert_eq!(subject.names(subject.project(), None, LIMIT).await, ["a", "z"]);
    let measured = subject.store().measure_queues(subject.project(), None, 3).await.expect("the store answers");
    assert_eq!(measured.reached, Some(parse(QueueKind::Topic, "aa")), "a measurement covers both kinds");
}
