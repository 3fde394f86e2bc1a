//! A byte order mark, which some editors write, is no part of a text: of a request, of the input of a
//! command, or of a file.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use reqwest::Method;
use serde_json::{Value, json};
use sukkal::domain::Token;
use tokio::task::block_in_place;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::Message;

use crate::auth::STRATEGIES;
use crate::http::{PATCH_TYPE, answered};
use crate::tls::client::connector;
use futures::SinkExt;
use support::certificates::{Authority, text};
use support::redis::{child_command, spawn};
use support::socket::Socket;
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

/// Runs a command with this input.
fn run(home: &str, arguments: &[&str], input: &str) -> Output {
    let mut command = child_command(binary());
    command.args(arguments).env("XDG_CONFIG_HOME", home);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command).unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
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
