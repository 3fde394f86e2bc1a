//! JSON goes to `MessagePack` and back as it would through a tree: the same bytes, or the same refusal.

mod texts;
mod tree;

use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use sukkal::api::wire::checksum::Checksums;
use sukkal::api::wire::json::Shown;
use sukkal::api::wire::messages::{self, ListDocument, PostedDocument};
use sukkal::api::wire::view::View;
use sukkal::domain::client::Poster;
use sukkal::domain::message::Nonce;
use sukkal::domain::{Body, ClaimId, Message, MessageId, Origin, ProjectId, QueueId, Rank};

/// Where the length of a text, array or object takes more bytes.
const LENGTHS: [usize; 13] = [0, 1, 14, 15, 16, 17, 31, 32, 33, 255, 256, 65_535, 65_536];

fn agree(post: &[u8]) -> Result<(), TestCaseError> {
    let fast = messages::parse_drafts(post);
    let simple = tree::parse_drafts(post);
    prop_assert_eq!(format!("{fast:?}"), format!("{simple:?}"), "{}", String::from_utf8_lossy(post));
    for draft in fast.iter().flatten() {
        prop_assert_eq!(shown(&Shown(&draft.body)), tree::from_body(&draft.body).to_string());
    }
    Ok(())
}

/// Agrees on a value, whatever field it stands in.
fn agree_on(value: &str) {
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
        agree(post.as_bytes()).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn posts_are_read_as_by_a_tree(post in texts::post()) {
        agree(&post)?;
    }

    #[test]
    fn values_are_read_as_by_a_tree_wherever_they_stand(value in texts::value()) {
        agree_on(&value);
    }
}

#[test]
fn most_generated_posts_are_read() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let posts = (0..500).map(|_| texts::post().new_tree(&mut runner).unwrap().current());

    let read = posts.filter(|post| messages::parse_drafts(post).is_ok_and(|drafts| !drafts.is_empty())).count();

    assert!((150..350).contains(&read), "{read} of 500");
}

#[test]
fn what_is_no_document_is_refused_as_by_a_tree() {
    for text in ["", " ", "null", "5", "\"x\"", "{}{}", "[] []", "{} x", "[]]", "\u{feff}{}", "{}\0", " {}\n", " []\t"]
    {
        agree(text.as_bytes()).unwrap();
        agree(format!("{{\"messages\": [{{\"body\": 1}}]}}{text}").as_bytes()).unwrap();
    }
}

#[test]
fn integers_beyond_64_bits_are_refused_wherever_they_stand() {
    for integer in ["9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616"] {
        for value in [integer.to_owned(), format!("[1.5, {{\"k\": [{integer}]}}]")] {
            let post = format!("{{\"messages\": [{{\"body\": 1, \"dropped\": {value}}}]}}");
            let refusal = messages::parse_drafts(post.as_bytes()).unwrap_err().to_string();
            assert_eq!(refusal, "JSON contains integer that is too large.", "{post}");
            agree_on(&value);
        }
    }
}

#[test]
fn lengths_are_written_as_by_a_tree() {
    for length in LENGTHS {
        let keys: Vec<String> = (0..length).map(|key| format!("\"{key}\":{key}")).collect();
        let object = format!("{{{}}}", keys.join(","));
        let with_key_twice = object.replacen('{', "{\"1\":[],", usize::from(length > 1));
        let array = format!("[{}]", vec!["7"; length].join(","));
        let text = format!("\"{}\"", "x".repeat(length));
        for value in [object, with_key_twice, array, text] {
            agree(format!("{{\"messages\": [{{\"body\": {value}}}, {{\"body\": [{value}]}}]}}").as_bytes()).unwrap();
            if length <= 256 {
                agree_on(&format!("[{}]", vec![value.as_str(); 16].join(",")));
                agree_on(&format!("{{\"a\": {value}, \"b\": {{\"c\": {value}, \"d\": {value}}}}}"));
            }
        }
        let messages = vec!["{\"body\": [1]}"; length].join(",");
        agree(format!("{{\"messages\": [{messages}]}}").as_bytes()).unwrap();
    }
}

#[test]
fn nesting_is_bounded_as_by_a_tree() {
    for depth in 55..=130 {
        for (open, close) in [("[", "]"), ("{\"k\":", "}"), ("[{\"k\":", "}]")] {
            agree_on(&[&open.repeat(depth), "1", &close.repeat(depth)].concat());
        }
    }
    agree_on(&"[".repeat(100_000));
}

/// Short arrays one in the other, each long enough to move what is in it.
#[test]
fn long_lengths_at_every_depth_are_written_as_by_a_tree() {
    let elements = ",1".repeat(16);
    let nested = (0..100).fold("0".to_owned(), |inner, _| format!("[{inner}{elements}]"));
    agree_on(&nested);
    let keys: Vec<String> = (0..16).map(|key| format!(",\"{key}\":{key}")).collect();
    let keys = keys.concat();
    agree_on(&(0..100).fold("0".to_owned(), |inner, _| format!("{{\"a\":{inner}{keys}}}")));
    agree_on(&(0..100).fold("0".to_owned(), |inner, _| format!("{{\"a\":{inner},\"b\":1,\"a\":2{keys}}}")));
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
        is_letter: bool,
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
            origin: is_letter.then(|| Origin { queue: "from".parse().unwrap(), id, claim_count }),
            poster: Poster::from_bytes([0; 8]),
            body: tree::to_body(&body),
        })
    }
}

proptest! {
    #[test]
    fn documents_are_shown_as_by_a_tree(messages in prop::collection::vec(any_message(), 0..4), origins: bool) {
        let (queue, messages): (_, Vec<Message>) = (queue(), messages.into_iter().flatten().collect());
        let view = View { checksums: Checksums::Hidden, origins };
        let trees = |document: &dyn Fn(&Message) -> Value| json!({ "messages": messages.iter().map(document).collect::<Vec<_>>() });

        let list = ListDocument { messages: messages::documents(&queue, &messages, view), links: None };
        let expected = trees(&|message| tree::document(&queue, message, origins));
        prop_assert_eq!(shown(&list), expected.to_string());

        let list = shown(&ListDocument { messages: messages::popped(&messages, view), links: None });
        let claim = serde_json::from_str::<Value>(&list).unwrap()["messages"][0]["claim_id"].clone();
        let expected = trees(&|message| tree::popped(message, claim.as_str().unwrap(), origins));
        prop_assert_eq!(list, expected.to_string());

        let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
        let paths: Vec<String> = ids.iter().map(|id| format!("/v2/queues/q-1.x/messages/{id}")).collect();
        prop_assert_eq!(shown(&PostedDocument::new(&queue, &ids)), json!({ "resources": paths }).to_string());
    }
}

fn shown(document: &impl Serialize) -> String {
    serde_json::to_string(document).unwrap()
}

#[test]
fn what_never_came_from_json_is_not_shown() {
    let binary = [0xc4, 1, 0];
    let cut_off = [0x92, 1];
    let no_text = [0xa1, 0xff];
    let no_key = [0x81, 0x90, 1];
    for msgpack in [&[][..], &binary, &cut_off, &no_text, &no_key, &[0xc1], &[0xdf, 0xff, 0xff, 0xff, 0xff]] {
        let body = Body::from_msgpack(msgpack.to_vec().into());

        assert!(serde_json::to_string(&Shown(&body)).is_err(), "{msgpack:?}");
    }
}
