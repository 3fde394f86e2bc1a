//! `Sukkal-Warning`: requests that are accepted although a part of them has no effect. The status
//! and the body are as without the warning.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use sukkal::api::routes;

use super::{Answer, Project, answered, new_project, refused, send};
use crate::clients::contract::with_all_routes;
use support::redis::RedisServer;
use support::sukkal::{CLIENT, Sukkal};

const DELAY_IGNORED: &str = "\"delay\" is ignored, because the queue does not delay messages; \
    set its \"_enable_message_delay\" to true";

const INVALID_ID: &str = "an id was ignored, because it cannot be the id of a message of this queue";

pub(super) async fn warnings_of(request: RequestBuilder, status: u16) -> Vec<String> {
    warnings(&answered(request, status).await)
}

fn warnings(answer: &Answer) -> Vec<String> {
    let values = answer.headers.get_all("sukkal-warning").iter();
    values.map(|value| value.to_str().expect("warnings are ASCII").to_owned()).collect()
}

pub(super) fn post(api: &Project, queue: &str, messages: &Value) -> RequestBuilder {
    api.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages }))
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
async fn a_message_that_expires_before_its_delay_ends_gets_a_warning() {
    let api = new_project();
    answered(api.put("/v2/queues/q").json(&json!({"_default_message_delay": 1})), 201).await;
    let expected = "a message expires before its delay ends, so nobody receives it; give it a longer \"ttl\"";

    for (delay, ttl, warnings) in [(60, 60, &[expected][..]), (59, 60, &[])] {
        let delayed = json!([{"body": 1}, {"body": 2, "delay": delay, "ttl": ttl}]);
        assert_eq!(warnings_of(post(&api, "q", &delayed), 201).await, warnings, "{delay}");
    }
}

#[tokio::test]
async fn a_deletion_warns_of_what_it_ignores() {
    let api = new_project();
    let id = api.post_bodies("q", &[json!(1)]).await.remove(0);
    let claims = "\"claim_ids\" is ignored, because the option message_delete_with_claim_id of the service is false; \
                  claimed messages were deleted too";
    let unknown = "00000000-0000-0000-0000-000000000000";

    for (path, expected) in [
        ("/not-an-id".to_owned(), &[INVALID_ID][..]),
        ("?ids=not-an-id".to_owned(), &[INVALID_ID]),
        (format!("?ids=not-an-id,{id}&claim_ids={unknown}"), &[INVALID_ID, claims]),
        // It is deleted already.
        (format!("?ids={id}"), &[]),
        (format!("/{id}"), &[]),
    ] {
        let path = format!("/v2/queues/q/messages{path}");
        assert_eq!(warnings_of(api.delete(&path), 204).await, expected, "{path}");
    }
}

#[tokio::test]
async fn a_subscriber_that_subscribes_again_with_other_options_gets_a_warning() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project("p");
    let subscribe = |ttl: u32, ordered: bool| {
        let body = json!({"subscriber": "http://example.org/", "ttl": ttl, "options": {"ordered": ordered}});
        warnings_of(api.post("/v2/queues/q/subscriptions", &body), 201)
    };
    let unchanged = "the subscription exists, and its settings, which are different, were not changed; \
                     change them with PATCH, or with `sukkal subscription set`";

    assert_eq!(subscribe(600, true).await, [""; 0]);
    assert_eq!(subscribe(600, true).await, [""; 0]);
    assert_eq!(subscribe(600, false).await, [unchanged]);
    assert_eq!(subscribe(700, true).await, [unchanged]);
}

/// A post with such a key would be repeated although the client has protected it.
#[tokio::test]
async fn a_misspelled_header_of_a_post_gets_a_warning() {
    let api = new_project();
    for (name, expected) in [
        (
            "Idempotency-Kye",
            &["unknown header \"idempotency-kye\" has no effect; did you mean \"idempotency-key\"?"][..],
        ),
        (
            "X-Idempotency-Key",
            &["unknown header \"x-idempotency-key\" has no effect; did you mean \"idempotency-key\"?"],
        ),
        ("Idempotency-Key", &[]),
        ("If-None-Match", &[]),
    ] {
        let request = post(&api, "q", &json!([{"body": 1}])).header(name, "k");
        assert_eq!(warnings_of(request, 201).await, expected, "{name}");
    }
}

#[tokio::test]
async fn a_purge_of_nothing_gets_a_warning() {
    let api = new_project();
    answered(api.put("/v2/queues/q"), 201).await;
    let purge = |kinds: &[&str]| warnings_of(api.post("/v2/queues/q/purge", &json!({ "resource_types": kinds })), 204);

    assert_eq!(purge(&[]).await, ["\"resource_types\" is empty, so nothing was deleted"]);
    assert_eq!(purge(&["messages"]).await, [""; 0]);
}

#[tokio::test]
async fn what_a_subscription_cannot_use_gets_a_warning_or_is_refused() {
    let api = new_project();
    let subscribe = |options: Value| {
        api.post("/v2/queues/q/subscriptions", &json!({ "subscriber": "http://example.org/", "options": options }))
    };
    let expected = [
        "the option \"ttl\" has no effect; send \"ttl\" beside \"options\"",
        "the option \"secret\" has no effect; send \"secret\" beside \"options\"",
        "the option \"post_data\" does not contain \"$zaqar_message$\" with its quotes, so requests do not contain the \
         message",
    ];
    let options = json!({ "ttl": 600, "secret": "x", "post_data": "{\"m\": $zaqar_message$}" });
    assert_eq!(warnings_of(subscribe(options), 201).await, expected);
    let later = json!({ "subscriber": "http://example.org/", "since": "2020-01-01T00:00:00Z" });
    let unchanged = "the subscription exists, and its settings, which are different, were not changed; \
                     change them with PATCH, or with `sukkal subscription set`";
    assert_eq!(warnings_of(api.post("/v2/queues/q/subscriptions", &later), 201).await, [unchanged]);
    let never = json!({ "subscriber": "http://example.org/2", "since": "2099-01-01T00:00:00Z" });
    let text = refused(api.post("/v2/queues/q/subscriptions", &never), 400, "Invalid API request").await;
    let too_late = "since is in the future; deliveries begin at the latest with the next message";
    assert_eq!(text, too_late);
    let id = answered(subscribe(json!({})), 201).await.json()["subscription_id"].as_str().unwrap().to_owned();
    let redeliver =
        api.post(&format!("/v2/queues/q/subscriptions/{id}/redeliver"), &json!({ "since": "2099-01-01T00:00:00Z" }));
    assert_eq!(refused(redeliver, 400, "Invalid API request").await, too_late);
}

/// Lists of queues filter by metadata, so `prefix=a` finds the queues whose metadata has `prefix`.
#[tokio::test]
async fn a_filter_that_leaves_nothing_gets_a_warning() {
    let api = new_project();
    answered(api.put("/v2/queues/q").json(&json!({ "team": "a" })), 201).await;

    let expected = "query parameter \"prefix\" filters by a metadata key of this name";
    assert_eq!(warnings_of(api.get("/v2/queues?prefix=q"), 200).await, [expected]);
    assert_eq!(warnings_of(api.get("/v2/queues?team=a"), 200).await, [""; 0]);
}

/// The sender of `{"limit": 5}` in a `GET`, or of a reason in a pause, would believe in its effect.
#[tokio::test]
async fn a_body_of_a_request_that_takes_none_gets_a_warning() {
    let api = new_project();
    answered(api.put("/v2/queues/q"), 201).await;
    let body = json!({"limit": 5});
    for (method, path, status) in [
        (Method::GET, "/v2/queues/q/messages", 200),
        (Method::POST, "/v2/queues/q/pause", 204),
        (Method::DELETE, "/v2/queues/q/messages/00000000-0000-7000-8000-000000000000", 204),
        (Method::DELETE, "/v2/queues/q", 204),
    ] {
        let with_body = warnings_of(api.request(method.clone(), path).json(&body), status).await;
        assert!(with_body.contains(&"the body has no effect, because this request takes none".to_owned()), "{path}");
        let without = warnings_of(api.request(method, path), status).await;
        assert!(!without.iter().any(|warning| warning.contains("body")), "{path}: {without:?}");
    }
    assert_eq!(warnings_of(api.post("/v2/queues/q/claims", &json!({})), 204).await, [""; 0]);
    answered(api.put("/v2/queues/q"), 201).await;
    // Proxies and clients of streams send a body of no bytes like this.
    let chunks = |chunks: &str| {
        format!("{}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n", api.head("POST", "/v2/queues/q/pause"))
    };
    assert_eq!(warnings(&api.send_raw(chunks("")).await), [""; 0]);
    assert_eq!(warnings(&api.send_raw(chunks("2\r\n{}\r\n")).await).len(), 1);
}

/// A reader that has mixed up its markers would see an empty page for ever.
#[tokio::test]
async fn an_invalid_marker_gets_a_warning() {
    let api = new_project();
    let list = |kind: &str, marker: &str| api.get(&format!("/v2/{kind}/q/messages?marker={marker}"));
    let expected = |noun: &str| {
        format!(
            "the marker is not valid, so the page is empty; use the id of a message of this {noun}, or the link of a page"
        )
    };
    let id = api.post_bodies("q", &[json!(1)]).await.remove(0);
    answered(api.put("/v2/topics/q"), 201).await;

    for marker in ["x", "%00", "00000000-0000-0000-0000-000000000000"] {
        assert_eq!(warnings_of(list("queues", marker), 200).await, [expected("queue")], "{marker}");
        assert_eq!(warnings_of(list("topics", marker), 200).await, [expected("topic")], "{marker}");
    }
    assert_eq!(warnings_of(list("queues", &id), 200).await, [""; 0]);
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
    assert_eq!(warnings[4], "further unknown metadata keys have no effect");
}

#[tokio::test]
async fn a_parameter_without_an_effect_beside_another_one_gets_a_warning() {
    let api = new_project();
    let id = api.post_bodies("q", &[json!(1)]).await.remove(0);
    let beside = |name: &str, other: &str| format!("query parameter \"{name}\" has no effect beside \"{other}\"");
    let messages = |query: &str| format!("/v2/queues/q/messages?{query}");

    let page = api.get(&messages(&format!("ids={id}&limit=1&include_origin=true&marker={id}")));
    assert_eq!(warnings_of(page, 200).await, [beside("marker", "ids"), beside("limit", "ids")]);
    let pop = api.delete(&messages("pop=1&claim_ids=00000000-0000-0000-0000-000000000000"));
    assert_eq!(warnings_of(pop, 200).await, [beside("claim_ids", "pop")]);
    let deletion = api.delete(&messages(&format!("ids={id}&wait=1")));
    assert_eq!(warnings_of(deletion, 204).await, [beside("wait", "ids")]);
    let stream = api.get(&messages("wait=9")).header("Accept", "text/event-stream").send().await.unwrap();
    assert_eq!(stream.headers()["Sukkal-Warning"], beside("wait", "Accept: text/event-stream"));
}

#[tokio::test]
async fn a_list_that_is_to_have_names_gets_a_warning() {
    let api = new_project();
    for kind in ["queue", "topic"] {
        let text = format!("\"name\" selects the {kind}s with \"true\" in their names; a list always has the names");
        assert_eq!(warnings_of(api.get(&format!("/v2/{kind}s?name=true")), 200).await, [text]);
        assert_eq!(warnings_of(api.get(&format!("/v2/{kind}s?name=trued")), 200).await, [""; 0]);
    }
}

/// Doubles the last character.
fn misspelled(name: &str) -> String {
    name.chars().chain(name.chars().last()).collect()
}

/// A list of queues or topics takes other parameters for filters by metadata.
#[tokio::test]
async fn each_route_warns_of_each_misspelled_query_parameter() {
    let all = [
        ("SUKKAL_ADMIN_MODE", "true"),
        ("SUKKAL_POOLING__ENABLED", "true"),
        ("SUKKAL_AUTH__STRATEGIES", "none,tokens"),
    ];
    let (redis, sukkal) = (RedisServer::start(), Sukkal::start_with("memory:", &all));
    let api = sukkal.project("p");
    let pool = api.put("/v2/pools/one").json(&json!({ "uri": redis.url(), "weight": 1 })).header("X-Roles", "admin");
    answered(pool, 201).await;
    for path in ["/v2/queues/q", "/v2/topics/t"] {
        answered(api.put(path), 201).await;
    }
    let mut checked = 0;
    for (template, methods) in routes(&with_all_routes()) {
        let path = template.replace("{queue_name}", "q").replace("{topic_name}", "t").replace(['{', '}'], "");
        let is_filtered = ["/v2/queues", "/v2/topics"].contains(&&*path);
        for (method, parameters) in methods {
            for name in parameters.names {
                let wrong = misspelled(name);
                let answer =
                    send(api.request(method.clone(), &format!("{path}?{wrong}=1")).header("X-Roles", "admin")).await;
                let expected = if is_filtered {
                    format!(
                        "query parameter \"{wrong}\" filters by a metadata key of this name; did you mean \"{name}\"?"
                    )
                } else {
                    format!("unknown query parameter \"{wrong}\" has no effect; did you mean \"{name}\"?")
                };
                // The id in the path is no id of a message.
                let deletes_one =
                    method == Method::DELETE && path.ends_with("/messages/message_id") && !path.contains("/claims/");
                let of_id = deletes_one.then(|| INVALID_ID.to_owned());
                let expected: Vec<_> = of_id.into_iter().chain([expected]).collect();
                assert_eq!(warnings(&answer), expected, "{method} {path}");
                checked += 1;
            }
        }
    }
    assert!(checked > 50, "{checked}");
}

#[tokio::test]
async fn each_field_without_a_meaning_gets_a_warning() {
    let api = new_project();
    answered(api.put("/v2/queues/q"), 201).await;
    let (messages, claims) = ("/v2/queues/q/messages", "/v2/queues/q/claims");
    let subscriber = "http://example.org/";
    for (path, body, status, expected) in [
        (
            messages,
            json!({"messages": [{"body": 1, "dealy": 5}, {"body": 2, "dealy": 5}]}),
            201,
            &["unknown message field \"dealy\" has no effect; did you mean \"delay\"?"][..],
        ),
        (
            messages,
            json!({"messages": [{"body": 1, "tll": 60, "x": 1}]}),
            201,
            &[
                "unknown message field \"tll\" has no effect; did you mean \"ttl\"?",
                "unknown message field \"x\" has no effect",
            ],
        ),
        (
            messages,
            json!({"messages": [{"body": 1, "tenent": "a"}]}),
            201,
            &["unknown message field \"tenent\" has no effect; did you mean \"tenant\"?"],
        ),
        (
            messages,
            json!({"messages": [{"body": 1, "tenant": "a"}]}),
            201,
            &["\"tenant\" is ignored, because the queue is not fair; set its \"_shards\" to the number of shards"],
        ),
        (messages, json!({"messages": [{"body": 1}], "ttl": 60}), 201, &["unknown field \"ttl\" has no effect"]),
        (claims, json!({"limit": 1, "ttl": 60}), 201, &["field \"limit\" has no effect here; it is a query parameter"]),
        (
            "/v2/queues/q/subscriptions",
            json!({"subscriber": subscriber, "tll": 60, "options": {"orderd": true, "team": "a"}}),
            201,
            &[
                "unknown field \"tll\" has no effect; did you mean \"ttl\"?",
                "unknown subscription option \"orderd\" has no effect; did you mean \"ordered\"?",
                "unknown subscription option \"team\" has no effect",
            ],
        ),
        (
            "/v2/queues/q/subscriptions",
            json!({"subscriber": "http://example.org/2", "options": {"_retry_policy": {"minimum_dealy": 5}}}),
            201,
            &["unknown key of a retry policy \"minimum_dealy\" has no effect; did you mean \"minimum_delay\"?"],
        ),
        (
            "/v2/queues/q/subscriptions",
            json!({"subscriber": "http://example.org/3", "options": {"subject": "New", "post_headers": {}}}),
            201,
            &["the option \"subject\" has no effect for this kind of subscriber"],
        ),
        (
            "/v2/queues/q/purge",
            json!({"resource_types": ["messages"], "resource_type": 1}),
            204,
            &["unknown field \"resource_type\" has no effect; did you mean \"resource_types\"?"],
        ),
    ] {
        assert_eq!(warnings_of(api.post(path, &body), status).await, expected, "{body}");
    }
    let patch = json!([{"op": "add", "path": "/metadata/a", "value": 1, "valeu": 2}]);
    let expected = ["unknown field of an operation \"valeu\" has no effect; did you mean \"value\"?"];
    assert_eq!(warnings_of(api.patch("q", &patch), 200).await, expected);
    let policy = json!({"_retry_policy": {"maximum_dealy": 5}});
    let expected = ["unknown key of a retry policy \"maximum_dealy\" has no effect; did you mean \"maximum_delay\"?"];
    assert_eq!(warnings_of(api.put("/v2/queues/r").json(&policy), 201).await, expected);
    let both = json!({"name": "both", "metadata": {"_default_message_ttl": 600}});
    assert_eq!(warnings_of(api.put("/v2/queues/both").json(&both), 201).await.len(), 1);
    let nested = json!({"metadata": {"team": "billing"}});
    let expected = [
        "\"metadata\" is one of your own metadata keys; the body itself is the metadata, so send the value of this key alone",
    ];
    assert_eq!(warnings_of(api.put("/v2/queues/nested").json(&nested), 201).await, expected);
    let of_claims = json!({"_max_claim_count": 3});
    let expected = ["\"_max_claim_count\" has no effect in a topic, whose messages are not claimed"];
    assert_eq!(warnings_of(api.put("/v2/topics/t").json(&of_claims), 201).await, expected);
    let message = json!({"messages": [{"body": 1, "tenant": "a"}]});
    let of_topic = ["\"tenant\" has no effect in a topic, whose messages are not claimed"];
    assert_eq!(warnings_of(api.post("/v2/topics/t/messages", &message), 201).await, of_topic);
}

#[tokio::test]
async fn a_queue_that_does_not_exist_gets_a_warning() {
    let api = new_project();

    assert_eq!(warnings_of(api.get("/v2/queues/mispelled"), 200).await, ["the queue does not exist"]);
    assert_eq!(warnings_of(api.get("/v2/topics/mispelled"), 200).await, ["the topic does not exist"]);
    assert_eq!(warnings_of(api.get("/v2/queues/mispelled/stats"), 200).await, ["the queue does not exist"]);
    for action in ["purge", "resume"] {
        let request = api.request(Method::POST, &format!("/v2/queues/mispelled/{action}"));
        assert_eq!(warnings_of(request, 204).await, ["the queue does not exist"], "{action}");
    }
    answered(api.put("/v2/queues/q"), 201).await;
    for path in ["/v2/queues/q", "/v2/queues/q/stats"] {
        assert_eq!(warnings_of(api.get(path), 200).await, [""; 0], "{path}");
    }
}

/// A worker or an observer of a misspelled queue would wait for ever.
#[tokio::test]
async fn a_consumer_that_finds_nothing_in_a_queue_that_does_not_exist_gets_a_warning() {
    let api = new_project();
    answered(api.put("/v2/queues/q"), 201).await;
    for (method, path, status) in [
        (Method::POST, "claims", 204),
        (Method::GET, "claims", 200),
        (Method::DELETE, "messages?pop=1", 200),
        (Method::GET, "messages", 200),
        (Method::GET, "subscriptions", 200),
    ] {
        let warned = async |queue: &str| {
            warnings_of(api.request(method.clone(), &format!("/v2/queues/{queue}/{path}")), status).await
        };
        assert_eq!(warned("misspelled").await, ["the queue does not exist"], "{method} {path}");
        assert_eq!(warned("q").await, [""; 0], "{method} {path}");
    }
    let topic = api.get("/v2/topics/misspelled/messages");
    assert_eq!(warnings_of(topic, 200).await, ["the topic does not exist"]);
    let stream = api.get("/v2/queues/misspelled/messages").header("Accept", "text/event-stream");
    assert_eq!(stream.send().await.unwrap().headers()["sukkal-warning"], "the queue does not exist");
}

#[tokio::test]
async fn a_parameter_without_a_value_and_credentials_without_effect_get_a_warning() {
    let api = new_project();
    answered(api.put("/v2/queues/q"), 201).await;
    for (query, expected) in [
        ("echo", &["query parameter \"echo\" has no value, and so no effect"][..]),
        ("limit=&marker=", &["query parameter \"limit\" has no value, and so no effect"]),
        ("project_id=p", &["unknown query parameter \"project_id\" has no effect"]),
        (
            "a=1&b=1&c=1&d=1&e=1&f=1&a=2",
            &[
                "unknown query parameter \"a\" has no effect",
                "unknown query parameter \"b\" has no effect",
                "unknown query parameter \"c\" has no effect",
                "unknown query parameter \"d\" has no effect",
                "further unknown query parameters have no effect",
            ],
        ),
        (
            "limit=5&limit=%36",
            &["query parameter \"limit\" is repeated, and only its last value has an effect; send it once"],
        ),
        ("%65cho=true&limit=5", &[]),
    ] {
        assert_eq!(warnings_of(api.get(&format!("/v2/queues/q/messages?{query}")), 200).await, expected, "{query}");
    }
}
