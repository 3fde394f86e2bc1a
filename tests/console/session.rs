//! Who is signed in, what the browser keeps, and where credentials go.

use serde_json::{Value, json};

use super::{Console, PROJECT, create, open_orders, post};
use crate::auth::stub_keystone;
use crate::http::answered;
use crate::operations::proxies::Proxy;
use support::sukkal::{CLIENT, Sukkal};

/// Returns a service whose callers need a token, and the token of its admin.
pub(super) fn with_tokens() -> (Sukkal, String) {
    let token = sukkal_domain::Token::random().reveal().to_string();
    let options =
        [("SUKKAL_ADMIN_MODE", "true"), ("SUKKAL_AUTH__STRATEGIES", "tokens"), ("SUKKAL_TOKENS__ADMIN_TOKEN", &*token)];
    (Sukkal::start_with("memory:", &options), token)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_stays_in_headers_and_is_forgotten_with_the_session() {
    let (sukkal, token) = with_tokens();
    let console = Console::open(&sukkal.url("/console")).await;

    console.shows("requires authentication").await;
    console.fill("Token", &token).await;
    console.click("Sign in").await;
    console.shows("Project demo has no queues yet").await;
    console.go("#/operators").await;
    console.click("Create a token").await;
    console.fill("What it is for", "worker of orders").await;
    console.fill("Roles", "worker").await;
    // A token whose time to live cannot be read would never expire.
    console.browser.run("[...document.querySelectorAll('dialog[open] input')].at(-1).focus()", json!([])).await;
    console.browser.press("36-").await;
    console.click("Create").await;
    assert_eq!(console.read("return document.activeElement.validity.badInput").await, true);
    console.fill("Time to live, in seconds", "3600").await;
    console.click("Create").await;
    console.shows("It is never shown again.").await;
    console.click("Close").await;
    console.hides("never").await;
    console.click("Revoke").await;
    console.click("Yes, do it").await;
    console.shows("There are no tokens.").await;
    console.go("#/queues/hello/messages").await;
    console.click("Live tail").await;
    console.shows("Connected.").await;

    let seen = "return JSON.stringify([location.href, document.cookie, {...localStorage}, document.body.innerText,
        ...performance.getEntriesByType('resource').map(entry => entry.name), history.state])";
    let seen = console.read(seen).await;
    assert!(!seen.as_str().unwrap().contains("skt_"), "{seen}");
    assert_eq!(console.read("return document.cookie").await, "");
    console.click("Sign out").await;
    console.shows("Sign in to see the queues of a project.").await;
    assert_eq!(console.read("return JSON.stringify({...sessionStorage})").await, "{}");
}

/// Otherwise the queues of one project would be shown below the name of another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_and_a_project_must_fit_together() {
    let (sukkal, admin) = with_tokens();
    let create = async |project: Value| {
        let body = json!({"name": "n", "project_id": project, "roles": ["worker"]});
        let response = sukkal.project(PROJECT).post("/v2/tokens", &body).bearer_auth(&admin).send().await.unwrap();
        response.json::<Value>().await.unwrap()["token"].as_str().unwrap().to_owned()
    };
    let (of_shop, of_all) = (create(json!("shop")).await, create(Value::Null).await);

    let console = Console::with_token(&sukkal.url("/console"), &of_shop).await;
    console.shows("The token is for another project than the one that you have entered").await;
    console.fill("Project", "").await;
    console.click("Sign in").await;
    console.shows("Project of the token").await;
    console.shows("Your project has no queues yet").await;

    console.click("Sign out").await;
    console.fill("Token", &of_all).await;
    console.click("Sign in").await;
    console.shows("Enter a project: the token has none").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reason_of_a_service_with_keystone_is_shown() {
    let sukkal = Sukkal::start_with("memory:", &stub_keystone::options("http://127.0.0.1:9"));

    let console = Console::open(&sukkal.url("/console")).await;

    console.shows("Unauthorized: ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_is_kept_while_its_writer_is_signed_in() {
    let (_sukkal, _api, console) = open_orders("messages").await;
    let reopened = async || {
        console.click("Post a message").await;
        console.read("return document.querySelector('dialog textarea').value").await
    };
    console.click("Post a message").await;
    console.fill("Body", "for me only").await;
    console.click("Close").await;
    assert_eq!(reopened().await, "for me only");
    console.click("Close").await;

    console.click("Sign out").await;
    console.fill("Project", PROJECT).await;
    console.click("Sign in").await;

    assert_ne!(reopened().await, "for me only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_action_is_not_retried_in_another_project() {
    let (_sukkal, _api, console) = open_orders("settings").await;
    console.fail_to_save().await;
    console.click("Close").await;
    console.shows("Retry").await;

    console.click(PROJECT).await;
    console.fill("Project", "shop").await;
    console.click("Sign in").await;

    console.hides("Retry").await;
    assert_eq!(console.text_of("#session button").await, "shop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_and_pages_stay_in_their_project() {
    let sukkal = Sukkal::start("memory:");
    create(&sukkal.project(PROJECT), "orders", &json!({})).await;
    create(&sukkal.project("shop"), "carts", &json!({})).await;
    let console = Console::open(&sukkal.url("/console#/queues?prefix=o&marker=p")).await;
    console.shows("This is the end of the list.").await;

    console.click(PROJECT).await;
    console.fill("Project", "shop").await;
    console.click("Sign in").await;

    console.shows("carts").await;
    assert_eq!(console.read("return location.hash").await, "#/queues");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copied_command_works_and_has_no_token() {
    let (sukkal, token) = with_tokens();
    let api = sukkal.project("demo");
    answered(api.put("/v2/queues/orders").header("Authorization", format!("Bearer {token}")), 201).await;
    let console = Console::with_token(&sukkal.url("/console#/queues/orders/settings"), &token).await;
    console.shows("_default_message_ttl").await;

    // A headless browser refuses access to the clipboard, so the console shows the command.
    console.browser.run("navigator.clipboard.writeText = async text => { window.copied = text; }", json!([])).await;
    console
        .browser
        .wait_for(
            "document.querySelector('[aria-label=\"Copy The metadata as curl\"]')?.click(); return window.copied",
            json!([]),
        )
        .await;
    let command = console.read("return window.copied").await;
    let command = command.as_str().unwrap();

    assert!(!command.contains(&token) && command.contains("$TOKEN"), "{command}");
    let ran = std::process::Command::new("sh")
        .args(["-c", &command.replacen("curl", "curl -s", 1)])
        .env("TOKEN", &token)
        .output();
    let answer: Value = serde_json::from_slice(&ran.unwrap().stdout).unwrap();
    assert_eq!(answer["_default_message_ttl"], 3600);
}

#[tokio::test]
async fn the_console_can_be_switched_off_and_its_files_are_protected() {
    let sukkal = Sukkal::start("memory:");
    let off = Sukkal::start_with("memory:", &[("SUKKAL_CONSOLE__ENABLED", "false")]);
    let http = support::plain_http::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();

    for path in ["/console", "/console/main.js", "/console/console.css", "/docs"] {
        let answer = http.get(sukkal.url(path)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        let policy = answer.headers()["Content-Security-Policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe-inline") && !policy.contains("unsafe-eval"), "{policy}");
        assert_eq!(answer.headers()["X-Content-Type-Options"], "nosniff");
        assert_eq!(answer.headers().get("Set-Cookie"), None);
        let tag = answer.headers()["ETag"].clone();
        let again = http.get(sukkal.url(path)).header("If-None-Match", tag).send().await.unwrap();
        assert_eq!((again.status().as_u16(), again.bytes().await.unwrap().len()), (304, 0), "{path}");
        let missing =
            http.get(off.url(path)).header("Client-ID", CLIENT).header("X-Project-ID", "demo").send().await.unwrap();
        assert_eq!(missing.status(), 404, "{path}");
    }
    let slash = http.get(sukkal.url("/console/")).send().await.unwrap();
    assert_eq!((slash.status().as_u16(), slash.headers()["Location"].to_str().unwrap()), (308, "../console"));
    answered(http.get(sukkal.url("/console/nothing.js")), 404).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_and_the_reference_work_behind_a_path_prefix() {
    let sukkal = Sukkal::start("memory:");
    post(&sukkal.project("demo"), "orders", &[json!(1)]).await;
    let config = "
        events {}
        http { access_log off; server { listen 8080; location /tools/sukkal/ {
            proxy_pass http://127.0.0.1:8888/; proxy_http_version 1.1; proxy_set_header Host $http_host;
        } } }";
    let proxy = Proxy::nginx_with(config, [sukkal.address(); 2]);
    let console = Console::open(&format!("{}{}", proxy.url(), "/tools/sukkal/console#/queues")).await;

    console.shows("orders").await;
    console.click("API").await;
    console.shows("Create a queue").await;
    assert_eq!(console.read("return location.pathname").await, "/tools/sukkal/docs");
    assert_eq!(console.read("return document.styleSheets.length").await, 2);
    assert_eq!(console.browser.messages().await, [""; 0]);
}
