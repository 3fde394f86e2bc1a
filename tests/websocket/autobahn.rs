//! The Autobahn test suite, against an echo on the code that serves WebSockets.
//!
//! `SUKKAL_AUTOBAHN` is the command of the suite, such as `wstest`, which needs Python 2.7. Without
//! it, only the echo itself is tested.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use futures::SinkExt;
use serde_json::{Value, json};
use sukkal::app;
use sukkal::config::Config;
use sukkal_storage::embedded::EmbeddedStore;
use tokio::task::spawn_blocking;
use tokio_tungstenite::tungstenite::Message;

use super::serve_here;
use support::redis::child_command;
use support::socket::Socket;

/// Size in bytes of the largest message of the suite.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;
/// The groups of the suite, besides those of extensions that the service does not have.
const GROUPS: [&str; 9] = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"];
/// The outcomes that the suite accepts.
const ACCEPTED: [&str; 3] = ["OK", "NON-STRICT", "INFORMATIONAL"];

/// Starts an echo and returns its URL.
async fn start_echo() -> String {
    let mut config = Config::load(None, [], &[]).unwrap();
    config.transport.limits.max_messages_post_size = MESSAGE_BYTES_MAX;
    let mut service = app::service(&config, Arc::new(EmbeddedStore::in_memory().unwrap())).unwrap();
    let mut settings = (*service.settings).clone();
    settings.websocket.echoes = true;
    service.settings = Arc::new(settings);
    serve_here(service).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_autobahn_suite_accepts_an_echo_on_the_same_code() {
    let url = start_echo().await;
    let mut socket = Socket::open(&url, "p").await;
    for message in [Message::text("\u{20ac}"), Message::binary(vec![0xff; 1 << 20])] {
        socket.stream.send(message.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), message);
    }
    let Ok(command) = std::env::var("SUKKAL_AUTOBAHN") else { return };

    let folder = tempfile::tempdir().unwrap();
    let (specification, reports) = (folder.path().join("specification.json"), folder.path().join("reports"));
    let document = json!({
        "outdir": reports, "servers": [{ "agent": "sukkal", "url": url.replace("http://", "ws://") }],
        "cases": GROUPS, "exclude-cases": [], "exclude-agent-cases": {},
    });
    fs::write(&specification, document.to_string()).unwrap();
    let mut suite = child_command(command);
    suite.args(["-m", "fuzzingclient", "-s"]).arg(&specification).stdout(Stdio::null());
    assert!(spawn_blocking(move || suite.status().unwrap()).await.unwrap().success());

    let index: Value = serde_json::from_slice(&fs::read(reports.join("index.json")).unwrap()).unwrap();
    let cases = index["sukkal"].as_object().unwrap();
    let is_accepted = |outcome: &Value| ACCEPTED.iter().any(|accepted| outcome == accepted);
    let wrong: Vec<_> = cases
        .iter()
        .filter(|(_, case)| !is_accepted(&case["behavior"]) || !is_accepted(&case["behaviorClose"]))
        .collect();
    assert!(cases.len() > 200 && wrong.is_empty(), "{wrong:#?}");
}
