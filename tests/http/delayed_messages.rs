//! Fact sheet 6.2 to 6.6, 7.1, 4.6: which operations see a delayed message, and its position in the
//! feed once it is due.
//!
//! | row | test |
//! |---|---|
//! | 6.2, 6.5, 7.1 delayed messages are not listed, popped, claimed | `delayed_messages_are_not_listed_claimed_or_popped` |
//! | feed order, markers | `conformance::…::delay` |
//! | 6.3, 6.4 ids | `a_delayed_message_is_found_by_its_id` |
//! | 6.2 `include_delayed` | `include_delayed_lists_delayed_messages_in_their_future_order` |
//! | 6.2 `include_delayed` in the next link | `the_next_link_has_include_delayed_unless_the_queue_delays_messages` |
//! | 4.6 stats, 6.5, 6.6 deletion | `conformance::…::delay::a_delayed_message_can_be_read_counted_and_deleted` |
//! | ttl | `conformance::…::delay::a_message_can_expire_before_it_is_due`, `the_age_of_a_delayed_message_counts_from_its_post` |

use serde_json::{Value, json};

use super::{MESSAGES, OTHER_CLIENT, Project, answered, follow, new_movable_project, pick, text};

/// The delays of the messages, in posting order, in units of 100 s. So the messages become due as
/// 0, 1, 2, ….
const SHUFFLED: [u64; 6] = [3, 0, 5, 1, 4, 2];

/// Creates the queue `q` with a default delay of 300 s.
async fn with_delayed_queue() -> Project {
    let api = new_movable_project();
    api.create("q", &json!({"_default_message_delay": 300})).await;
    api
}

/// Creates the queue `q` with messages that become due 100 s apart, and returns their ids by body.
async fn with_shuffled_delays() -> (Project, Vec<String>) {
    let api = with_delayed_queue().await;
    let messages: Vec<Value> = SHUFFLED.iter().map(|n| json!({"body": n, "delay": n * 100})).collect();
    let ids = api.post_messages("q", &json!(messages)).await;
    let index_of = |wanted: u64| SHUFFLED.iter().position(|n| *n == wanted).unwrap();
    let ids = (0..SHUFFLED.len() as u64).map(|n| ids[index_of(n)].clone()).collect();
    (api, ids)
}

/// Rows 6.2-6, 6.2-16, 6.5-11, 7.1-9.
#[tokio::test]
async fn delayed_messages_are_not_listed_claimed_or_popped() {
    let api = with_delayed_queue().await;
    let other = api.client(OTHER_CLIENT);
    api.post_bodies("q", &[json!("a"), json!("b"), json!("c")]).await;

    for clock in [0, 280] {
        api.set_clock_ahead(clock).await;
        for query in ["", "&include_claimed=true", "&include_delayed=false"] {
            assert_eq!(api.feed("q", query).await, [""; 0], "{query}");
        }
        let page = answered(other.get(MESSAGES), 200).await.json();
        assert_eq!(page, json!({"messages": [], "links": []}));
        answered(other.post("/v2/queues/q/claims", &json!({})), 204).await;
        assert_eq!(answered(other.delete(&format!("{MESSAGES}?pop=20")), 200).await.json(), json!({"messages": []}));
    }
    api.set_clock_ahead(301).await;

    assert_eq!(pick(&api.claim(1).await.messages, "body"), ["a"]);
    assert_eq!(pick(&answered(api.delete(&format!("{MESSAGES}?pop=1")), 200).await.json()["messages"], "body"), ["b"]);
    assert_eq!(api.feed("q", "").await, ["c"]);
    assert_eq!(api.feed("q", "&include_claimed=true").await, ["a", "c"]);
}

/// 6.3, 6.4: delayed messages included.
/// Row 6.3-4.
#[tokio::test]
async fn a_delayed_message_is_found_by_its_id() {
    let (api, ids) = with_shuffled_delays().await;

    let mut one = answered(api.get(&format!("{MESSAGES}/{}", ids[5])), 200).await.json();
    let some = answered(api.get(&format!("{MESSAGES}?ids={},{},{}", ids[5], ids[0], ids[3])), 200).await.json();

    // A second may have passed between the two requests.
    one["age"] = some["messages"][0]["age"].clone();
    assert_eq!(some["messages"][0], one);
    assert_eq!(pick(&some["messages"], "body"), [5, 0, 3]);
    assert_eq!(one["href"], format!("{MESSAGES}/{}", ids[5]));
    let keys: Vec<&String> = one.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "href", "ttl", "age", "body"]);
}

/// Row 6.2-6.
#[tokio::test]
async fn include_delayed_lists_delayed_messages_in_their_future_order() {
    let (api, ids) = with_shuffled_delays().await;
    api.set_clock_ahead(250).await;
    api.claim(1).await;

    for limit in [1, 2, 4, 20] {
        let with_delayed = api.feed("q", &format!("&include_delayed=true&limit={limit}")).await;
        assert_eq!(with_delayed, [1, 2, 3, 4, 5], "{limit}");
        let all = api.feed("q", &format!("&include_delayed=yes&include_claimed=true&limit={limit}")).await;
        assert_eq!(all, [0, 1, 2, 3, 4, 5], "{limit}");
    }
    assert_eq!(api.feed("q", &format!("&include_delayed=true&marker={}", ids[3])).await, [4, 5]);
    let own = answered(api.get(&format!("{MESSAGES}?include_delayed=true")), 200).await.json();
    assert_eq!(own["messages"], json!([]));
    assert_eq!(api.feed("q", "").await, [1, 2]);
}

/// 6.2: forced in queues that do not delay, "and therefore appears in the next link".
/// Rows 6.2-5, 6.2-12.
#[tokio::test]
async fn the_next_link_has_include_delayed_unless_the_queue_delays_messages() {
    let api = new_movable_project();
    let delaying = json!({"_default_message_delay": 300});
    for (queue, metadata) in [("m1", json!({})), ("zero", json!({"_default_message_delay": 0})), ("later", delaying)] {
        api.create(queue, &metadata).await;
        let last = api.post_messages(queue, &json!([{"body": 1, "delay": 0}, {"body": 2, "delay": 0}])).await.remove(1);
        let path = format!("/v2/queues/{queue}/messages");
        let link = async |query: &str| {
            let page = answered(api.get(&format!("{path}{query}")), 200).await.json();
            let href = text(&page["links"][0]["href"]).strip_prefix(&path).unwrap().to_owned();
            href.strip_suffix(&format!("&marker={last}")).unwrap().to_owned()
        };

        let own = if queue == "later" { "" } else { "&include_delayed=true" };
        assert_eq!(link("?limit=2&echo=true").await, format!("?limit=2&echo=true{own}"), "{queue}");
        let own = if queue == "later" { "&include_delayed=false" } else { "&include_delayed=true" };
        assert_eq!(link("?echo=true&include_delayed=off").await, format!("?echo=true{own}"), "{queue}");
        for yes in ["true", "1", "on"] {
            let query = format!("?include_delayed={yes}&include_claimed=1&echo=true&limit=2");
            let all = "?limit=2&echo=true&include_claimed=true&include_delayed=true";
            assert_eq!(link(&query).await, all, "{queue}");
        }
    }
}

/// A reader who follows links did not ask for delayed messages, even if the queue no longer delays
/// messages.
#[tokio::test]
async fn links_miss_no_message_after_a_queue_stops_delaying() {
    let api = with_delayed_queue().await;
    api.post_bodies("q", &[json!("later")]).await;
    let patch = json!([{"op": "replace", "path": "/metadata/_default_message_delay", "value": 0}]);
    answered(api.patch("q", &patch), 200).await;
    api.post_bodies("q", &[json!("first")]).await;
    let page = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await.json();
    assert_eq!(pick(&page["messages"], "body"), ["first"]);
    let next = text(&page["links"][0]["href"]);

    let waiting = answered(api.get(next), 200).await.json();
    api.post_bodies("q", &[json!("second")]).await;
    api.set_clock_ahead(301).await;

    assert_eq!(waiting, json!({"messages": [], "links": []}));
    assert_eq!(pick(&follow(&api, next, "messages").await.into(), "body"), ["second", "later"]);
}

/// 6: `age` = now - created, also for messages that were delayed.
#[tokio::test]
async fn the_age_of_a_delayed_message_counts_from_its_post() {
    let api = with_delayed_queue().await;
    api.post_messages("q", &json!([{"body": 1, "ttl": 1000}])).await;
    let posted = api.stats("q").await["oldest"]["created"].take();

    api.set_clock_ahead(400).await;

    let message = api.claim(1).await.messages[0].take();
    assert!((400..460).contains(&message["age"].as_u64().unwrap()), "{message}");
    assert_eq!(message["ttl"], 1000);
    assert_eq!(api.stats("q").await["oldest"]["created"], posted);
}
