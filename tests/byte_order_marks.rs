//! A byte order mark, which some editors write, is no part of a text: of a request, of the input of
//! a command, or of a file.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use reqwest::Method;
use serde_json::{Value, json};
use sukkal_domain::Token;
use tokio::io::AsyncWriteExt;
use tokio::task::block_in_place;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::Message;

use crate::auth::STRATEGIES;
use crate::http::{PATCH_TYPE, answered};
use crate::tls::client::connector;
use futures::SinkExt;
use support::certificates::{Authority, text};
use support::redis::{child_command, spawn};
use support::socket::{Received, Socket};
use support::sukkal::{Api, CLIENT, Sukkal, binary};

const MARK: &str = "\u{feff}";

async fn bodies(api: &Api, queue: &str) -> Vec<Value> {
    let page = answered(api.get(&format!("/v2/queues/{queue}/messages?echo=true")), 200).await.json();
    page["messages"].as_array().unwrap().iter().map(|message| message["body"].clone()).collect()
}

#[tokio::test]
async fn a_request_may_begin_with_a_byte_order_mark() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project("p");
    let with_mark = |method, path: &str, body: Value| {
        api.request(method, path).header("Content-Type", "application/json").body(format!("{MARK}{body}"))
    };

    answered(with_mark(Method::PUT, "/v2/queues/q", json!({"k": 1})), 201).await;
    let patch = api.request(Method::PATCH, "/v2/queues/q").header("Content-Type", PATCH_TYPE);
    let operations = json!([{"op": "add", "path": "/metadata/l", "value": 2}]);
    let metadata = answered(patch.body(format!("{MARK}{operations}")), 200).await.json();
    assert_eq!((&metadata["k"], &metadata["l"]), (&json!(1), &json!(2)));
    let message = json!({"messages": [{"body": format!("{MARK}http")}]});
    answered(with_mark(Method::POST, "/v2/queues/q/messages", message), 201).await;
    let mut socket = Socket::open(&sukkal.url("/v2/websocket"), "p").await;
    let request = json!({
        "action": "message_post",
        "headers": {"Client-ID": CLIENT, "X-Project-ID": "p"},
        "body": {"queue_name": "q", "messages": [{"body": "socket", "ttl": 60}]},
    });
    socket.stream.send(Message::text(format!("{MARK}{request}"))).await.unwrap();
    assert_eq!(socket.document().await["headers"]["status"], 201);

    assert_eq!(bodies(&api, "q").await, [json!(format!("{MARK}http")), json!("socket")]);
    answered(with_mark(Method::POST, "/v2/queues/q/claims", json!({"ttl": 60})), 201).await;
}

/// Returns a text in UTF-16, after each of the two byte order marks.
fn in_utf_16(text: &str) -> [Vec<u8>; 2] {
    let units = || format!("{MARK}{text}").encode_utf16().collect::<Vec<_>>().into_iter();
    [units().flat_map(u16::to_le_bytes).collect(), units().flat_map(u16::to_be_bytes).collect()]
}

#[tokio::test]
async fn a_request_in_utf_16_is_refused_with_what_to_send() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project("p");
    for document in in_utf_16("{}") {
        let post = api.request(Method::POST, "/v2/queues/q/messages").body(document.clone());
        let refused = answered(post, 400).await.json();
        assert_eq!(refused["description"], "Request body could not be parsed. It is in UTF-16; send it in UTF-8.");

        let mut socket = Socket::open(&sukkal.url("/v2/websocket"), "p").await;
        let head = [0x81, 0x80 | u8::try_from(document.len()).unwrap(), 0, 0, 0, 0];
        socket.stream.get_mut().write_all(&[&head[..], &document].concat()).await.unwrap();
        let reason = "The text is not UTF-8; send UTF-8, not UTF-16.".to_owned();
        assert_eq!(socket.receive().await, Received::Closed(Some((1007, reason))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_and_files_of_commands_in_utf_16_are_refused_with_what_to_send() {
    let sukkal = Sukkal::start("memory:");
    let home = tempfile::tempdir().unwrap();
    let (url, path, home) = (sukkal.url(""), home.path().join("file"), home.path().to_str().unwrap());
    let file = path.to_str().unwrap();
    let post = ["message", "post", "q", "--url", &url, "--project", "p"];
    for text in in_utf_16("1") {
        std::fs::write(&path, &text).unwrap();
        for (arguments, input) in [
            (&post[..], &text[..]),
            (&[&post[..], &["--json-bodies"]].concat(), &text),
            (&[&post[..], &["--credentials-file", file]].concat(), b"1"),
            (&["context", "add", "c", "--credentials-stdin", "--url", &url], &text),
            (&["check", "--store", "memory:", "--config", file], b""),
        ] {
            let output = block_in_place(|| output(home, arguments, input));
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success(), "{arguments:?}");
            assert!(error.contains("is in UTF-16;") && error.contains(" in UTF-8"), "{arguments:?}: {error}");
        }
    }
}

/// Runs a command with this input, which must succeed.
fn run(home: &str, arguments: &[&str], input: &str) -> Output {
    let output = output(home, arguments, input.as_bytes());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Runs a command with this input.
fn output(home: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = child_command(binary());
    command.args(arguments).env("XDG_CONFIG_HOME", home);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command).unwrap();
    let _not_read = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_input_and_the_files_of_commands_may_begin_with_a_byte_order_mark() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, contents: &str| {
        let path = home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("{MARK}{contents}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let token = Token::random().reveal();
    let admin = file("admin", &token);
    let options = [(STRATEGIES, "tokens"), ("SUKKAL_TOKENS__ADMIN_TOKEN_FILE", &*admin)];
    let sukkal = Sukkal::start_with("memory:", &options);
    let credentials = file("credentials", &format!("{}\n", *token));
    let (url, home) = (sukkal.url(""), home.path().to_str().unwrap());
    let run = |arguments: &[&str], input: &str| block_in_place(|| run(home, arguments, input));
    let service = ["--url", &url, "--project", "p", "--credentials-file", &credentials];

    run(&[&["message", "post", "texts"][..], &service].concat(), &format!("{MARK}first\n{MARK}second\n"));
    run(&[&["message", "post", "--json-bodies", "values"][..], &service].concat(), &format!("{MARK}[1]\n"));
    let add = ["context", "add", "kept", "--credentials-stdin", "--url", &url, "--project", "p"];
    run(&add, &format!("{MARK}{}\n", *token));
    let contexts = format!("{home}/sukkal/contexts.toml");
    let saved = std::fs::read_to_string(&contexts).unwrap();
    assert!(!saved.contains(MARK), "{saved}");
    std::fs::write(&contexts, format!("{MARK}{saved}")).unwrap();
    run(&["message", "post", "texts", "third"], "");

    let request = |path: &str| sukkal.project("p").get(path).header("X-Auth-Token", &*token);
    for (queue, expected) in
        [("texts", vec![json!("first"), json!(format!("{MARK}second")), json!("third")]), ("values", vec![json!([1])])]
    {
        let page = answered(request(&format!("/v2/queues/{queue}/messages?echo=true")), 200).await.json();
        let found: Vec<_> =
            page["messages"].as_array().unwrap().iter().map(|message| message["body"].clone()).collect();
        assert_eq!(found, expected, "{queue}");
    }
}

#[tokio::test]
async fn no_certificate_of_a_file_is_lost_behind_a_byte_order_mark() {
    let authority = Authority::new();
    let own = authority.issue("server", "/CN=server");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let chain = format!("{MARK}{}{}", read(&own.certificate), read(&authority.file()));
    std::fs::write(&own.certificate, chain).unwrap();
    std::fs::write(&own.key, format!("{MARK}{}", read(&own.key))).unwrap();
    let files = [("SUKKAL_TLS__CERTIFICATE", text(&own.certificate)), ("SUKKAL_TLS__KEY", text(&own.key))];

    let sukkal = Sukkal::start_with("memory:", &files);

    let stream = tokio::net::TcpStream::connect(sukkal.address()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = connector(&authority.file(), "http/1.1").connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.peer_certificates().map(<[_]>::len), Some(2));
}
