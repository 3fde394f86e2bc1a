//! Fact sheet 15: checksums. `clients/checksum.rs` compares them with those of Python.
//!
//! | row | test |
//! |---|---|
//! | only with `enable_checksum` | `messages_have_no_checksum_by_default` |
//! | `"checksum": "MD5:<hex>"`, in list, get, ids, claim, pop | `every_message_document_has_a_checksum` |
//! | null body: no checksum key | `every_message_document_has_a_checksum` |
//! | over the body as delivered, in encrypted queues too | `a_checksum_covers_the_decrypted_body` |

use super::*;

const DOCUMENT: &str = "MD5:e3e5a3a7d3644ecf5f6996d71ad480cb";
const TEXT: &str = "MD5:767e2d7912ebefdfe18495ed53635fc8";

/// Returns a new project on a server with `enable_checksum`.
fn project_with_checksums() -> Project {
    let server = Server::start(&[("SUKKAL_ENABLE_CHECKSUM", "true"), (KEY_OPTION, KEY)]);
    Project::of(&Arc::new(server), &format!("project-{}", Uuid::new_v4()))
}

fn bodies() -> [Value; 3] {
    [json!({"k": "v", "a": [1, 2.0, null, true, "\u{e9}"]}), json!("str"), Value::Null]
}

/// Returns the checksum of each message, or null if it has none.
fn checksums(messages: &Value) -> Vec<Value> {
    pick(messages, "checksum")
}

/// Posts messages with the three bodies, and returns a response of every operation that returns
/// messages.
async fn every_document_with_messages(api: &Project) -> Vec<Answer> {
    let ids = api.post_bodies("q", &bodies()).await;
    let list = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await;
    let by_ids = answered(api.get(&format!("{MESSAGES}?ids={}", ids.join(","))), 200).await;
    let claim = answered(api.post("/v2/queues/q/claims", &json!({})), 201).await;
    let path = claim.header("location").unwrap().to_owned();
    let shown = answered(api.get(&path), 200).await;
    answered(api.delete(&path), 204).await;
    let popped = answered(api.delete(&format!("{MESSAGES}?pop=3")), 200).await;
    vec![list, by_ids, claim, shown, popped]
}

#[tokio::test]
async fn messages_have_no_checksum_by_default() {
    for answer in every_document_with_messages(&new_project()).await {
        assert!(!answer.text.contains("checksum"), "{answer:?}");
    }
}

#[tokio::test]
async fn every_message_document_has_a_checksum() {
    let api = project_with_checksums();

    for answer in every_document_with_messages(&api).await {
        let messages = answer.json()["messages"].take();
        assert_eq!(checksums(&messages), [json!(DOCUMENT), json!(TEXT), json!(null)], "{answer:?}");
        assert!(messages[2].get("checksum").is_none(), "{answer:?}");
        let last = messages[0].as_object().unwrap().keys().next_back();
        assert_eq!(last.map(String::as_str), Some("checksum"), "{answer:?}");
    }
    let id = &api.post_bodies("q", &[json!("str")]).await[0];
    assert_eq!(answered(api.get(&format!("{MESSAGES}/{id}")), 200).await.json()["checksum"], TEXT);
}

#[tokio::test]
async fn a_checksum_covers_the_decrypted_body() {
    let api = project_with_checksums();
    api.create("q", &json!({ "_enable_encrypt_messages": true })).await;

    for answer in every_document_with_messages(&api).await {
        assert_eq!(checksums(&answer.json()["messages"]), [json!(DOCUMENT), json!(TEXT), json!(null)], "{answer:?}");
    }
}
