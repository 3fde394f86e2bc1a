//! `Sukkal-Warning` in the headers of replies, as over HTTP.

use std::fs;

use serde_json::{Value, json};

use super::{open, start};
use support::sukkal::CLIENT;

#[tokio::test]
async fn what_has_no_effect_gets_a_warning() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    let wait = "unknown field \"wait\" has no effect";
    for (action, body, expected) in [
        ("queue_create", json!({"queue_name": "q", "metadata": {"a": 1}}), Value::Null),
        (
            "queue_create",
            json!({"queue_name": "q", "metadata": {"a": 2}}),
            json!([
                "the queue exists, and its metadata, which is different, was not changed; change it with PATCH, or with \
                 `sukkal queue set`"
            ]),
        ),
        (
            "queue_create",
            json!({"queue_name": "r", "metadata": {"_max_claim_cuont": 2}}),
            json!(["unknown metadata key \"_max_claim_cuont\" has no effect; did you mean \"_max_claim_count\"?"]),
        ),
        (
            "queue_create",
            json!({"queue_name": "s", "metadata": {"metadata": {"_default_message_ttl": 60}}}),
            json!([
                "\"metadata\" is one of your own metadata keys; the body itself is the metadata, so send the value of this \
                 key alone"
            ]),
        ),
        ("subscription_list", json!({"queue_name": "none"}), json!(["the queue does not exist"])),
        ("queue_get", json!({"queue_name": "none"}), json!(["the queue does not exist"])),
        ("claim_create", json!({"queue_name": "none"}), json!(["the queue does not exist"])),
        ("message_delete_many", json!({"queue_name": "none", "pop": 1}), json!(["the queue does not exist"])),
        ("queue_list", json!({"limt": 1}), json!(["unknown field \"limt\" has no effect; did you mean \"limit\"?"])),
        ("message_list", json!({"queue_name": "q", "wait": 1}), json!([wait])),
        (
            "message_list",
            json!({"queue_name": "q", "marker": "x"}),
            json!([
                "the marker is not valid, so the page is empty; use the id of a message of this queue, or the link of a page"
            ]),
        ),
        ("claim_create", json!({"queue_name": "q", "wait": 1}), json!([wait])),
        (
            "message_delete_many",
            json!({"queue_name": "q", "pop": 1, "claim_ids": ["x"]}),
            json!(["field \"claim_ids\" has no effect beside \"pop\""]),
        ),
        (
            "message_post",
            json!({"queue_name": "q", "messages": [{"body": 1, "tll": 60}]}),
            json!(["unknown message field \"tll\" has no effect; did you mean \"ttl\"?"]),
        ),
        (
            "message_post",
            json!({"queue_name": "q", "messages": [{"body": 1, "delay": 5}, {"body": 2, "delay": 5}]}),
            json!(["\"delay\" is ignored over WebSockets, as in Zaqar; post delayed messages over HTTP"]),
        ),
        (
            "message_delete_many",
            json!({"queue_name": "q", "pop": 1, "message_id": []}),
            json!(["unknown field \"message_id\" has no effect; did you mean \"message_ids\"?"]),
        ),
        (
            "message_delete",
            json!({"queue_name": "q", "message_id": "x"}),
            json!(["an id was ignored, because it cannot be the id of a message of this queue"]),
        ),
        (
            "queue_purge",
            json!({"queue_name": "r", "resource_types": ["mesages", "messages"]}),
            json!(["unknown resource type \"mesages\" has no effect; did you mean \"messages\"?"]),
        ),
        (
            "queue_purge",
            json!({"queue_name": "r", "resource_types": []}),
            json!(["\"resource_types\" is empty, so nothing was deleted"]),
        ),
        (
            "subscription_create",
            json!({"queue_name": "q", "options": {"with_delivry": true}}),
            json!(["unknown subscription option \"with_delivry\" has no effect; did you mean \"with_delivery\"?"]),
        ),
    ] {
        socket.request(action, &body).await;
        let reply = socket.document().await;
        assert!(reply["headers"]["status"].as_u64().unwrap() < 300, "{reply}");
        assert_eq!(reply["headers"]["Sukkal-Warning"], expected, "{action} {body}");
    }
}

/// The rows of the table in docs/websocket.md: an action, and the fields of its body.
fn documented_actions() -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(support::root().join("docs/websocket.md")).unwrap();
    let (_, table) = page.split_once("| action |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    // Values that a field accepts follow a colon.
    rows.map(|(action, rest)| (action.to_owned(), names(rest.split([':', '|']).next().unwrap()))).collect()
}

#[tokio::test]
async fn each_action_warns_of_each_misspelled_field() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    let id = "01a226a6-68d5-7077-b944-198cbc097359";
    let values = json!({
        "queue_name": "q", "messages": [{ "body": 1 }], "message_id": id, "message_ids": [id], "claim_id": id,
        "subscription_id": id,
    });
    let mut tried = 0;
    for (action, fields) in documented_actions() {
        let mut body = json!({});
        for name in fields.iter().filter(|name| values.get(name).is_some()) {
            body[name] = values[name].clone();
        }
        for name in &fields {
            let misspelled = format!("{name}{}", name.chars().last().unwrap());
            let mut body = body.clone();
            body[&misspelled] = json!(1);
            socket.request(&action, &body).await;
            let reply = socket.document().await;
            let expected = format!("unknown field \"{misspelled}\" has no effect; did you mean \"{name}\"?");
            let warnings = reply["headers"]["Sukkal-Warning"].as_array().cloned().unwrap_or_default();
            assert!(warnings.contains(&json!(expected)), "{action}: {reply}");
            tried += 1;
        }
    }
    assert!(tried > 50, "the table has only {tried} fields");
}

/// Without a list of kinds, a purge deletes everything.
#[tokio::test]
async fn a_purge_with_a_misspelled_field_deletes_nothing() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    socket.ask("message_post", json!({"queue_name": "q", "messages": [{"body": 1}]})).await;

    let refused = socket.ask("queue_purge", json!({"queue_name": "q", "resource_type": ["subscriptions"]})).await;

    let exception =
        "the body has \"resource_type\", but no \"resource_types\"; leave it out, or send \"resource_types\"";
    assert_eq!(refused, (400, json!({ "exception": exception, "error": null })));
    let listed = socket.ask("message_list", json!({"queue_name": "q", "echo": true})).await;
    assert_eq!(listed.1["messages"].as_array().map(Vec::len), Some(1), "{listed:?}");
    assert_eq!(socket.ask("queue_purge", json!({"queue_name": "q"})).await.0, 204);
}

/// Names of headers are case-sensitive in frames.
#[tokio::test]
async fn a_header_that_resembles_one_with_a_meaning_gets_a_warning() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    let post = json!({"queue_name": "q", "messages": [{"body": 1}]});
    for (name, expected) in [
        (
            "idempotency-key",
            json!(["unknown header \"idempotency-key\" has no effect; did you mean \"Idempotency-Key\"?"]),
        ),
        ("Durabilty", json!(["unknown header \"Durabilty\" has no effect; did you mean \"Durability\"?"])),
        ("Idempotency-Key", Value::Null),
        ("Accept", Value::Null),
    ] {
        let headers = json!({"Client-ID": CLIENT, "X-Project-ID": "p", name: "k"});
        socket.send(&json!({"action": "message_post", "headers": headers, "body": post})).await;
        let reply = socket.document().await;
        let answer = (&reply["headers"]["status"], &reply["headers"]["Sukkal-Warning"]);
        assert_eq!(answer, (&json!(201), &expected), "{name}");
    }
}
