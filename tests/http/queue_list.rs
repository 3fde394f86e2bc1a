//! Fact sheet 4.1 and 1.7: listing the queues of a project.

use serde_json::{Value, json};

use super::{INVALID_REQUEST, Project, answered, follow, new_project, pick, refused};

async fn with_queues(names: &[&str]) -> Project {
    let api = new_project();
    for name in names {
        answered(api.put(&format!("/v2/queues/{name}")), 201).await;
    }
    api
}

async fn list(api: &Project, query: &str) -> Value {
    answered(api.get(&format!("/v2/queues{query}")), 200).await.json()
}

/// Rows 4.1-9, 4.1-13.
#[tokio::test]
async fn a_project_without_queues_has_an_empty_list() {
    let api = new_project();

    for query in ["", "?with_count=true", "?marker=m&limit=2&detailed=true&name=x&k=1"] {
        assert_eq!(list(&api, query).await, json!({"queues": [], "links": []}), "{query}");
    }
}

/// Rows 4.1-8, 4.1-10, 4.1-11.
#[tokio::test]
async fn queues_are_sorted_by_name() {
    let api = with_queues(&["b", "a", "_", "B", "a.b", "-", "a-b", "10", "9"]).await;

    let page = list(&api, "").await;

    assert_eq!(pick(&page["queues"], "name"), ["-", "10", "9", "B", "_", "a", "a-b", "a.b", "b"]);
    assert_eq!(page["queues"][0], json!({"name": "-", "href": "/v2/queues/-"}));
    assert_eq!(page["links"], json!([{"rel": "next", "href": "/v2/queues?marker=b"}]));
}

/// Rows 4.1-1, 4.1-2, 4.1-11.
#[tokio::test]
async fn a_page_links_to_the_next_page() {
    let names: Vec<String> = (0..25).map(|n| format!("q{n:02}")).collect();
    let api = with_queues(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let first = list(&api, "").await;
    let second = list(&api, "?marker=q09").await;
    let last = list(&api, "?limit=20&marker=q24").await;

    assert_eq!(pick(&first["queues"], "name"), names[..10]);
    assert_eq!(first["links"], json!([{"rel": "next", "href": "/v2/queues?marker=q09"}]));
    assert_eq!(pick(&second["queues"], "name"), names[10..20]);
    assert_eq!(last, json!({"queues": [], "links": []}));
    let all = follow(&api, "/v2/queues?limit=4", "queues").await;
    assert_eq!(pick(&all.into(), "name"), names);
}

/// Row 4.1-11.
#[tokio::test]
async fn the_next_link_repeats_the_parameters_in_a_fixed_order() {
    let api = with_queues(&["q1", "q2"]).await;

    for (query, href) in [
        ("?limit=1", "/v2/queues?limit=1&marker=q1"),
        ("?limit=1&marker=q1", "/v2/queues?marker=q2&limit=1"),
        ("?marker=&limit=1", "/v2/queues?limit=1&marker=q1"),
        ("?detailed=yes&limit=1", "/v2/queues?limit=1&detailed=true&marker=q1"),
        (
            "?with_count=1&name=q&detailed=off&limit=+1&marker=a",
            "/v2/queues?marker=q1&limit=1&detailed=false&name=q&with_count=true",
        ),
        ("?color=&name=&limit=1", "/v2/queues?limit=1&marker=q1"),
    ] {
        assert_eq!(list(&api, query).await["links"][0]["href"], href, "{query}");
    }
}

/// Row 4.1-17.
#[tokio::test]
async fn a_marker_need_not_be_an_existing_name() {
    let api = with_queues(&["a", "b", "c"]).await;
    answered(api.delete("/v2/queues/b"), 204).await;

    for (marker, names) in [
        ("a", &["c"][..]),
        ("b", &["c"]),
        ("bbb", &["c"]),
        ("A", &["a", "c"]),
        ("%20", &["a", "c"]),
        ("%5B", &["a", "c"]),
        ("c", &[]),
        ("%C3%A9", &[]),
    ] {
        let page = list(&api, &format!("?marker={marker}")).await;
        assert_eq!(pick(&page["queues"], "name"), names, "{marker}");
    }
}

/// Rows 4.1-3, 4.1-10, 4.1-14.
#[tokio::test]
async fn a_detailed_list_shows_metadata_with_defaults() {
    let api = new_project();
    api.create("q", &json!({"color": "red", "_default_message_ttl": 60})).await;

    let detailed = answered(api.get("/v2/queues?detailed=true"), 200).await;

    let metadata = answered(api.get("/v2/queues/q"), 200).await.json();
    assert_eq!(detailed.json()["queues"], json!([{"name": "q", "metadata": metadata, "href": "/v2/queues/q"}]));
    assert!(detailed.text.contains(r#"{"name":"q","metadata":{"#), "{}", detailed.text);
    for query in ["", "?detailed=false"] {
        assert_eq!(list(&api, query).await["queues"][0], json!({"name": "q", "href": "/v2/queues/q"}));
    }
}

/// Rows 4.1-5, 4.1-12, 4.1-13.
#[tokio::test]
async fn the_count_ignores_filters_and_pages() {
    let api = with_queues(&["a", "b", "c"]).await;

    for query in ["?with_count=true", "?with_count=1&limit=1", "?with_count=on&name=b&k=1", "?with_count=t&marker=c"] {
        assert_eq!(list(&api, query).await["count"], 3, "{query}");
    }
    for query in ["", "?with_count=false"] {
        assert_eq!(list(&api, query).await.get("count"), None, "{query}");
    }
    answered(api.delete("/v2/queues/b"), 204).await;
    assert_eq!(list(&api, "?with_count=true").await["count"], 2);
}

/// Row 4.1-4.
#[tokio::test]
async fn a_name_filter_matches_any_part_of_the_name() {
    let api = with_queues(&["orders", "reorder", "stock", "a.b"]).await;

    for (name, names) in
        [("order", &["orders", "reorder"][..]), ("stock", &["stock"]), ("a.b", &["a.b"]), (".", &["a.b"]), ("O", &[])]
    {
        let page = list(&api, &format!("?name={name}")).await;
        assert_eq!(pick(&page["queues"], "name"), names, "{name}");
    }
}

/// Row 4.1-6.
#[tokio::test]
async fn metadata_filters_compare_values() {
    let api = new_project();
    api.create("a", &json!({"color": "red", "size": 5})).await;
    api.create("b", &json!({"color": "red", "size": "5", "é": "è"})).await;
    api.create("c", &json!({"color": "blue", "size": -5, "_default_message_ttl": 60})).await;

    for (query, names) in [
        ("color=red", &["a", "b"][..]),
        ("size=5", &["a"]),
        ("size=-5", &["c"]),
        ("color=red&size=5", &["a"]),
        ("color=red&limit=1", &["a"]),
        ("%C3%A9=%C3%A8", &["b"]),
        ("_default_message_ttl=60", &["c"]),
        ("color=green", &[]),
        ("shape=round", &[]),
    ] {
        let page = list(&api, &format!("?{query}")).await;
        assert_eq!(pick(&page["queues"], "name"), names, "{query}");
    }
}

/// Rows 4.1-4, 4.1-6.
#[tokio::test]
async fn filters_do_not_end_the_list() {
    let api = new_project();
    for n in 0..130 {
        api.create(&format!("plain{n:03}"), &json!({})).await;
    }
    api.create("special", &json!({"kind": 1})).await;

    for query in ["kind=1", "name=spec", "name=special&limit=1"] {
        assert_eq!(pick(&list(&api, &format!("?{query}")).await["queues"], "name"), ["special"], "{query}");
    }
}

/// Clients may add the filters to a link that has them already.
#[tokio::test]
async fn the_links_keep_the_metadata_filters() {
    const FILTER: &str = "te%26am=%C3%A9%26b";
    let api = new_project();
    for (name, team) in [("a", "é&b"), ("b", "blue"), ("c", "é&b")] {
        api.create(name, &json!({"te&am": team})).await;
    }
    let mut path = format!("/v2/queues?{FILTER}&limit=1");
    for names in [&["a"][..], &["c"], &[]] {
        let page = answered(api.get(&path), 200).await.json();
        assert_eq!(pick(&page["queues"], "name"), names, "{path}");
        let Some(link) = page["links"][0]["href"].as_str() else { break };
        path = link.to_owned();
        let again = answered(api.get(&format!("{link}&{FILTER}")), 200).await.json();
        assert_eq!(answered(api.get(link), 200).await.json()["queues"], again["queues"]);
    }
}

/// Row 4.1-7.
#[tokio::test]
async fn a_filter_takes_one_value() {
    let api = with_queues(&["q"]).await;

    for query in ["k=a,b", "k=a&k=b"] {
        refused(api.get(&format!("/v2/queues?{query}")), 400, INVALID_REQUEST).await;
    }
}
