//! `order=desc` (an extension): lists the newest messages first.

use serde_json::json;

use super::{
    INVALID_PARAMETER, INVALID_REQUEST, MESSAGES, OTHER_CLIENT, answered, follow, new_project, numbers, pick, post_as,
    refused,
};

#[tokio::test]
async fn following_the_links_reads_the_newest_messages_first() {
    let api = new_project();
    api.post_bodies("q", &numbers(0..25)).await;

    let page = answered(api.get(&format!("{MESSAGES}?echo=true&order=desc")), 200).await.json();

    assert_eq!(pick(&page["messages"], "body"), numbers((15..25).rev()));
    for limit in [1, 7, 20] {
        let all = follow(&api, &format!("{MESSAGES}?limit={limit}&echo=true&order=desc"), "messages").await;
        assert_eq!(pick(&all.into(), "body"), numbers((0..25).rev()), "{limit}");
    }
    assert_eq!(api.feed("q", "&order=asc").await, numbers(0..25));
}

#[tokio::test]
async fn the_links_keep_the_order_and_the_filters() {
    let api = new_project();
    let ids = post_as(&api.client(OTHER_CLIENT), "q", &numbers(0..3)).await;

    for (query, href) in [
        ("?order=desc&limit=1".to_owned(), format!("?limit=1&include_delayed=true&order=desc&marker={}", ids[2])),
        (
            format!("?marker={}&include_claimed=true&include_trace=true&order=desc&limit=1", ids[2]),
            format!(
                "?marker={}&limit=1&include_claimed=true&include_delayed=true&include_trace=true&order=desc",
                ids[1]
            ),
        ),
        ("?order=asc&limit=1".to_owned(), format!("?limit=1&include_delayed=true&order=asc&marker={}", ids[0])),
        ("?order=&limit=1".to_owned(), format!("?limit=1&include_delayed=true&marker={}", ids[0])),
    ] {
        let page = answered(api.get(&format!("{MESSAGES}{query}")), 200).await.json();
        assert_eq!(page["links"][0]["href"], format!("{MESSAGES}{href}"), "{query}");
    }
    let end = answered(api.get(&format!("{MESSAGES}?order=desc&marker={}", ids[0])), 200).await.json();
    assert_eq!(end, json!({"messages": [], "links": []}));
}

#[tokio::test]
async fn the_newest_first_cannot_be_combined_with_what_looks_forward() {
    let api = new_project();
    let id = api.post_bodies("q", &[json!(1)]).await.remove(0);

    for (query, other) in [("wait=5", "wait"), ("since=now", "since"), ("since=1970-01-01T00:00:00Z", "since")] {
        let description = refused(api.get(&format!("{MESSAGES}?order=desc&{query}")), 400, INVALID_REQUEST).await;
        assert_eq!(description, format!("\"order=desc\" and \"{other}\" cannot be combined; give one of them"));
    }
    for start in [String::new(), format!("&marker={id}")] {
        let stream = api.get(&format!("{MESSAGES}?order=desc{start}")).header("Accept", "text/event-stream");
        let description = refused(stream, 400, INVALID_REQUEST).await;
        assert!(description.contains("\"order=desc\" is not possible in an event stream"), "{description}");
    }
    for order in ["newest", "DESC", "-1"] {
        let description = refused(api.get(&format!("{MESSAGES}?order={order}")), 400, INVALID_PARAMETER).await;
        assert_eq!(description, "The \"order\" parameter is invalid. The value must be \"asc\" or \"desc\".");
    }
    answered(api.get(&format!("{MESSAGES}?order=desc&wait=0")), 200).await;
    answered(api.get(&format!("{MESSAGES}?order=asc&wait=1&echo=true")), 200).await;
}
