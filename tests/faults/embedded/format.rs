//! A file of the release before: it is copied, and then used in the format of this release.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sukkal_domain::{ClaimId, Message, QueueId, Scope};
use sukkal_storage::embedded::{EmbeddedStore, Fsync};
use sukkal_storage::{ClaimOutcome, ClaimStore, DeleteOutcome, Listing, Maintenance, MessageStore};

use super::queue;
use support::calls::new_claim;

/// What `sukkal backup` of that release has written: the queue `plain`, which has dead letters, and
/// the queue `fair` with 8 shards. In each, three of the messages 0 to 3 were claimed. The first of
/// them was returned, the second one was returned with a delay, and the third one is still claimed.
/// The message 4 is delayed.
const BACKUP: &[u8] = include_bytes!("format-5.backup");
/// When it was made, in seconds since 1970.
const MADE_S: u64 = 1_795_995_900;
/// The claim in each queue, and its messages.
const CLAIMS: [(&str, &str, [u64; 3]); 2] = [
    ("plain", "16265962-608a-4b9d-9650-b7ac6de87beb", [0, 1, 2]),
    ("fair", "b8cb06f4-5ce2-44c1-8a9d-50c623c23b9b", [0, 1, 3]),
];

fn number(message: &Message) -> u64 {
    rmp_serde::from_slice(message.body.as_msgpack()).unwrap()
}

/// Sets the clock of a queue to this time after the backup was made.
fn set_clock(store: &EmbeddedStore, queue: &QueueId, after: Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let time = Duration::from_secs(MADE_S) + after;
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap();
    store.set_clock(queue, micros(time) - micros(now));
}

#[tokio::test]
async fn a_file_of_the_release_before_is_copied_and_used() {
    let folder = tempfile::tempdir().unwrap();
    EmbeddedStore::restore(BACKUP, folder.path()).unwrap();
    let (file, copy) = (folder.path().join("sukkal.redb"), folder.path().join("sukkal.redb.format-5"));

    drop(EmbeddedStore::open(folder.path(), Fsync::Group).unwrap());
    assert!(copy.exists());
    // The release before could go on with the copy.
    fs::rename(&copy, &file).unwrap();
    let store = EmbeddedStore::open_verified(folder.path()).unwrap();
    assert!(copy.exists());

    for (name, claim, [released, returned, claimed]) in CLAIMS {
        let (queue, claim) = (queue(name), ClaimId::parse(claim).unwrap());
        let available = (0..4).find(|number| ![released, returned, claimed].contains(number)).unwrap();
        set_clock(&store, &queue, Duration::from_secs(10));
        let all = Scope { claimed: true, delayed: true };
        let page = store.list_messages(&queue, &Listing { scope: all, ..Listing::first(10) }).await.unwrap();
        let id = |wanted: u64| page.messages.iter().find(|message| number(message) == wanted).expect("it exists").id;

        let taken = store.create_claim(&queue, ClaimId::random(), &new_claim(9, 60)).await.unwrap().messages().unwrap();
        let mut counts: Vec<_> = taken.messages.iter().map(|message| (number(message), message.claim_count)).collect();
        counts.sort_unstable();
        // The release before counted deliveries only in queues with dead letters.
        let mut expected = [(released, 1 + u32::from(name == "plain")), (available, 1)];
        expected.sort_unstable();
        assert_eq!(counts, expected);
        assert_eq!(store.delete_message(&queue, id(claimed), Some(claim)).await, Ok(DeleteOutcome::Done));
        assert_eq!(store.return_message(&queue, claim, id(returned), 0).await, Ok(ClaimOutcome::NotHeld));

        set_clock(&store, &queue, Duration::from_secs(3_000));
        let due = store.create_claim(&queue, ClaimId::random(), &new_claim(9, 60)).await.unwrap().messages().unwrap();
        let mut due: Vec<_> = due.messages.iter().map(number).collect();
        due.sort_unstable();
        let mut expected = [released, available, 4];
        expected.sort_unstable();
        assert_eq!(due, expected);
    }
    assert_eq!(store.check().await.unwrap().findings, Vec::<String>::new());
}
