//! Mail: messages are sent to subscribers by a real SMTP server.

mod confirmation;
mod failures;
mod hostile;
mod restarts;
mod server;

use std::future::pending;
use std::sync::Arc;

use reqwest::StatusCode;
use serde_json::{Value, json};
use sukkal::app;
use sukkal::config::Config;
use tokio::net::TcpStream;

use self::server::{MailServer, header, headers};
use super::id;
use crate::http::{answered, ids, ok};
use support::certificates::{Authority, Certificate, text};
use support::ports;
use support::redis::child_command;
use support::secrets;
use support::sukkal::{Api, Sukkal};
use support::waiting::until;

const PASSWORD: &str = "hush-hush-password";

/// Returns the options of a service at this URL that sends mails to a server at this port of this
/// machine.
fn sending<'o>(port: &'o str, api_url: &'o str) -> [(&'o str, &'o str); 8] {
    [
        ("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"),
        ("SUKKAL_SIGNED_URL__SECRET_KEY", "a key that is long enough for any purpose"),
        ("SUKKAL_MAIL__HOST", "127.0.0.1"),
        ("SUKKAL_MAIL__PORT", port),
        ("SUKKAL_MAIL__ENCRYPTION", "none"),
        ("SUKKAL_MAIL__SENDER", "Queues <queues@sukkal.example>"),
        ("SUKKAL_MAIL__TRUSTED_RECIPIENTS", "@trusted.example"),
        ("SUKKAL_MAIL__API_URL", api_url),
    ]
}

/// A service that sends mails, and a client of it.
struct MailBench {
    /// The process of the service; `None` if it runs in the process of the tests.
    process: Option<Arc<Sukkal>>,
    url: String,
    api: Api,
}

impl MailBench {
    /// Starts a service that uses this mail server. `@trusted.example` needs no confirmation.
    fn over(server: &MailServer, options: &[(&str, &str)]) -> Self {
        Self::at(server.port, options)
    }

    fn at(port: u16, options: &[(&str, &str)]) -> Self {
        Self::with_store("memory:", port, options)
    }

    fn with_store(store: &str, port: u16, options: &[(&str, &str)]) -> Self {
        let address = ports::listen().local_addr().unwrap().to_string();
        let (port, url) = (port.to_string(), format!("http://{address}"));
        let sukkal = Sukkal::start_where(&address, store, &[&sending(&port, &url), options].concat());
        Self { api: sukkal.project("p"), process: Some(Arc::new(sukkal)), url }
    }

    /// Starts the service in this process, so that the test can move its clock.
    async fn here(server: &MailServer) -> Self {
        let address = ports::listen().local_addr().unwrap().to_string();
        let (port, url) = (server.port.to_string(), format!("http://{address}"));
        let options = [("SUKKAL_BIND", &*address), ("SUKKAL_STORE", "memory:")];
        let environment = [&sending(&port, &url)[..], &options].concat();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let config = Config::load(None, environment, &[]).unwrap();
        tokio::spawn(async move { app::serve(&config, pending()).await.expect("the service starts") });
        until("the service listens", async || TcpStream::connect(&address).await.is_ok()).await;
        Self { api: Api::new(url.clone(), "p"), process: None, url }
    }

    /// Returns the same service with another project.
    fn project(&self, project: &str) -> Self {
        Self { api: Api::new(self.url.clone(), project), process: self.process.clone(), url: self.url.clone() }
    }

    fn sukkal(&self) -> &Sukkal {
        self.process.as_deref().expect("the service has a process of its own")
    }

    /// Asks for a subscription, and returns the status and the answer.
    async fn try_subscribe(&self, subscriber: &str, options: Value) -> (StatusCode, Value) {
        let document = json!({ "subscriber": subscriber, "options": options });
        let response = self.api.post("/v2/queues/q/subscriptions", &document).send().await.unwrap();
        (response.status(), response.json().await.unwrap_or_default())
    }

    async fn subscribe(&self, subscriber: &str, options: Value) -> String {
        let (status, answer) = self.try_subscribe(subscriber, options).await;
        assert_eq!(status, 201, "{answer}");
        id(&answer)
    }

    async fn post(&self, body: Value) -> String {
        let messages = json!({"messages": [{"body": body, "ttl": 600}]});
        ids(&answered(self.api.post("/v2/queues/q/messages", &messages), 201).await.json()).remove(0)
    }

    /// Pauses or resumes a subscription.
    async fn act(&self, subscription: &str, action: &str) {
        ok(self.api.post(&format!("/v2/queues/q/subscriptions/{subscription}/{action}"), &json!({}))).await;
    }

    async fn get(&self, path: &str) -> Value {
        self.api.get(&format!("/v2/queues/q{path}")).send().await.unwrap().json().await.unwrap()
    }

    /// Returns the last attempts of a subscription, the oldest first.
    async fn attempts(&self, subscription: &str) -> Vec<Value> {
        super::attempts(&self.api, subscription).await.into_iter().rev().collect()
    }

    /// Waits until the figures of a subscription are as wanted.
    async fn wait_until(&self, subscription: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        super::wait_until(&self.api, "q", subscription, is_wanted).await
    }
}

/// Rows 8.7-6, 8.7-7.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_sent_by_mail_as_documented() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, &[]);
    let subscription = bench.subscribe("mailto:a@trusted.example,b+c@trusted.example", json!({"ordered": true})).await;

    let message = bench.post(json!({"order": 17, "text": "grün\n.\r\n"})).await;

    let mail = &server.wait_for(1).await[0];
    for (name, value) in [
        ("From", "Queues <queues@sukkal.example>"),
        ("To", "a@trusted.example, b+c@trusted.example"),
        ("Subject", "Message of the queue q"),
        ("Message-ID", &format!("<{message}.{subscription}@sukkal.example>")),
        ("Auto-Submitted", "auto-generated"),
        ("MIME-Version", "1.0"),
        ("Content-Type", "text/plain; charset=\"utf-8\""),
        ("Content-Transfer-Encoding", "quoted-printable"),
    ] {
        assert_eq!(header(mail, name), value, "{name}");
    }
    assert!(header(mail, "Date").ends_with(" +0000"));
    assert_eq!(mail["headers"].as_array().unwrap().len(), 9, "there is also the date: {mail}");
    assert_eq!(mail["recipients"], json!(["a@trusted.example", "b+c@trusted.example"]));
    assert_eq!((&mail["sender"], &mail["hello"]), (&json!("queues@sukkal.example"), &json!("sukkal.example")));
    let document: Value = serde_json::from_str(mail["text"].as_str().unwrap()).unwrap();
    let body = json!({"order": 17, "text": "grün\n.\r\n"});
    let expected = json!({"ttl": 600, "body": body, "Message_Type": "Notification", "queue_name": "q"});
    assert_eq!(document, expected);
    bench.post(json!(2)).await;
    assert_eq!(server.wait_for(2).await[1]["connection"], mail["connection"], "the connection is used again");
    bench.wait_until(&subscription, |figures| figures["delivered"] == 2).await;
    let attempt = &bench.attempts(&subscription).await[0];
    assert_eq!(
        (&attempt["status"], &attempt["response"], &attempt["error"]),
        (&json!(250), &json!("2.0.0 accepted as number 7"), &Value::Null)
    );
}

/// Row 8.7-7.
#[tokio::test(flavor = "multi_thread")]
async fn the_template_the_sender_and_the_subject_of_the_owner_are_used() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, &[("SUKKAL_MAIL__ALLOWED_SENDERS", "@shop.example")]);
    let template = "Hello,\n.\r\n\r.\r\n\"$zaqar_message$\"\n.";
    let subject = "Bestellung für ".to_owned() + &"äöü ".repeat(40);
    let options = json!({"post_data": template, "from": "orders@shop.example", "subject": subject});
    bench.subscribe("mailto:a@trusted.example", options).await;
    bench.subscribe("mailto:b@trusted.example?subject=50%25+%26%20more", json!({"subject": "unused"})).await;

    bench.post(json!(1)).await;

    let mails = server.wait_for(2).await;
    let to = |recipient: &str| mails.iter().find(|mail| header(mail, "To") == recipient).unwrap();
    let mail = to("a@trusted.example");
    assert_eq!(header(mail, "Subject").trim_end(), subject.trim_end());
    assert_eq!((header(mail, "From"), &mail["sender"]), ("orders@shop.example", &json!("orders@shop.example")));
    let document = r#"{"ttl":600,"body":1,"Message_Type":"Notification","queue_name":"q"}"#;
    let text = mail["text"].as_str().unwrap().replace("\r\n", "\n");
    assert_eq!(text.trim_end(), format!("Hello,\n.\n\r.\n{document}\n."));
    assert_eq!(header(to("b@trusted.example"), "Subject"), "50%+& more");
    assert_eq!(server.mails().len(), 2);
}

/// Row 8.7-8.
#[tokio::test(flavor = "multi_thread")]
async fn mails_and_the_login_are_encrypted_as_configured() {
    let authority = Authority::new();
    let certificate = authority.issue("mail", "/CN=mail");
    let password_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(password_file.path(), format!("{PASSWORD}\n")).unwrap();
    secrets::note(PASSWORD);
    for encryption in ["starttls", "tls"] {
        let server = MailServer::encrypted(encryption, &certificate);
        let (trusted, file) = (authority.file(), text(password_file.path()));
        let options = login(encryption, &[("SUKKAL_MAIL__PASSWORD_FILE", file), ("SSL_CERT_FILE", text(&trusted))]);
        let bench = MailBench::over(&server, &options);
        bench.subscribe("mailto:a@trusted.example", json!({})).await;

        bench.post(json!(1)).await;

        let mail = &server.wait_for(1).await[0];
        assert_eq!((&mail["encrypted"], &mail["login"]), (&json!(true), &json!("sukkal")), "{encryption}");
    }
}

fn login<'o>(encryption: &'o str, options: &[(&'o str, &'o str)]) -> Vec<(&'o str, &'o str)> {
    let login = [("SUKKAL_MAIL__ENCRYPTION", encryption), ("SUKKAL_MAIL__USERNAME", "sukkal")];
    [&login[..], options].concat()
}

/// Row 8.7-8.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_a_server_that_is_not_the_right_one() {
    let (authority, other) = (Authority::new(), Authority::new());
    let certificate = authority.issue("mail", "/CN=mail");
    let (trusted, untrusted) = (authority.file(), other.file());
    let with = |file| [("SUKKAL_MAIL__PASSWORD", PASSWORD), ("SSL_CERT_FILE", file)];
    let wrong = [("SUKKAL_MAIL__PASSWORD", "another-password"), ("SSL_CERT_FILE", text(&trusted))];
    let encrypted = |encryption: &str, certificate: &Certificate| MailServer::encrypted(encryption, certificate);
    for (server, options, reason) in [
        (
            encrypted("tls", &certificate),
            login("tls", &with(text(&untrusted))),
            "invalid peer certificate: UnknownIssuer",
        ),
        (
            encrypted("starttls", &certificate),
            login("starttls", &with(text(&untrusted))),
            "invalid peer certificate: UnknownIssuer",
        ),
        (MailServer::start(), login("starttls", &with(text(&trusted))), "the mail server does not offer STARTTLS"),
        (encrypted("tls", &certificate), login("tls", &wrong), "the login at the mail server was refused with 535"),
    ] {
        let bench = MailBench::over(&server, &options);
        let subscription = bench.subscribe("mailto:a@trusted.example", json!({})).await;

        bench.post(json!(1)).await;

        bench.wait_until(&subscription, |figures| figures["attempts"].as_u64() >= Some(2)).await;
        let attempt = &bench.attempts(&subscription).await[0];
        assert_eq!((&attempt["error"], &attempt["status"]), (&json!(reason), &Value::Null));
        assert!(server.mails().is_empty() && server.events("recipient").is_empty());
        let told = bench.sukkal().logged("cannot send mails").await;
        assert_eq!(told.len(), 1, "the operator is told once: {told:#?}");
    }
}

/// Row 8.7-1.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_subscribes_a_mail_address_only_if_there_is_a_mail_server() {
    let server = MailServer::start();
    let with = MailBench::over(&server, &[]);
    let without = Sukkal::start("memory:");
    let create = |url: String| {
        let mut command = child_command(support::sukkal::binary());
        command.args(["--url", &url, "--project", "p", "subscription", "create", "q"]);
        command.args(["mailto:a@trusted.example?subject=x", "subject=y", "--ttl", "600"]).output().unwrap()
    };

    let created = create(with.url.clone());
    let refused = create(without.url(""));

    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    with.post(json!(1)).await;
    assert_eq!(headers(&server.wait_for(1).await[0], "Subject"), ["x"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("must be supported in the list [\"http\", \"https\"]"), "{error}");
}
