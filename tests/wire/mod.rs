//! The conversion between JSON and `MessagePack` gives the same bytes or the same error as a simple
//! conversion through a tree.

mod texts;
mod tree;

use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use sukkal::wire::checksum::Checksums;
use sukkal::wire::json::JsonBody;
use sukkal::wire::messages::{self, ListDocument, PostedDocument};
use sukkal::wire::view::View;
use sukkal_domain::client::Poster;
use sukkal_domain::message::Nonce;
use sukkal_domain::{Body, ClaimId, Message, MessageId, Origin, ProjectId, QueueId, Rank, TraceContext};

/// Lengths on both sides of the sizes at which `MessagePack` needs more bytes for the length.
const LENGTHS: [usize; 13] = [0, 1, 14, 15, 16, 17, 31, 32, 33, 255, 256, 65_535, 65_536];

fn check(post: &[u8]) -> Result<(), TestCaseError> {
    let fast = messages::parse_drafts(post).map(|drafts| drafts.value);
    let simple = tree::parse_drafts(post);
    prop_assert_eq!(format!("{fast:?}"), format!("{simple:?}"), "{}", String::from_utf8_lossy(post));
    for draft in fast.iter().flatten() {
        prop_assert_eq!(to_json(&JsonBody(&draft.body)), tree::from_body(&draft.body).to_string());
    }
    Ok(())
}

/// Checks a value in every field of a post.
fn check_in_every_field(value: &str) {
    for post in [
        format!("{{\"messages\": [{{\"body\": {value}}}, {{\"body\": 1}}]}}"),
        format!("{{\"messages\": [{{\"dropped\": {value}, \"body\": 1}}]}}"),
        format!("{{\"messages\": [{{\"body\": 1, \"ttl\": {value}}}]}}"),
        format!("{{\"messages\": [{{\"body\": 1, \"delay\": {value}}}]}}"),
        format!("{{\"messages\": [{{\"body\": 1}}, {value}]}}"),
        format!("{{\"messages\": {value}, \"messages\": [{{\"body\": 1}}]}}"),
        format!("{{\"messages\": [{{\"body\": 1}}], \"messages\": {value}}}"),
        format!("{{\"messages\": [{{\"ttl\": null}}], \"dropped\": {value}}}"),
        value.to_owned(),
    ] {
        check(post.as_bytes()).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn posts_are_parsed_as_through_a_tree(post in texts::post()) {
        check(&post)?;
    }

    #[test]
    fn values_are_parsed_as_through_a_tree_in_every_field(value in texts::value()) {
        check_in_every_field(&value);
    }
}

#[test]
fn between_30_and_70_percent_of_generated_posts_are_valid() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let posts = (0..500).map(|_| texts::post().new_tree(&mut runner).unwrap().current());

    let read = posts.filter(|post| messages::parse_drafts(post).is_ok_and(|drafts| !drafts.value.is_empty())).count();

    assert!((150..350).contains(&read), "{read} of 500");
}

#[test]
fn malformed_documents_are_refused_as_through_a_tree() {
    for text in
        ["", " ", "null", "5", "\"x\"", "{}{}", "[] []", "{} x", "[]]", "\u{feff}\u{feff}{}", "{}\0", " {}\n", " []\t"]
    {
        check(text.as_bytes()).unwrap();
        check(format!("{{\"messages\": [{{\"body\": 1}}]}}{text}").as_bytes()).unwrap();
    }
}

#[test]
fn integers_beyond_64_bits_are_refused_in_every_field() {
    for integer in ["9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616"] {
        for value in [integer.to_owned(), format!("[1.5, {{\"k\": [{integer}]}}]")] {
            let post = format!("{{\"messages\": [{{\"body\": 1, \"dropped\": {value}}}]}}");
            let refusal = messages::parse_drafts(post.as_bytes()).unwrap_err().to_string();
            assert_eq!(refusal, "JSON contains integer that is too large.", "{post}");
            check_in_every_field(&value);
        }
    }
}

#[test]
fn lengths_are_encoded_as_through_a_tree() {
    for length in LENGTHS {
        let keys: Vec<String> = (0..length).map(|key| format!("\"{key}\":{key}")).collect();
        let object = format!("{{{}}}", keys.join(","));
        let with_key_twice = object.replacen('{', "{\"1\":[],", usize::from(length > 1));
        let array = format!("[{}]", vec!["7"; length].join(","));
        let text = format!("\"{}\"", "x".repeat(length));
        for value in [object, with_key_twice, array, text] {
            check(format!("{{\"messages\": [{{\"body\": {value}}}, {{\"body\": [{value}]}}]}}").as_bytes()).unwrap();
            if length <= 256 {
                check_in_every_field(&format!("[{}]", vec![value.as_str(); 16].join(",")));
                check_in_every_field(&format!("{{\"a\": {value}, \"b\": {{\"c\": {value}, \"d\": {value}}}}}"));
            }
        }
        let messages = vec!["{\"body\": [1]}"; length].join(",");
        check(format!("{{\"messages\": [{messages}]}}").as_bytes()).unwrap();
    }
}

#[test]
fn nesting_is_limited_as_through_a_tree() {
    for depth in 55..=130 {
        for (open, close) in [("[", "]"), ("{\"k\":", "}"), ("[{\"k\":", "}]")] {
            check_in_every_field(&[&open.repeat(depth), "1", &close.repeat(depth)].concat());
        }
    }
    check_in_every_field(&"[".repeat(100_000));
}

/// Short nested arrays, each long enough to shift its contents by a longer length prefix.
#[test]
fn long_lengths_at_every_depth_are_encoded_as_through_a_tree() {
    let elements = ",1".repeat(16);
    let nested = (0..100).fold("0".to_owned(), |inner, _| format!("[{inner}{elements}]"));
    check_in_every_field(&nested);
    let keys: Vec<String> = (0..16).map(|key| format!(",\"{key}\":{key}")).collect();
    let keys = keys.concat();
    check_in_every_field(&(0..100).fold("0".to_owned(), |inner, _| format!("{{\"a\":{inner}{keys}}}")));
    check_in_every_field(&(0..100).fold("0".to_owned(), |inner, _| format!("{{\"a\":{inner},\"b\":1,\"a\":2{keys}}}")));
}

fn queue() -> QueueId {
    QueueId::new(ProjectId::new("p").unwrap(), "q-1.x".parse().unwrap()).unwrap()
}

prop_compose! {
    fn any_message()(
        micros in 0..1_u64 << 53,
        bits: u64,
        ttl_s: u32,
        age_s: u64,
        claim: Option<[u8; 16]>,
        claim_count: u32,
        is_dead_letter: bool,
        trace: Option<[u8; TraceContext::BYTES]>,
        body in texts::value(),
    ) -> Option<Message> {
        let id = MessageId::new(&queue(), Rank::new(micros)?, Nonce::from_bits(bits));
        let body: Value = serde_json::from_str(&body).ok()?;
        Some(Message {
            id,
            ttl_s,
            created_s: 0,
            age_s,
            claim: claim.map(ClaimId::from_bytes),
            claim_count,
            first_claim_ms: None,
            state: None,
            origin: is_dead_letter.then(|| Origin { queue: "from".parse().unwrap(), id, claim_count }),
            trace: trace.map(TraceContext::from_bytes),
            poster: Poster::from_bytes([0; 8]),
            body: tree::to_body(&body),
        })
    }
}

proptest! {
    #[test]
    fn documents_are_serialized_as_through_a_tree(
        messages in prop::collection::vec(any_message(), 0..4),
        origins: bool,
        traces: bool,
    ) {
        let (queue, messages): (_, Vec<Message>) = (queue(), messages.into_iter().flatten().collect());
        let view = View { checksums: Checksums::Hidden, origins, traces, deliveries: false, claims: true };
        let trees = |document: &dyn Fn(&Message) -> Value| json!({ "messages": messages.iter().map(document).collect::<Vec<_>>() });

        let list = ListDocument { messages: messages::documents(&queue, &messages, view), links: None };
        let expected = trees(&|message| tree::document(&queue, message, view));
        prop_assert_eq!(to_json(&list), expected.to_string());

        let list = to_json(&ListDocument { messages: messages::popped(&messages, view), links: None });
        let claim = serde_json::from_str::<Value>(&list).unwrap()["messages"][0]["claim_id"].clone();
        let expected = trees(&|message| tree::popped(message, claim.as_str().unwrap(), view));
        prop_assert_eq!(list, expected.to_string());

        let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
        let paths: Vec<String> = ids.iter().map(|id| format!("/v2/queues/q-1.x/messages/{id}")).collect();
        prop_assert_eq!(to_json(&PostedDocument::new(&queue, &ids)), json!({ "resources": paths }).to_string());
    }
}

fn to_json(document: &impl Serialize) -> String {
    serde_json::to_string(document).unwrap()
}

#[test]
fn messagepack_without_a_json_form_is_not_serialized() {
    let binary = [0xc4, 1, 0];
    let cut_off = [0x92, 1];
    let no_text = [0xa1, 0xff];
    let no_key = [0x81, 0x90, 1];
    for msgpack in [&[][..], &binary, &cut_off, &no_text, &no_key, &[0xc1], &[0xdf, 0xff, 0xff, 0xff, 0xff]] {
        let body = Body::from_msgpack(msgpack.to_vec().into());

        assert!(serde_json::to_string(&JsonBody(&body)).is_err(), "{msgpack:?}");
    }
}
