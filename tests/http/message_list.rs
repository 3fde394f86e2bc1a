//! Fact sheet 6.2 and 1.7: listing the messages of a queue page by page.

use serde_json::{Value, json};

use super::{MESSAGES, OTHER_CLIENT, Project, answered, follow, new_project, numbers, pick, post_as};

async fn list(api: &Project, query: &str) -> Value {
    answered(api.get(&format!("{MESSAGES}{query}")), 200).await.json()
}

/// Rows 6-1, 6-7.
#[tokio::test]
async fn a_message_document_has_five_keys_in_a_fixed_order() {
    let api = new_project();
    let id = api.post_bodies("q", &[json!({"b": 1, "a": 2})]).await.remove(0);

    let page = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await;

    let age = page.json()["messages"][0]["age"].as_u64().unwrap();
    let message = format!(r#"{{"id":"{id}","href":"{MESSAGES}/{id}","ttl":3600,"age":{age},"body":{{"b":1,"a":2}}}}"#);
    assert!(page.text.contains(&message), "{}", page.text);
    assert!(age < 60);
    assert_eq!(page.json().as_object().unwrap().len(), 2);
}

/// Rows 4-2, 6.2-8.
#[tokio::test]
async fn an_empty_or_missing_queue_returns_an_empty_page() {
    let api = new_project();
    let empty = json!({"messages": [], "links": []});

    assert_eq!(list(&api, "?echo=true").await, empty);
    assert_eq!(api.snapshot().await, json!([]));
    api.create("q", &json!({})).await;
    assert_eq!(list(&api, "?echo=true&limit=20").await, empty);
}

/// Rows 6.2-1, 6.2-2, 6.2-7.
#[tokio::test]
async fn following_the_links_reads_all_messages_in_order() {
    let api = new_project();
    api.post_bodies("q", &numbers(0..25)).await;

    let page = list(&api, "?echo=true").await;

    assert_eq!(pick(&page["messages"], "body"), numbers(0..10));
    for limit in [1, 3, 7, 20] {
        let all = follow(&api, &format!("{MESSAGES}?limit={limit}&echo=true"), "messages").await;
        assert_eq!(pick(&all.into(), "body"), numbers(0..25), "{limit}");
    }
}

/// Rows 6.2-5, 6.2-12.
#[tokio::test]
async fn the_next_link_repeats_the_parameters_in_a_fixed_order() {
    let api = new_project();
    let ids = post_as(&api.client(OTHER_CLIENT), "q", &numbers(0..2)).await;
    let (first, second) = (&ids[0], &ids[1]);

    for (query, href) in [
        ("?limit=1".to_owned(), format!("?limit=1&include_delayed=true&marker={first}")),
        ("?limit=1&echo=true".to_owned(), format!("?limit=1&echo=true&include_delayed=true&marker={first}")),
        (
            format!("?echo=0&marker={first}&limit=1"),
            format!("?marker={second}&limit=1&echo=false&include_delayed=true"),
        ),
        (
            "?include_delayed=false&include_claimed=yes&echo=no&limit=1&k=v".to_owned(),
            format!("?limit=1&echo=false&include_claimed=true&include_delayed=true&marker={first}"),
        ),
        (String::new(), format!("?include_delayed=true&marker={second}")),
    ] {
        let links = list(&api, &query).await["links"].take();
        assert_eq!(links, json!([{"rel": "next", "href": format!("{MESSAGES}{href}")}]), "{query}");
    }
}

/// Row 6.2-3.
#[tokio::test]
async fn own_messages_are_listed_only_with_echo() {
    let api = new_project();
    let other = api.client(OTHER_CLIENT);
    post_as(&api, "q", &[json!("mine 1")]).await;
    post_as(&other, "q", &[json!("theirs 1"), json!("theirs 2")]).await;
    post_as(&api, "q", &[json!("mine 2")]).await;
    let seen = async |client: &support::sukkal::Api, query: &str| {
        let page = answered(client.get(&format!("{MESSAGES}{query}")), 200).await.json();
        pick(&page["messages"], "body")
    };

    for query in ["", "?echo=false"] {
        assert_eq!(seen(&api, query).await, ["theirs 1", "theirs 2"]);
        assert_eq!(seen(&other, query).await, ["mine 1", "mine 2"]);
    }
    for client in [&*api, &other] {
        assert_eq!(seen(client, "?echo=true").await, ["mine 1", "theirs 1", "theirs 2", "mine 2"]);
    }
}

/// Row 6.2-14.
#[tokio::test]
async fn an_invalid_marker_returns_an_empty_page() {
    let api = new_project();
    api.post_bodies("other", &numbers(0..1)).await;
    api.post_bodies("q", &numbers(0..2)).await;
    let elsewhere = api.post_bodies("other", &numbers(0..1)).await.remove(0);

    let random = uuid::Uuid::new_v4().to_string();
    for marker in [&elsewhere, &random, "0", "-1", "x", "%00", "%F0%9F%98%80", &"9".repeat(5000)] {
        let page = list(&api, &format!("?echo=true&marker={marker}")).await;
        assert_eq!(page, json!({"messages": [], "links": []}), "{marker}");
    }
}
