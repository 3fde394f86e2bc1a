//! A web page of another origin in Chromium uses the API: an `EventSource` with a signed URL, and
//! `fetch`.

use serde_json::{Value, json};

use support::browser::Browser;
use support::sukkal::{CLIENT, Sukkal};

const PROJECT: &str = "pages";
const MESSAGES: &str = "/v2/queues/q/messages";
/// Posts a message, for which the browser sends a preflight. Returns what the page can read of the
/// response.
const POST: &str = "
    const [url, project, client, body] = arguments;
    const headers = {'Client-ID': client, 'X-Project-ID': project, 'Content-Type': 'application/json'};
    return fetch(url, {method: 'POST', headers, body: JSON.stringify({messages: [{body}]})}).then(
        async answer => [answer.status, answer.headers.get('Location'), await answer.json()],
        error => error.name);";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_follows_and_posts_if_its_origin_is_listed() {
    // Any document of another server is enough as a page of another origin.
    let (app, stranger) = (Sukkal::start("memory:"), Sukkal::start("memory:"));
    let options = [("SUKKAL_TRANSPORT__CORS_ORIGINS", &*app.url("")), ("SUKKAL_SIGNED_URL__SECRET_KEY", "any")];
    let sukkal = Sukkal::start_with("memory:", &options);
    let url = signed_url(&sukkal).await;
    let post = json!([sukkal.url(MESSAGES), PROJECT, CLIENT, "from the page"]);
    let browser = Browser::start().await;

    browser.open(&app.url("/v2")).await;
    browser.follow(&url).await;
    let posted = browser.run(POST, post.clone()).await;

    assert_eq!(posted[0], 201, "{posted}");
    let location = posted[1].as_str().unwrap_or_else(|| panic!("no Location in {posted}"));
    assert!(location.starts_with(MESSAGES), "{posted}");
    let message = json!({"messages": [{"body": "from elsewhere"}]});
    sukkal.project(PROJECT).post(MESSAGES, &message).send().await.unwrap();
    assert_eq!(browser.wait_for_messages(2).await, ["from the page", "from elsewhere"]);
    let nowhere = json!([sukkal.url("/v2/nothing"), PROJECT, CLIENT, "x"]);
    let refused = browser.run(POST, nowhere).await;
    assert_eq!((&refused[0], &refused[2]["title"]), (&json!(404), &json!("404 Not Found")));

    browser.open(&stranger.url("/v2")).await;
    browser.follow(&url).await;
    let closed = "return window.source.readyState === EventSource.CLOSED ? [true] : []";
    browser.wait_for_items(closed, 1).await;
    assert_eq!(browser.wait_for_messages(0).await, [""; 0]);
    assert_eq!(browser.run(POST, post).await, "TypeError");
    let stats = sukkal.project(PROJECT).get("/v2/queues/q/stats").send().await.unwrap();
    assert_eq!(stats.json::<Value>().await.unwrap()["messages"]["total"], 2);
}

/// Returns the URL of the feed with a signature in its query, as docs/security.md describes.
async fn signed_url(sukkal: &Sukkal) -> String {
    let share = sukkal.project(PROJECT).post("/v2/queues/q/share", &json!({})).send().await.unwrap();
    let shared: Value = share.json().await.unwrap();
    let list = |key: &str| shared[key].as_array().unwrap().iter().map(text).collect::<Vec<_>>().join(",");
    let parameters = [
        ("url_signature", text(&shared["signature"])),
        ("url_expires", text(&shared["expires"])),
        ("url_paths", &list("paths")),
        ("url_methods", &list("methods")),
        ("project_id", text(&shared["project"])),
        ("client_id", CLIENT),
        ("echo", "true"),
    ];
    reqwest::Url::parse_with_params(&sukkal.url(MESSAGES), parameters).unwrap().into()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}
