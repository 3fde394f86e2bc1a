//! `Sukkal-Warning`: requests that are accepted although a part of them has no effect. The status
//! and the body are as without the warning.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{Answer, Project, answered, new_project};
use support::sukkal::CLIENT;

const NO_DEAD_LETTER_QUEUE: &str = "\"_max_claim_count\" has no effect without \"_dead_letter_queue\"; set both";
const DELAY_IGNORED: &str = "\"delay\" is ignored, because the queue does not delay messages; \
    set its \"_enable_message_delay\" to true";

async fn warnings_of(request: RequestBuilder, status: u16) -> Vec<String> {
    warnings(&answered(request, status).await)
}

fn warnings(answer: &Answer) -> Vec<String> {
    let values = answer.headers.get_all("sukkal-warning").iter();
    values.map(|value| value.to_str().expect("warnings are ASCII").to_owned()).collect()
}

fn add(key: &str, value: impl Into<Value>) -> Value {
    let value: Value = value.into();
    json!({"op": "add", "path": format!("/metadata/{key}"), "value": value})
}

fn post(api: &Project, queue: &str, messages: &Value) -> RequestBuilder {
    api.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages }))
}

#[tokio::test]
async fn an_unknown_reserved_key_gets_a_warning_with_the_nearest_key() {
    let api = new_project();
    let misspelled = json!({"_max_claim_cuont": 3, "_dead_letter_queue": "dead", "team": "billing"});
    let expected = "unknown metadata key \"_max_claim_cuont\" has no effect; did you mean \"_max_claim_count\"?";

    assert_eq!(warnings_of(api.put("/v2/queues/q").json(&misspelled), 201).await, [expected]);
    assert_eq!(warnings_of(api.put("/v2/queues/q").json(&misspelled), 204).await, [expected]);

    let patch = json!([add("_mine", 1)]);
    let own = "unknown metadata key \"_mine\" has no effect; name keys of your own without a leading \"_\"";
    assert_eq!(warnings_of(api.patch("q", &patch), 200).await, [expected, own]);
}

#[tokio::test]
async fn known_keys_and_unreserved_keys_get_no_warning() {
    let api = new_project();
    let metadata = json!({
        "_max_messages_post_size": 1000, "_default_message_ttl": 60, "_default_message_delay": 1,
        "_dead_letter_queue": "dead", "_dead_letter_queue_messages_ttl": 60, "_max_claim_count": 3,
        "_enable_encrypt_messages": true, "_retry_policy": {}, "_shards": 2, "_shards_per_tenant": 1, "team_": "_x",
    });

    assert_eq!(warnings_of(api.put("/v2/queues/q").json(&metadata), 201).await, [""; 0]);
    assert_eq!(warnings_of(api.patch("q", &json!([add("team", "a")])), 200).await, [""; 0]);
    assert_eq!(warnings_of(post(&api, "q", &json!([{"body": 1, "delay": 5}])), 201).await, [""; 0]);
}

#[tokio::test]
async fn a_claim_count_without_a_dead_letter_queue_gets_a_warning() {
    let api = new_project();

    assert_eq!(
        warnings_of(api.put("/v2/queues/q").json(&json!({"_max_claim_count": 3})), 201).await,
        [NO_DEAD_LETTER_QUEUE]
    );
    let patch = json!([add("team", "billing")]);
    assert_eq!(warnings_of(api.patch("q", &patch), 200).await, [NO_DEAD_LETTER_QUEUE]);
    let patch = json!([add("_dead_letter_queue", "dead")]);
    assert_eq!(warnings_of(api.patch("q", &patch), 200).await, [""; 0]);
    let patch = json!([{"op": "remove", "path": "/metadata/_max_claim_count"}, add("_dead_letter_queue", Value::Null)]);
    assert_eq!(warnings_of(api.patch("q", &patch), 200).await, [""; 0]);
}

#[tokio::test]
async fn a_delay_that_the_queue_ignores_gets_a_warning() {
    let api = new_project();

    // The first post creates the queue; the second finds it in the cache of known queues.
    for _ in 0..2 {
        let delayed = json!([{"body": 1}, {"body": 2, "delay": 60}]);
        assert_eq!(warnings_of(post(&api, "q", &delayed), 201).await, [DELAY_IGNORED]);
        assert_eq!(warnings_of(post(&api, "q", &json!([{"body": 3, "delay": "soon"}])), 201).await, [DELAY_IGNORED]);
        assert_eq!(warnings_of(post(&api, "q", &json!([{"body": 4, "delay": 0}, {"body": 5}])), 201).await, [""; 0]);
    }
    assert_eq!(api.feed("q", "&limit=20").await.len(), 10, "no message is delayed");
}

#[tokio::test]
async fn headers_that_name_different_projects_get_a_warning() {
    let api = new_project();
    let list = |headers: &[(&str, &str)]| {
        let request = api.bare(Method::GET, "/v2/queues").header("Client-ID", CLIENT);
        headers.iter().fold(request, |request, (name, project)| request.header(*name, *project))
    };
    let warning = |used: &str| {
        format!(
            "X-Project-ID, X-Tenant-Id and X-Tenant name different projects; {used} is used; send one of the headers"
        )
    };

    for (headers, used) in [
        (&[("X-Project-ID", "a"), ("X-Tenant-Id", "b")][..], "X-Project-ID"),
        (&[("X-Tenant", "b"), ("X-Project-ID", "a"), ("X-Tenant-Id", "a")], "X-Project-ID"),
        (&[("X-Tenant", "b"), ("X-Tenant-Id", "a")], "X-Tenant-Id"),
    ] {
        assert_eq!(warnings_of(list(headers), 200).await, [warning(used)], "{headers:?}");
    }
    let same = [("X-Tenant", "a"), ("X-Project-ID", "a"), ("X-Tenant-Id", "a")];
    assert_eq!(warnings_of(list(&same), 200).await, [""; 0]);
}

/// A key may be any text. The header shows a few characters of it, escaped.
#[tokio::test]
async fn keys_are_escaped_and_shortened_in_the_header() {
    let api = new_project();
    let keys = ["_a\r\nX-Injected: 1\r\n\r\n", "_\u{0}\u{7f}\u{85}é😀", &format!("_{}", "\n".repeat(30_000))];
    let shown = [
        "\"_a\\r\\nX-Injected: 1\\r\\n\\r\\n\"".to_owned(),
        "\"_\\u{0}\\u{7f}\\u{85}\\u{e9}\\u{1f600}\"".to_owned(),
        format!("\"_{}...\"", "\\n".repeat(31)),
    ];
    for (key, shown) in keys.iter().zip(&shown) {
        let answer = answered(api.put("/v2/queues/q").json(&json!({ *key: 1 })), 201).await;
        let expected =
            format!("unknown metadata key {shown} has no effect; name keys of your own without a leading \"_\"");
        assert_eq!(warnings(&answer), [expected]);
        assert_eq!(answer.header("x-injected"), None);
        answered(api.delete("/v2/queues/q"), 204).await;
    }

    let many: serde_json::Map<String, Value> = (0..900).map(|key| (format!("_{key}"), json!(1))).collect();
    let warnings = warnings_of(api.put("/v2/queues/q").json(&many), 201).await;
    assert_eq!(warnings.len(), 5);
    assert_eq!(warnings[4], "896 more unknown metadata keys have no effect");
}
