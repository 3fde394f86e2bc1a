//! The embedded store when its disk fails: power cuts, no space, write errors, foreign files and
//! other processes.

mod damage;
mod disk;
mod format;
mod full;
mod kill;
mod power_cut;
mod size;
mod tokens;

use serde_json::json;
use sukkal_domain::{Body, ClientId, ClientIdRule, Message, Metadata, NewMessage, QueueId, Rank, Revision, Scope};
use sukkal_storage::embedded::EmbeddedStore;
use sukkal_storage::{Driver, Error, Listing, Maintenance, PostOutcome, QueueStore};

use support::calls::plain_post;
use support::test_bed::queue_id;

/// Much longer than any of these tests takes.
const TTL_S: u32 = 1_000_000;

fn queue(name: &str) -> QueueId {
    queue_id("p", name)
}

fn client() -> ClientId {
    ClientIdRule::Text(1..=9).parse("somebody").unwrap()
}

fn body(text: &str) -> Body {
    Body::from_msgpack(rmp_serde::to_vec(&json!(text)).unwrap().into())
}

fn text(message: &Message) -> String {
    rmp_serde::from_slice(message.body.as_msgpack()).unwrap()
}

fn metadata(keys: serde_json::Value) -> Metadata {
    serde_json::from_value(keys).map(Metadata::from_store).unwrap()
}

/// Creates the queue `work`, and returns its id and its revision.
async fn created(store: &EmbeddedStore) -> (QueueId, Revision) {
    let work = queue("work");
    store.create_queue(&work, &metadata(json!({}))).await.unwrap();
    let revision = store.get_queue(&work).await.unwrap().unwrap().revision;
    (work, revision)
}

/// Posts these texts in one request.
async fn post(store: &dyn Driver, queue: &QueueId, revision: Revision, texts: &[String]) -> Result<PostOutcome, Error> {
    let message = |text: &String| NewMessage { ttl_s: TTL_S, delay_s: 0, body: body(text), assignment: None };
    let messages: Vec<NewMessage> = texts.iter().map(message).collect();
    store.post_messages(queue, &plain_post(revision, &client(), &messages)).await
}

/// Returns the messages of the queue, including claimed and delayed ones.
async fn texts_in(store: &dyn Driver, queue: &QueueId) -> Vec<String> {
    let mut texts = Vec::new();
    let mut after: Option<Rank> = None;
    loop {
        let scope = Scope { claimed: true, delayed: true };
        let listing = Listing { after, scope, ..Listing::first(100) };
        let page = store.list_messages(queue, &listing).await.unwrap().messages;
        let Some(last) = page.last() else {
            return texts;
        };
        after = Some(last.id.rank());
        texts.extend(page.iter().map(text));
    }
}

/// Asserts that an integrity check finds nothing.
async fn assert_consistent(store: &dyn Maintenance) {
    let check = store.check().await.unwrap();
    assert_eq!(check.findings, [""; 0]);
}
