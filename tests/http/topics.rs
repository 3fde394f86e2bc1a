//! Topics (fact sheet 11): feeds for subscribers and observers, beside the queues of a project.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use uuid::Uuid;

use super::pools::Pooled;
use super::subscriptions::{self, URI};
use super::{
    INVALID_QUEUE, INVALID_REQUEST, NO_ROUTE, NOT_FOUND, PATCH_TYPE, Project, answered, follow, ids, new_project, pick,
    refused, text,
};
use crate::push::LOCAL;
use crate::push::endpoint::{Endpoint, Received};
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};

/// The two resources that have the name `n`.
const BOTH: [&str; 2] = ["/v2/queues/n", "/v2/topics/n"];

async fn get(api: &Api, path: &str) -> Value {
    answered(api.get(path), 200).await.json()
}

async fn names(api: &Api, path: &str) -> Vec<Value> {
    let items = if path.starts_with("/v2/topics") { "topics" } else { "queues" };
    pick(&follow(api, path, items).await.into(), "name")
}

fn patch(api: &Api, path: &str, operations: &Value) -> RequestBuilder {
    api.request(Method::PATCH, path).header("Content-Type", PATCH_TYPE).body(operations.to_string())
}

/// Posts messages with these bodies, and returns their ids.
async fn post(api: &Api, path: &str, bodies: &[Value]) -> Vec<String> {
    let messages: Vec<Value> = bodies.iter().map(|body| json!({"body": body, "ttl": 300})).collect();
    let posted = answered(api.post(&format!("{path}/messages"), &json!({"messages": messages})), 201).await;
    let place = format!("{path}/messages");
    assert!(posted.header("location").unwrap().starts_with(&place), "{posted:?}");
    assert!(posted.json()["resources"].as_array().unwrap().iter().all(|href| text(href).starts_with(&place)));
    ids(&posted.json())
}

async fn bodies(api: &Api, path: &str) -> Vec<Value> {
    pick(&follow(api, &format!("{path}/messages?echo=true&limit=2"), "messages").await.into(), "body")
}

/// Returns everything that clients see of a queue or a topic, without ages.
async fn seen(api: &Api, path: &str) -> Value {
    let ids = pick(&follow(api, &format!("{path}/messages?echo=true"), "messages").await.into(), "id");
    json!([
        get(api, path).await,
        ids,
        get(api, &format!("{path}/stats")).await["messages"]["total"],
        pick(&get(api, &format!("{path}/subscriptions")).await["subscriptions"], "id"),
    ])
}

#[tokio::test]
async fn a_topic_and_a_queue_of_one_name_share_nothing() {
    let project = subscriptions::new_project();
    for (path, value) in BOTH.into_iter().zip(["of queue", "of topic"]) {
        let created = answered(project.put(path).json(&json!({"key": value})), 201).await;
        assert_eq!((created.header("location"), &*created.text), (Some(path), ""));
        answered(project.put(path).json(&json!({"key": "other"})), 204).await;
    }
    for (own, other) in [(BOTH[0], BOTH[1]), (BOTH[1], BOTH[0])] {
        let before = seen(&project, other).await;

        let posted = post(&project, own, &[json!(own), json!(2), json!(3)]).await;
        let subscriber = json!({"subscriber": URI, "ttl": 3_600});
        let created = answered(project.post(&format!("{own}/subscriptions"), &subscriber), 201).await;
        assert_eq!(created.header("location"), Some(&*format!("{own}/subscriptions")));
        answered(patch(&project, own, &json!([{"op": "add", "path": "/metadata/k", "value": 1}])), 200).await;

        assert_eq!(seen(&project, other).await, before, "{own}");
        assert_eq!(bodies(&project, own).await, [json!(own), json!(2), json!(3)]);
        let message = format!("{own}/messages/{}", posted[0]);
        assert_eq!(get(&project, &message).await["href"], message);
        let there = format!("{other}/messages/{}", posted[0]);
        let noun = if other == BOTH[0] { "queue" } else { "topic" };
        assert_eq!(
            refused(project.get(&there), 404, NOT_FOUND).await,
            format!("No messages with IDs: ['{}'] found in the {noun} n for project {}.", posted[0], project.id)
        );
        answered(project.delete(&there), 204).await;
        let id = created.json()["subscription_id"].clone();
        let subscription = get(&project, &format!("{own}/subscriptions/{}", text(&id))).await;
        assert_eq!(subscription["source"], "n");
        refused(project.get(&format!("{other}/subscriptions/{}", text(&id))), 404, NOT_FOUND).await;
        assert_eq!(get(&project, &format!("{own}/stats")).await["messages"]["total"], 3);
        answered(project.request(Method::POST, &format!("{own}/purge")), 204).await;
        assert_eq!(seen(&project, other).await, before, "{own}");
        post(&project, own, &[json!(0)]).await;
    }

    let queue = seen(&project, BOTH[0]).await;
    answered(project.delete(BOTH[1]), 204).await;
    assert_eq!(seen(&project, BOTH[0]).await, queue);
    assert!(bodies(&project, BOTH[1]).await.is_empty());
}

#[tokio::test]
async fn lists_of_queues_and_of_topics_do_not_mix() {
    let project = new_project();
    let (queues, topics) = (["a", "ab", "b", "x"], ["a", "aa", "c", "x.1"]);
    for queue in queues {
        answered(project.put(&format!("/v2/queues/{queue}")), 201).await;
    }
    for topic in topics {
        answered(project.put(&format!("/v2/topics/{topic}")).json(&json!({"of": topic})), 201).await;
    }

    for limit in 1..=5 {
        assert_eq!(names(&project, &format!("/v2/queues?limit={limit}")).await, queues);
        assert_eq!(names(&project, &format!("/v2/topics?limit={limit}")).await, topics);
    }
    for (query, queues, topics) in [
        ("marker=a", &["ab", "b", "x"][..], &["aa", "c", "x.1"][..]),
        ("marker=b", &["x"], &["c", "x.1"]),
        ("marker=x", &[], &["x.1"]),
        ("marker=~", &[], &[]),
        ("marker=~a", &[], &[]),
        ("name_prefix=a", &["a", "ab"], &["a", "aa"]),
        ("name_prefix=a&marker=a", &["ab"], &["aa"]),
        ("name_prefix=~", &[], &[]),
        ("name=b", &["ab", "b"], &[]),
        ("name=~", &[], &[]),
    ] {
        assert_eq!(names(&project, &format!("/v2/queues?{query}")).await, queues, "{query}");
        assert_eq!(names(&project, &format!("/v2/topics?{query}")).await, topics, "{query}");
    }
    // Links do not repeat filters of metadata.
    assert_eq!(pick(&get(&project, "/v2/topics?of=aa").await["topics"], "name"), ["aa"]);
    assert_eq!(get(&project, "/v2/queues?of=aa").await["queues"], json!([]));
    assert_eq!(get(&project, "/v2/queues?with_count=true").await["count"], 4);
    let page = get(&project, "/v2/topics?with_count=true&detailed=true&with_stats=true&limit=1").await;
    assert_eq!(page["count"], names(&project, "/v2/topics").await.len());
    let topic = &page["topics"][0];
    assert_eq!((&topic["href"], &topic["stats"]["available"]), (&json!("/v2/topics/a"), &json!(0)));
    assert_eq!(topic["metadata"]["of"], "a");
    assert!(text(&page["links"][0]["href"]).starts_with("/v2/topics?"), "{page}");
    answered(project.delete("/v2/topics/x.1"), 204).await;
    assert_eq!(names(&project, "/v2/topics?limit=2").await, topics[..3]);
    assert_eq!(get(&project, "/v2/queues?with_count=true").await["count"], 4);
    let empty = Project::of(&project.server, &format!("project-{}", Uuid::new_v4()));
    assert_eq!(get(&empty, "/v2/topics").await, json!({"topics": [], "links": []}));
}

#[tokio::test]
async fn a_topic_shows_only_the_defaults_that_apply_to_it() {
    let project = new_project();
    let defaults =
        json!({"_max_messages_post_size": 262_144, "_default_message_ttl": 3_600, "_default_message_delay": 0});

    assert_eq!(get(&project, "/v2/topics/t").await, defaults);
    assert_eq!(
        refused(patch(&project, "/v2/topics/t", &json!([])), 404, NOT_FOUND).await,
        format!("Topic t does not exist for project {}", project.id)
    );
    answered(project.put("/v2/topics/t"), 201).await;
    assert_eq!(get(&project, "/v2/topics/t").await, defaults);
    let change = json!([{"op": "replace", "path": "/metadata/_default_message_ttl", "value": 77}]);
    let changed = answered(patch(&project, "/v2/topics/t", &change), 200).await.json();
    assert_eq!((changed["_default_message_ttl"].clone(), changed.as_object().unwrap().len()), (json!(77), 3));
}

#[tokio::test]
async fn the_name_of_a_topic_follows_the_rule_for_queues() {
    let project = subscriptions::new_project();

    for name in ["~t", "", "a%20b", &"x".repeat(65)] {
        let description =
            refused(project.put(&format!("/v2/topics/{name}")), 400, "Invalid topic identification").await;
        assert!(description.contains("a topic name must have 1 to 64 characters"), "{description}");
        refused(project.put(&format!("/v2/queues/{name}")), 400, INVALID_QUEUE).await;
    }
    // No other way leads from a name of a queue to a topic.
    answered(project.put("/v2/topics/t"), 201).await;
    let dead_letters = json!({"_max_claim_count": 1, "_dead_letter_queue": "~t"});
    answered(project.put("/v2/queues/q").json(&dead_letters), 400).await;
    answered(project.put("/v2/queues/q"), 201).await;
    answered(project.post("/v2/queues/q/redrive", &json!({"to": "~t"})), 400).await;
    let subscription = json!({"subscriber": URI, "options": {"dead_letter_queue": "~t"}});
    answered(project.post("/v2/queues/q/subscriptions", &subscription), 400).await;
    assert_eq!(names(&project, "/v2/queues").await, ["q"]);
}

#[tokio::test]
async fn topics_have_no_claims_no_pause_and_no_tasks() {
    let project = new_project();
    answered(project.put("/v2/topics/t"), 201).await;

    for (method, path) in [
        (Method::POST, "claims"),
        (Method::GET, "claims"),
        (Method::POST, "pause"),
        (Method::POST, "resume"),
        (Method::POST, "redrive"),
        (Method::GET, "tasks"),
    ] {
        refused(project.request(method, &format!("/v2/topics/t/{path}")), 404, NO_ROUTE).await;
    }
}

#[tokio::test]
async fn observers_of_a_topic_page_by_marker_and_wait_and_cannot_pop() {
    let project = new_project();
    let posted = post(&project, "/v2/topics/t", &[json!(0), json!(1), json!(2)]).await;

    let page = get(&project, &format!("/v2/topics/t/messages?echo=true&marker={}", posted[0])).await;
    assert_eq!(pick(&page["messages"], "body"), [1, 2]);
    let next = text(&page["links"][0]["href"]).to_owned();
    assert!(next.starts_with("/v2/topics/t/messages?"), "{next}");
    let (waiting, bodies_to_post) = (format!("{next}&wait=20"), [json!(3)]);
    let (page, _) = tokio::join!(get(&project, &waiting), post(&project, "/v2/topics/t", &bodies_to_post));
    assert_eq!(pick(&page["messages"], "body"), [3]);
    let pop = project.delete("/v2/topics/t/messages?pop=2");
    let description = refused(pop, 400, INVALID_REQUEST).await;
    assert!(description.contains("a topic keeps its messages for all observers"), "{description}");
    assert_eq!(bodies(&project, "/v2/topics/t").await, [0, 1, 2, 3]);
}

#[tokio::test]
async fn subscribers_of_a_topic_confirm_and_get_its_messages_only() {
    let options =
        [("SUKKAL_PUSH__REQUIRE_CONFIRMATION", "true"), ("SUKKAL_SIGNED_URL__SECRET_KEY", "only for this test")];
    let sukkal = Sukkal::start_with("memory:", &[&LOCAL[..], &options].concat());
    let api = sukkal.project("p");
    let endpoint = Endpoint::start();
    let subscription = json!({"subscriber": endpoint.url("/"), "ttl": 3_600, "options": {"ordered": true}});
    let created = answered(api.post("/v2/topics/n/subscriptions", &subscription), 201).await.json();

    let document = endpoint.wait_for(1).await[0].json();
    let path = format!("/v2/topics/n/subscriptions/{}/confirm", text(&created["subscription_id"]));
    assert_eq!(document["Message"], "You have chosen to subscribe to the topic: n");
    assert_eq!((&document["queue_name"], &document["topic_name"]), (&json!("n"), &json!("n")));
    assert_eq!(document["URL-Paths"], path);
    let confirm = |path: &str| {
        let request = api.bare(Method::PUT, path).header("Client-ID", Uuid::new_v4().to_string());
        let headers = ["URL-Signature", "URL-Methods", "URL-Paths", "URL-Expires", "X-Project-ID"];
        let request = headers.iter().fold(request, |request, name| request.header(*name, text(&document[*name])));
        request.json(&document["SubscribeBody"])
    };
    answered(confirm(&path.replace("topics", "queues")), 404).await;
    answered(confirm(&path), 204).await;
    post(&api, "/v2/queues/n", &[json!("of queue")]).await;
    post(&api, "/v2/topics/n", &[json!("of topic"), json!(2)]).await;

    let received: Vec<Value> = endpoint.wait_for(3).await[1..].iter().map(Received::json).collect();
    assert_eq!(pick(&json!(received), "body"), [json!("of topic"), json!(2)]);
    let notification = json!({
        "Message_Type": "Notification", "queue_name": "n", "topic_name": "n", "ttl": 300, "body": "of topic",
    });
    assert_eq!(received[0], notification);
    // The owner can share the messages with observers, who still see what was delivered.
    let share = |paths: Value| api.post("/v2/topics/n/share", &json!({"paths": paths}));
    assert_eq!(answered(share(json!([])), 200).await.json()["paths"], json!(["/v2/topics/n/messages"]));
    refused(share(json!(["claims"])), 400, INVALID_REQUEST).await;
    assert_eq!(bodies(&api, "/v2/topics/n").await, [json!("of topic"), json!(2)]);
}

#[tokio::test]
async fn a_topic_can_be_in_a_pool_and_move_to_another() {
    let (server, other) = (Pooled::start(), RedisServer::start());
    server.create(&["p"]).await;
    let name = Uuid::new_v4();
    let [queue, topic] = ["queues", "topics"].map(|plural| format!("{plural}/{name}"));
    for path in [&queue, &topic] {
        answered(server.put(path, &json!({"of": path})), 201).await;
        let messages = json!({"messages": [{"body": path, "ttl": 300}]});
        answered(server.request(Method::POST, &format!("{path}/messages")).json(&messages), 201).await;
    }
    let feed = async |path: &str| {
        let page = answered(server.get(&format!("{path}/messages?echo=true")), 200).await.json();
        pick(&page["messages"], "body")
    };

    for (plural, path) in [("queues", &queue), ("topics", &topic)] {
        let page = answered(server.get(&format!("{plural}?detailed=true")), 200).await.json();
        assert_eq!(pick(&page[plural], "href"), [format!("/v2/{path}")]);
        assert_eq!(page[plural][0]["metadata"]["of"], **path);
        assert_eq!(feed(path).await, [json!(path)]);
    }
    answered(server.put("pools/r", &json!({"uri": other.url(), "weight": 0})), 201).await;
    answered(server.request(Method::POST, &format!("{topic}/move")).json(&json!({"pool": "r"})), 204).await;
    answered(server.delete(&queue), 204).await;
    // The pool is empty now.
    answered(server.delete("pools/p"), 204).await;
    assert_eq!(feed(&topic).await, [json!(topic)]);
    assert_eq!(answered(server.get("queues"), 200).await.json()["queues"], json!([]));
}
