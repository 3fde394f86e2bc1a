//! A full disk, and a disk that fails for a while: writes are refused, reads continue, and no
//! message is lost.

use std::time::Duration;

use sukkal_storage::embedded::Fsync;
use sukkal_storage::{BackupStart, Error, Maintenance, MessageStore, PostOutcome};

use super::disk::Disk;
use super::{assert_consistent, created, post, texts_in};

const PAUSE: Duration = Duration::from_millis(50);

/// Returns a large message that contains its number.
fn large(number: usize) -> String {
    format!("{number:08}{}", "x".repeat(4_000))
}

#[tokio::test]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers() {
    let disk = Disk::new();
    let store = disk.open(Fsync::Group);
    let (work, revision) = created(&store).await;
    let mut there = Vec::new();
    for round in 0..3 {
        disk.limit(disk.length() + 1);
        loop {
            let text = large(there.len());
            match post(&store, &work, revision, std::slice::from_ref(&text)).await {
                Ok(PostOutcome::Posted(_)) => there.push(text),
                Ok(other) => panic!("{other:?}"),
                Err(Error::DiskFull(_)) => break,
                Err(error) => panic!("{error}"),
            }
            assert!(there.len() < 100_000, "the disk is never full");
        }
        for _ in 0..5 {
            assert!(matches!(post(&store, &work, revision, &[large(0)]).await, Err(Error::DiskFull(_))));
        }

        assert_eq!(texts_in(&store, &work).await, there, "round {round}");
        assert_eq!(store.get_stats(&work, false).await.unwrap().total, there.len() as u64);
        assert_consistent(&store).await;
        disk.limit(u64::MAX);
        let text = large(there.len());
        assert!(matches!(post(&store, &work, revision, std::slice::from_ref(&text)).await, Ok(PostOutcome::Posted(_))));
        there.push(text);
    }
    drop(store);
    let store = disk.open(Fsync::Group);
    assert_eq!(texts_in(&store, &work).await, there);
    assert_consistent(&store).await;
}

#[tokio::test]
async fn a_store_closed_while_the_disk_was_full_is_consistent() {
    let disk = Disk::new();
    let store = disk.open(Fsync::Group);
    let (work, revision) = created(&store).await;
    disk.limit(disk.length() + 1);
    let mut there = Vec::new();
    while let Ok(PostOutcome::Posted(_)) = post(&store, &work, revision, &[large(there.len())]).await {
        there.push(large(there.len()));
    }

    drop(store);
    let store = disk.open(Fsync::Group);

    assert_eq!(texts_in(&store, &work).await, there);
    assert_consistent(&store).await;
}

#[tokio::test]
async fn a_store_recovers_when_its_failed_disk_recovers() {
    let disk = Disk::new();
    let store = disk.open(Fsync::Group);
    let (work, revision) = created(&store).await;
    assert!(post(&store, &work, revision, &["before".to_owned()]).await.is_ok());
    let Ok(BackupStart::Begun(mut backup)) = store.begin_backup() else { panic!("no backup begins") };

    disk.set_failing(true);
    let failed = post(&store, &work, revision, &["during".to_owned()]).await;
    assert!(matches!(failed, Err(Error::Unavailable(_))), "{failed:?}");
    disk.set_failing(false);
    // The store tries again once a second.
    while post(&store, &work, revision, &["after".to_owned()]).await.is_err() {
        tokio::time::sleep(PAUSE).await;
    }

    // The backup, which nobody reads, would have kept the old file open.
    assert!(matches!(backup.next(), Some(Err(Error::Unavailable(_)))));
    let there = texts_in(&store, &work).await;
    assert!(there == ["before", "after"] || there == ["before", "during", "after"], "{there:?}");
    assert_consistent(&store).await;
}

#[tokio::test]
async fn reads_alone_let_a_store_recover_after_a_disk_failure() {
    let disk = Disk::new();
    let store = disk.open(Fsync::Group);
    let (work, revision) = created(&store).await;
    disk.set_failing(true);
    assert!(post(&store, &work, revision, &["lost".to_owned()]).await.is_err());
    disk.set_failing(false);

    while store.get_stats(&work, false).await.is_err() {
        tokio::time::sleep(PAUSE).await;
    }

    assert_consistent(&store).await;
}

#[tokio::test]
async fn concurrent_writes_share_a_sync_and_reads_need_none() {
    const POSTS: usize = 200;
    let disk = Disk::new();
    let store = disk.open(Fsync::Group);
    let (work, revision) = created(&store).await;
    let before = disk.syncs();

    let texts: Vec<String> = (0..POSTS).map(|number| number.to_string()).collect();
    let posts = texts.iter().map(|text| post(&store, &work, revision, std::slice::from_ref(text)));
    assert!(futures::future::join_all(posts).await.iter().all(Result::is_ok));
    let by_posts = disk.syncs() - before;
    texts_in(&store, &work).await;
    store.delete_messages(&work, &[]).await.unwrap();
    let by_looks = disk.syncs() - before - by_posts;

    assert!(by_posts <= (POSTS / 4) as u64, "{by_posts} syncs for {POSTS} posts at once");
    assert_eq!(by_looks, 0);
}
