//! The size of the file: in proportion to the largest content, and small again after a backlog.

use std::path::Path;

use sukkal_domain::{ClaimId, QueueId, Revision};
use sukkal_storage::embedded::{EmbeddedStore, Fsync};
use sukkal_storage::{MessageStore, PostOutcome};
use tempfile::TempDir;

use super::super::process::refused;
use super::{assert_consistent, created, post, queue, texts_in};

/// Bytes of the file per byte of live messages of 1 KB, as ARCHITECTURE.md says.
const BYTES_PER_LIVE_BYTE: u64 = 6;
const KB: usize = 1_024;
const LARGE: usize = 100_000;

struct Stage {
    folder: TempDir,
    queue: QueueId,
}

impl Stage {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), queue: queue("work") }
    }

    fn open(&self) -> EmbeddedStore {
        EmbeddedStore::open(self.folder.path(), Fsync::Group).unwrap()
    }

    async fn post(&self, store: &EmbeddedStore, revision: Revision, count: usize, bytes: usize) {
        let posting = post(store, &self.queue, revision, &vec!["x".repeat(bytes); count]).await.unwrap();
        assert!(matches!(posting, PostOutcome::Posted(_)));
    }

    async fn pop(&self, store: &EmbeddedStore, count: usize) {
        let mut left = count;
        while left > 0 {
            left -= store
                .pop_messages(&self.queue, ClaimId::random(), left)
                .await
                .unwrap()
                .messages()
                .map_or(0, |popped| popped.len());
        }
    }

    fn file_bytes(&self) -> u64 {
        let file: &Path = &self.folder.path().join("sukkal.redb");
        file.metadata().unwrap().len()
    }
}

#[tokio::test]
async fn the_file_stays_in_proportion_under_steady_load() {
    const LIVE: usize = 4_000;
    const AT_ONCE: usize = 200;
    let stage = Stage::new();
    let store = stage.open();
    let revision = created(&store).await.1;

    for _ in 0..LIVE / AT_ONCE {
        stage.post(&store, revision, AT_ONCE, KB).await;
    }
    for _ in 0..10 * LIVE / AT_ONCE {
        stage.post(&store, revision, AT_ONCE, KB).await;
        stage.pop(&store, AT_ONCE).await;
    }

    let (file, live) = (stage.file_bytes(), ((LIVE + AT_ONCE) * KB) as u64);
    assert!(file <= BYTES_PER_LIVE_BYTE * live, "{file} bytes for {live}");
}

#[tokio::test]
async fn opening_a_nearly_empty_file_shrinks_it() {
    let stage = Stage::new();
    let store = stage.open();
    let revision = created(&store).await.1;
    for _ in 0..60 {
        stage.post(&store, revision, 10, LARGE).await;
    }
    // The message posted last is at the end of the file.
    stage.pop(&store, 590).await;
    drop(store);
    let before = stage.file_bytes();

    let store = stage.open();

    let after = stage.file_bytes();
    assert!(before >= 64 << 20 && after < 4 << 20, "{before} bytes before, {after} now");
    assert_eq!(texts_in(&store, &stage.queue).await, vec!["x".repeat(LARGE); 10]);
    assert_consistent(&store).await;
}

#[tokio::test]
async fn compacting_shrinks_a_file_to_its_minimum() {
    let stage = Stage::new();
    let uri = format!("embedded:{}", stage.folder.path().display());
    let compact = ["compact", "--store", &uri];
    let (code, said) = refused(&compact, &[]);
    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
    let store = stage.open();
    let revision = created(&store).await.1;
    for _ in 0..20 {
        stage.post(&store, revision, 200, KB).await;
    }
    stage.pop(&store, 3_000).await;
    let (code, said) = refused(&compact, &[]);
    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
    drop(store);
    let before = stage.file_bytes();

    assert_eq!(refused(&compact, &[]), (Some(0), String::new()));

    let after = stage.file_bytes();
    assert!(after < before / 2, "{before} bytes before, {after} now");
    let store = stage.open();
    assert_eq!(texts_in(&store, &stage.queue).await.len(), 1_000);
    assert_consistent(&store).await;
}

#[test]
fn a_store_without_a_file_cannot_be_compacted() {
    let (code, said) = refused(&["compact", "--store", "memory:"], &[]);

    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
}
