//! `sukkal rekey`: afterwards the new key is enough, whatever happens meanwhile.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::http::{PATCH_TYPE, feed, ok};
use support::cluster::RedisCluster;
use support::redis::{RedisServer, child_command, spawn};
use support::sukkal::{Api, Sukkal};
use support::waiting::block_until;

const FIRST: &str = "SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY";
const OTHERS: &str = "SUKKAL_TRANSPORT__MESSAGE_DECRYPTION_KEYS";
const PAGE: (&str, &str) = ("SUKKAL_TRANSPORT__MAX_MESSAGES_PER_PAGE", "1000");
const OLD: &str = "the key that messages were posted with";
const NEW: &str = "the key that replaces it after a while";
const DONE: &str = "all encrypted messages use message_encryption_key; the other keys are not needed any more\n";
/// Parameters of a list with claimed and delayed messages.
const ALL: &str = "&include_claimed=true&include_delayed=true&limit=1000";
const ENCRYPTING: &str = "_enable_encrypt_messages";

/// Lua script that counts the messages of a queue that were encrypted with the key of this id.
const COUNT: &str = "
    local found = 0
    for _, record in ipairs(redis.call('HVALS', KEYS[1])) do
      found = found + (string.find(record, ARGV[1], 1, true) and 1 or 0)
    end
    return found";
const POSTED_PER_REQUEST: usize = 500;
const POSTED_BEFORE: u64 = 6_000;
/// The command is killed when it has encrypted this many messages.
const KILLED_AFTER: i64 = 300;

fn start(store: &str, first: &str, others: &str) -> Sukkal {
    Sukkal::start_with(store, &[(FIRST, first), (OTHERS, others), PAGE])
}

fn command(store: &str, first: &str, others: &str) -> Command {
    let mut command = child_command(support::sukkal::binary());
    command.args(["rekey", "--store", store]).envs([(FIRST, first), (OTHERS, others)]);
    command
}

fn rekey(store: &str, first: &str, others: &str) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command(store, first, others).output().unwrap();
    (status.code(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

async fn post(api: &Api, queue: &str, messages: impl IntoIterator<Item = Value>) {
    let messages: Vec<Value> = messages.into_iter().collect();
    ok(api.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages }))).await;
}

/// Returns the id of a key, which encrypted bodies begin with.
fn key_id(passphrase: &str) -> Vec<u8> {
    let key = Sha256::digest(passphrase);
    Sha256::new().chain_update(b"sukkal: the id of a message key").chain_update(key).finalize()[..8].to_vec()
}

/// Stores messages in each state with the old key. Returns a claim.
async fn fill(api: &Api) -> Value {
    let delaying = json!({ ENCRYPTING: true, "_enable_message_delay": true });
    ok(api.put("/v2/queues/states").json(&delaying)).await;
    post(api, "states", (0..3).map(|number| json!({ "body": number }))).await;
    post(api, "states", [json!({ "body": 3, "delay": 600 })]).await;
    let claim = ok(api.post("/v2/queues/states/claims?limit=1", &json!({}))).await;
    // Messages stay encrypted when the queue stops to encrypt, and when they become dead letters.
    ok(api.put("/v2/queues/plain").json(&json!({ ENCRYPTING: true }))).await;
    post(api, "plain", (0..150).map(|number| json!({ "body": number }))).await;
    let patch = json!([{ "op": "replace", "path": format!("/metadata/{ENCRYPTING}"), "value": false }]);
    let patched = api.request(reqwest::Method::PATCH, "/v2/queues/plain").body(patch.to_string());
    ok(patched.header("Content-Type", PATCH_TYPE)).await;
    post(api, "plain", [json!({ "body": "in plain text" })]).await;
    let failing = json!({ ENCRYPTING: true, "_max_claim_count": 1, "_dead_letter_queue": "dead" });
    ok(api.put("/v2/queues/failing").json(&failing)).await;
    post(api, "failing", (0..5).map(|number| json!({ "body": number }))).await;
    let failed = ok(api.post("/v2/queues/failing/claims", &json!({}))).await;
    let id = failed["messages"][0]["href"].as_str().unwrap().rsplit_once('=').unwrap().1;
    ok(api.delete(&format!("/v2/queues/failing/claims/{id}"))).await;
    ok(api.post("/v2/queues/failing/claims", &json!({}))).await;
    claim
}

async fn assert_readable(api: &Api, claim: &Value) {
    let numbers = |count: u64| (0..count).map(Value::from).collect::<Vec<_>>();
    assert_eq!(feed(api, "states", ALL).await, numbers(4));
    assert_eq!(feed(api, "plain", ALL).await, [numbers(150), vec![json!("in plain text")]].concat());
    assert_eq!(feed(api, "dead", ALL).await, numbers(5));
    assert_eq!(claim["messages"][0]["body"], 0);
    ok(api.delete(claim["messages"][0]["href"].as_str().unwrap())).await;
    assert_eq!(feed(api, "states", ALL).await, numbers(4)[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_new_key_is_enough_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let (redis, cluster) = (RedisServer::start(), RedisCluster::start());
    for store in [redis.url(), cluster.url(), format!("embedded:{}", folder.path().display())] {
        let mut sukkal = start(&store, OLD, "");
        let claim = fill(&sukkal.project("p")).await;
        if store.starts_with("embedded") {
            let (code, text) = rekey(&store, NEW, OLD);
            assert!(code == Some(2) && text.contains("is in use"), "{text}");
            sukkal.terminate();
            sukkal.wait();
        }

        let (code, text) = rekey(&store, NEW, "");
        assert!(code == Some(1) && text.contains("p/dead: message "), "{text}");
        assert!(text.contains("159 messages cannot be decrypted with any of the keys"), "{text}");
        assert!(text.contains("is encrypted with a key that is not configured\n"), "{text}");
        let (code, text) = rekey(&store, NEW, OLD);
        assert!(code == Some(0) && text.contains(DONE), "{text}");
        assert!(text.contains("encrypted messages: 159, encrypted anew: 159\n"), "{text}");
        let (code, text) = rekey(&store, NEW, "");
        assert!(code == Some(0) && text.contains("encrypted messages: 159, encrypted anew: 0\n"), "{text}");

        drop(sukkal);
        assert_readable(&start(&store, NEW, "").project("p"), &claim).await;
        assert_eq!(check(&store), Some(0));
    }
    assert_eq!(rekey(&redis.url(), "", "").0, Some(2));
}

fn check(store: &str) -> Option<i32> {
    let mut command = child_command(support::sukkal::binary());
    command.args(["check", "--store", store]).output().unwrap().status.code()
}

/// Each process can read what the other one posts.
#[tokio::test(flavor = "multi_thread")]
async fn processes_exchange_the_keys_one_after_another() {
    let redis = RedisServer::start();
    let [one, other] = [(OLD, NEW), (NEW, OLD)].map(|(first, others)| start(&redis.url(), first, others));
    let apis = [one.project("p"), other.project("p")];
    ok(apis[0].put("/v2/queues/q").json(&json!({ ENCRYPTING: true }))).await;

    for api in &apis {
        post(api, "q", [json!({ "body": 1 })]).await;
    }

    for api in &apis {
        assert_eq!(feed(api, "q", ALL).await, [json!(1), json!(1)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_command_can_be_repeated_while_clients_post_and_claim() {
    let redis = RedisServer::start();
    let records = "sukkal:{p/q}:messages";
    let encrypted_with = |key: &[u8]| {
        let id = key.iter().fold(String::new(), |text, byte| format!("{text}\\{byte:03}"));
        let count = COUNT.replace("ARGV[1]", &format!("'{id}'"));
        redis.command(&["EVAL", &count, "1", records]).as_int()
    };
    let (old, new) = (key_id(OLD), key_id(NEW));
    {
        let sukkal = start(&redis.url(), OLD, NEW);
        let api = sukkal.project("p");
        ok(api.put("/v2/queues/q").json(&json!({ ENCRYPTING: true }))).await;
        for first in (0..POSTED_BEFORE).step_by(POSTED_PER_REQUEST) {
            post(&api, "q", (first..first + POSTED_PER_REQUEST as u64).map(|number| json!({ "body": number }))).await;
        }
    }
    let sukkal = start(&redis.url(), NEW, OLD);
    let api = sukkal.project("p");
    let is_over = Arc::new(AtomicBool::new(false));
    let posting = tokio::spawn(post_until(is_over.clone(), api.clone()));
    let working = tokio::spawn(work_until(is_over.clone(), api));

    tokio::task::block_in_place(|| {
        let mut first = command(&redis.url(), NEW, OLD);
        first.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut first = spawn(first).unwrap();
        block_until("it is in the middle", || encrypted_with(&new) >= KILLED_AFTER);
        first.kill().unwrap();
        first.wait().unwrap();
        assert!(encrypted_with(&old) > KILLED_AFTER, "it was not in the middle");
        let (code, text) = rekey(&redis.url(), NEW, OLD);
        assert!(code == Some(0) && text.contains(DONE), "{text}");
    });
    is_over.store(true, Ordering::SeqCst);
    let (posted, deleted) = (posting.await.unwrap(), working.await.unwrap());

    assert_eq!(encrypted_with(&old), 0);
    drop(sukkal);
    let sukkal = start(&redis.url(), NEW, "");
    let left: BTreeSet<u64> = feed(&sukkal.project("p"), "q", ALL).await.iter().filter_map(Value::as_u64).collect();
    assert!(posted > POSTED_BEFORE && !deleted.is_empty());
    assert_eq!(left, (0..posted).filter(|number| !deleted.contains(number)).collect());
    assert_eq!(check(&redis.url()), Some(0));
}

/// Posts numbers. Returns the first one that was not posted.
async fn post_until(is_over: Arc<AtomicBool>, api: Api) -> u64 {
    let mut number = POSTED_BEFORE;
    while !is_over.load(Ordering::SeqCst) {
        post(&api, "q", [json!({ "body": number })]).await;
        number += 1;
    }
    number
}

/// Claims messages, and deletes some of them. Returns those.
async fn work_until(is_over: Arc<AtomicBool>, api: Api) -> BTreeSet<u64> {
    let mut deleted = BTreeSet::new();
    while !is_over.load(Ordering::SeqCst) {
        let claim = ok(api.post("/v2/queues/q/claims?limit=5", &json!({}))).await;
        for message in claim["messages"].as_array().into_iter().flatten().take(3) {
            ok(api.delete(message["href"].as_str().unwrap())).await;
            deleted.insert(message["body"].as_u64().unwrap());
        }
    }
    deleted
}
