//! Fact sheet 8.7: recipients confirm with the link in a mail, and nobody else can do it for them.

use std::process::Command;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::MailBench;
use super::server::{MailServer, header};
use support::waiting::until;

const PAGE: &[(&str, &str)] = &[("SUKKAL_MAIL__EXTERNAL_CONFIRMATION_URL", "https://page.example/confirm")];

fn text(mail: &Value) -> String {
    mail["text"].as_str().unwrap().replace("\r\n", "\n")
}

/// Runs the command in a mail, and returns the status of its response.
fn run_command(mail: &Value) -> String {
    let text = text(mail);
    let command = &text[text.find("curl ").unwrap()..];
    let command = format!("{} -s -o /dev/null -w '%{{http_code}}'", &command[..command.find("}'").unwrap() + 2]);
    let output = Command::new("sh").args(["-c", &command]).output().expect("sh can be run");
    String::from_utf8(output.stdout).unwrap()
}

/// Sends what the page behind a link sends, and returns the status.
async fn follow_link(mail: &Value, confirmed: bool) -> StatusCode {
    let text = text(mail);
    let link = text.lines().find(|line| line.starts_with("https://page.example/confirm?")).unwrap();
    let link = Url::parse(link).unwrap();
    let value = |name: &str| link.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
    assert_eq!(value("Queue"), "q");
    let request = support::plain_http::client().put(value("Url"));
    let headers = [
        ("URL-Signature", "Signature"),
        ("URL-Methods", "Methods"),
        ("URL-Paths", "Paths"),
        ("URL-Expires", "Expires"),
    ];
    let request = headers.iter().fold(request, |request, (header, name)| request.header(*header, value(name)));
    let request = request.header("X-Project-ID", value("Project")).header("Client-ID", Uuid::new_v4().to_string());
    request.json(&json!({ "confirmed": confirmed })).send().await.unwrap().status()
}

impl MailBench {
    async fn confirm_as(&self, request: reqwest::RequestBuilder) -> (StatusCode, String) {
        let response = request.json(&json!({"confirmed": true})).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    async fn is_confirmed(&self, subscription: &str) -> bool {
        self.get(&format!("/subscriptions/{subscription}")).await["confirmed"] == true
    }
}

/// Rows 8.7-14, 8.7-15.
#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_confirms_with_the_link_in_a_mail_and_gets_later_messages() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, PAGE);
    let options = json!({"subject": "Win a prize", "post_data": "Win a prize", "ordered": true});
    let subscription = bench.subscribe("mailto:a@other.example?subject=Win", options).await;

    let mail = server.wait_for(1).await[0].clone();
    assert_eq!(header(&mail, "From"), "Queues <queues@sukkal.example>");
    assert_eq!(header(&mail, "To"), "a@other.example");
    assert_eq!(header(&mail, "Subject"), "Confirm your subscription to the queue q");
    assert_eq!(header(&mail, "Auto-Submitted"), "auto-generated");
    assert!(text(&mail).starts_with("You have been subscribed to the queue q of the project p.\n"));
    assert!(!mail["text"].as_str().unwrap().contains("prize"), "a client does not choose the text");
    bench.post(json!(1)).await;
    assert_eq!(follow_link(&mail, true).await, 204);
    assert!(bench.is_confirmed(&subscription).await);
    bench.post(json!(2)).await;

    let mails = server.wait_for(2).await;
    bench.wait_until(&subscription, |figures| figures["delivered"] == 1).await;
    assert_eq!((header(&mails[1], "Subject"), mails[1]["text"].as_str().unwrap().trim_end()), ("Win", "Win a prize"));
    assert_eq!(follow_link(&mail, false).await, 204);
    let mail = server.wait_for(3).await[2].clone();
    assert_eq!(header(&mail, "Subject"), "You have unsubscribed from the queue q");
    bench.post(json!(3)).await;
    assert_eq!(follow_link(&mail, true).await, 204);
    bench.post(json!(4)).await;
    server.wait_for(4).await;
    bench.wait_until(&subscription, |figures| figures["delivered"] == 2).await;
}

/// Row 8.7-15.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_page_the_mail_has_a_command_that_confirms() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, &[]);
    let project = bench.project("o'neil $(false) & co");
    let subscription = project.subscribe("mailto:a@other.example", json!({})).await;

    let mail = server.wait_for(1).await[0].clone();

    assert_eq!(run_command(&mail), "204", "{}", text(&mail));
    assert!(project.is_confirmed(&subscription).await);
}

/// Row 8.7-14.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_recipient_can_confirm() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, PAGE);
    let subscription = bench.subscribe("mailto:a@other.example", json!({})).await;
    let path = format!("/v2/queues/q/subscriptions/{subscription}/confirm");
    let share = json!({"paths": ["subscriptions"], "methods": ["PUT"]});
    let shared: Value = bench.api.post("/v2/queues/q/share", &share).send().await.unwrap().json().await.unwrap();
    let signed = ["URL-Signature", "URL-Paths", "URL-Methods", "URL-Expires"]
        .into_iter()
        .zip(["signature", "paths", "methods", "expires"])
        .fold(bench.api.request(Method::PUT, &path), |request, (header, name)| {
            let value = shared[name].as_str().or(shared[name][0].as_str()).unwrap();
            request.header(header, value)
        });
    for request in [bench.api.request(Method::PUT, &path), signed] {
        let (status, answer) = bench.confirm_as(request).await;
        assert!(status == 400 && answer.contains("only the recipient can confirm"), "{status} {answer}");
    }
    assert!(!bench.is_confirmed(&subscription).await);

    bench.post(json!(1)).await;
    let trusted = bench.subscribe("mailto:a@trusted.example", json!({})).await;
    bench.post(json!(2)).await;

    bench.wait_until(&trusted, |figures| figures["delivered"] == 1).await;
    let mails = server.wait_for(2).await;
    let to_other: Vec<&str> = mails
        .iter()
        .filter(|mail| header(mail, "To") == "a@other.example")
        .map(|mail| header(mail, "Subject"))
        .collect();
    assert_eq!((mails.len(), to_other), (2, vec!["Confirm your subscription to the queue q"]));
}

/// Row 8.7-16.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_more_than_three_confirmations_in_an_hour() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, PAGE);
    for name in ["ab", "ab", "AB", "ab%2Bx", "a.b%2By", "a.b"] {
        bench.subscribe(&format!("mailto:{name}@other.example"), json!({})).await;
    }
    bench.subscribe("mailto:b@other.example", json!({})).await;
    let refused = || bench.sukkal().log().iter().filter(|line| line.contains("got 3 confirmations")).count();
    until("the other confirmations are refused", async || refused() == 3).await;

    let mails = server.wait_for(4).await;

    let first = mails.iter().filter(|mail| !header(mail, "To").starts_with("b@")).count();
    assert_eq!((first, server.mails().len()), (3, 4));
    assert!(!bench.sukkal().log().join("\n").contains("@other.example"), "addresses are not logged");
}
