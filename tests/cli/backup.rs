//! `sukkal backup` and `sukkal restore`: the restored store is the one at the time of the backup.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use serde_json::json;

use super::client::{command, run, text};
use crate::http::{answered, follow, refused};
use crate::migration::view::without_ages;
use support::redis::{RedisServer, child_command};
use support::sukkal::{Api, Sukkal, binary};
use support::waiting::{until, until_some};

const ADMIN_MODE: (&str, &str) = ("SUKKAL_ADMIN_MODE", "true");
const PATH: &str = "/v2/queues/q/messages";
/// More than the buffers of a connection take, so that the service waits for the reader.
const LARGE: (usize, usize) = (600, 60_000);

fn start(folder: &Path) -> Sukkal {
    Sukkal::start_with(&format!("embedded:{}", folder.display()), &[ADMIN_MODE])
}

/// A command on an embedded store.
fn command_on(store: &Path, verb: &str) -> Command {
    let mut command = child_command(binary());
    command.args([verb, "--store", &format!("embedded:{}", store.display())]);
    command
}

fn restore(store: &Path, file: &Path) -> Output {
    command_on(store, "restore").arg(file).output().expect("the binary under test starts")
}

fn check(store: &Path) -> Output {
    command_on(store, "check").output().expect("the binary under test starts")
}

fn backup(sukkal: &Sukkal, file: &Path) -> Output {
    run(&sukkal.url(""), &format!("backup {}", file.display()))
}

async fn post(api: &Api, count: usize, bytes: usize) {
    for first in (0..count).step_by(4) {
        let bodies = (first..count.min(first + 4)).map(|number| json!({"body": format!("{number:>bytes$}")}));
        answered(api.post(PATH, &json!({"messages": bodies.collect::<Vec<_>>()})), 201).await;
    }
}

/// Everything that a client can see of the queue, apart from ages.
async fn shown(api: &Api, claim: &str) -> Vec<String> {
    let mut shown = vec![answered(api.get("/v2/queues/q"), 200).await.text];
    for path in [claim, "/v2/queues/q/subscriptions"] {
        shown.push(without_ages(answered(api.get(path), 200).await.json()).to_string());
    }
    let messages = follow(api, &format!("{PATH}?echo=true&include_claimed=true&limit=20"), "messages").await;
    shown.push(without_ages(messages.into()).to_string());
    shown
}

/// What changes while a backup is read is not in it, and does not wait for it.
#[tokio::test]
async fn a_backup_is_the_store_at_the_time_of_the_request_however_slowly_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let sukkal = start(&folder.path().join("store"));
    let api = sukkal.project("p");
    answered(api.put("/v2/queues/q").json(&json!({"_max_claim_count": 7})), 201).await;
    let subscription = json!({"subscriber": "http://example.org/", "ttl": 3600});
    answered(api.post("/v2/queues/q/subscriptions", &subscription), 201).await;
    answered(api.post("/v2/queues/q/pause", &json!({})), 204).await;
    post(&api, LARGE.0, LARGE.1).await;
    answered(api.post("/v2/queues/q/resume", &json!({})), 204).await;
    let claimed = answered(api.post("/v2/queues/q/claims?limit=2", &json!({"ttl": 600, "grace": 600})), 201).await;
    let claim = claimed.header("location").unwrap().to_owned();
    let before = shown(&api, &claim).await;
    let backup = || api.get("/v2/backup").header("X-Roles", "admin");

    let mut response = backup().send().await.unwrap();
    assert_eq!(response.status(), 200);
    answered(api.delete(&claim), 204).await;
    answered(api.delete(&format!("{PATH}?pop=10")), 200).await;
    post(&api, 100, 10).await;
    let text = refused(backup(), 409, "Resource conflict").await;
    assert_eq!(text, "another backup is being made; wait until it has ended");
    let file = folder.path().join("backup");
    let mut written = fs::File::create(&file).unwrap();
    while let Some(part) = response.chunk().await.unwrap() {
        written.write_all(&part).unwrap();
    }

    let restored = folder.path().join("restored");
    let output = restore(&restored, &file);
    assert!(output.status.success(), "{output:?}");
    let checked = check(&restored);
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(shown(&start(&restored).project("p"), &claim).await, before);
}

#[tokio::test]
async fn a_backup_ends_with_its_reader_and_with_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let mut sukkal = start(&folder.path().join("store"));
    let api = sukkal.project("p");
    post(&api, LARGE.0, LARGE.1).await;
    let backup = || api.get("/v2/backup").header("X-Roles", "admin").send();

    drop(backup().await.unwrap());
    let mut response = until_some("the next backup begins", async || {
        let response = backup().await.unwrap();
        (response.status() == 200).then_some(response)
    })
    .await;
    sukkal.terminate();
    sukkal.logged("draining").await;

    // Otherwise the reader would take a part for the whole.
    let error = loop {
        match response.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the backup seems complete"),
            Err(error) => break error,
        }
    };
    assert!(error.is_body() || error.is_decode(), "{error:?}");
    assert!(sukkal.wait().success());
}

/// What else restores to the directory, and a store that was created there meanwhile, stay as they
/// are.
#[tokio::test]
async fn a_restore_replaces_no_store_and_no_other_restore() {
    let folder = tempfile::tempdir().unwrap();
    let [store, file, pipe, target] = ["store", "backup", "pipe", "target"].map(|name| folder.path().join(name));
    let sukkal = start(&store);
    post(&sukkal.project("p"), 20, 100).await;
    assert!(backup(&sukkal, &file).status.success());
    assert!(child_command("mkfifo").arg(&pipe).status().unwrap().success());
    let first = thread::spawn({
        let (target, pipe) = (target.clone(), pipe.clone());
        move || restore(&target, &pipe)
    });
    let mut slow = fs::File::create(&pipe).unwrap();
    let bytes = fs::read(&file).unwrap();
    slow.write_all(&bytes[..100]).unwrap();
    let unfinished = target.join("sukkal.redb.unfinished");
    until("the first one has begun", async || unfinished.exists()).await;

    let second = restore(&target, &file);
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    let text = text(&second.stderr);
    assert!(text.ends_with("exists; delete it unless another command is restoring to this directory\n"), "{text}");
    let new = start(&target);
    post(&new.project("p"), 1, 10).await;
    drop(new);
    slow.write_all(&bytes[100..]).unwrap();
    drop(slow);

    let output = first.join().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(self::text(&output.stderr).contains("there is a store in"), "{output:?}");
    assert!(self::text(&check(&target).stdout).contains("queues: 1, messages: 1"));
    assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
}

#[tokio::test]
async fn only_the_owner_can_read_a_backup_and_only_a_regular_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let [store, file, link, planted] = ["store", "backup", "link", "planted"].map(|name| folder.path().join(name));
    let sukkal = start(&store);
    fs::write(&planted, "what others can read").unwrap();
    symlink(&planted, &link).unwrap();

    assert!(backup(&sukkal, &file).status.success());
    let found = fs::symlink_metadata(&file).unwrap();
    assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o600, "{found:?}");
    for other in [&link, &store] {
        let output = backup(&sukkal, other);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(text(&output.stderr), format!("sukkal: {} is not a regular file\n", other.display()));
    }
    assert_eq!(fs::read_to_string(&planted).unwrap(), "what others can read");
}

#[tokio::test]
async fn a_damaged_backup_is_not_restored_and_a_store_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let [store, file, changed, target] = ["store", "backup", "changed", "target"].map(|name| folder.path().join(name));
    let sukkal = start(&store);
    post(&sukkal.project("p"), 20, 100).await;
    let made = backup(&sukkal, &file);
    let bytes = fs::read(&file).unwrap();
    assert_eq!(text(&made.stdout), format!("wrote {} bytes to {}\n", bytes.len(), file.display()), "{made:?}");

    let damaged = "the backup is incomplete or damaged";
    let other = "this is no backup of Sukkal, or a later release made it";
    let mut cases: Vec<(Vec<u8>, &str)> = vec![(Vec::new(), other), ([&bytes[..], b"x"].concat(), damaged)];
    for end in [16, 17, 100, bytes.len() - 33, bytes.len() - 1] {
        cases.push((bytes[..end].to_vec(), damaged));
    }
    // The title; the number of a table; a length; the middle; the end; the hash.
    for at in [15, 16, 17, bytes.len() / 2, bytes.len() - 33, bytes.len() - 1] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x40;
        cases.push((bytes, if at < 16 { other } else { damaged }));
    }
    for (case, (bytes, reason)) in cases.into_iter().enumerate() {
        fs::write(&changed, bytes).unwrap();
        let output = restore(&target, &changed);
        assert_eq!(output.status.code(), Some(1), "{case}: {output:?}");
        let expected = format!("sukkal: cannot restore {}: {reason}\n", changed.display());
        assert_eq!(text(&output.stderr), expected, "{case}");
        assert!(fs::read_dir(&target).map_or(true, |mut files| files.next().is_none()), "{case}");
    }

    assert!(restore(&target, &file).status.success());
    let again = restore(&target, &file);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(text(&again.stderr).contains("there is a store in"), "{again:?}");
    assert!(text(&check(&target).stdout).contains("queues: 1, messages: 20"));
}

/// Also what the name of the file was before stays.
#[test]
fn a_backup_whose_connection_is_lost_leaves_no_file() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let _request = client.read(&mut [0; 4096]).unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nsukkal\r\n").unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    fs::write(&file, "the last one").unwrap();

    let output = command(&url, &format!("backup {} --retry 0", file.display())).output().unwrap();

    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "the last one");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn redis_is_backed_up_with_its_own_tools() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[ADMIN_MODE]);
    let folder = tempfile::tempdir().unwrap();

    let output = backup(&sukkal, &folder.path().join("backup"));

    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let expected =
        "sukkal: only an embedded store without pools has backups here; back up Redis with its own tools (409)\n";
    assert_eq!(text(&output.stderr), expected);
}
