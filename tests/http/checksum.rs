//! Fact sheet 15, checksums. `clients/checksum.rs` compares what they are computed over with Python's.
//!
//! | row | test |
//! |---|---|
//! | only with `enable_checksum` | `no_message_carries_a_checksum_by_default` |
//! | `"checksum": "MD5:<hex>"`, in list, get, ids, claim, pop | `messages_carry_checksums_wherever_they_are_handed_out` |
//! | null: no key | `messages_carry_checksums_wherever_they_are_handed_out` |
//! | over the body as delivered, of encrypted queues too | `a_checksum_is_of_the_body_as_it_is_delivered` |

use super::*;

const PATH: &str = "/v2/queues/q/messages";
const DOCUMENT: &str = "MD5:e3e5a3a7d3644ecf5f6996d71ad480cb";
const TEXT: &str = "MD5:767e2d7912ebefdfe18495ed53635fc8";

/// A tenant of a server that gives checksums.
fn checked() -> Tenant {
    let stage = Stage::start(&[("SUKKAL_ENABLE_CHECKSUM", "true"), (KEY_OPTION, KEY)]);
    Tenant::of(&Arc::new(stage), &format!("project-{}", Uuid::new_v4()))
}

fn bodies() -> [Value; 3] {
    [json!({"k": "v", "a": [1, 2.0, null, true, "\u{e9}"]}), json!("str"), Value::Null]
}

/// Each document's checksum, or null.
fn checksums(messages: &Value) -> Vec<Value> {
    pick(messages, "checksum")
}

/// Every document in which messages with the three bodies are handed out.
async fn handed_out(api: &Tenant) -> Vec<Answer> {
    let ids = api.post_bodies("q", &bodies()).await;
    let list = answered(api.get(&format!("{PATH}?echo=true")), 200).await;
    let by_ids = answered(api.get(&format!("{PATH}?ids={}", ids.join(","))), 200).await;
    let claim = answered(api.post("/v2/queues/q/claims", &json!({})), 201).await;
    let path = claim.header("location").unwrap().to_owned();
    let shown = answered(api.get(&path), 200).await;
    answered(api.delete(&path), 204).await;
    let popped = answered(api.delete(&format!("{PATH}?pop=3")), 200).await;
    vec![list, by_ids, claim, shown, popped]
}

#[tokio::test]
async fn no_message_carries_a_checksum_by_default() {
    for answer in handed_out(&tenant()).await {
        assert!(!answer.text.contains("checksum"), "{answer:?}");
    }
}

#[tokio::test]
async fn messages_carry_checksums_wherever_they_are_handed_out() {
    let api = checked();

    for answer in handed_out(&api).await {
        let messages = answer.json()["messages"].take();
        assert_eq!(checksums(&messages), [json!(DOCUMENT), json!(TEXT), json!(null)], "{answer:?}");
        assert!(messages[2].get("checksum").is_none(), "{answer:?}");
        let last = messages[0].as_object().unwrap().keys().next_back();
        assert_eq!(last.map(String::as_str), Some("checksum"), "{answer:?}");
    }
    let id = &api.post_bodies("q", &[json!("str")]).await[0];
    assert_eq!(answered(api.get(&format!("{PATH}/{id}")), 200).await.json()["checksum"], TEXT);
}

#[tokio::test]
async fn a_checksum_is_of_the_body_as_it_is_delivered() {
    let api = checked();
    api.create("q", &json!({ "_enable_encrypt_messages": true })).await;

    for answer in handed_out(&api).await {
        assert_eq!(checksums(&answer.json()["messages"]), [json!(DOCUMENT), json!(TEXT), json!(null)], "{answer:?}");
    }
}
