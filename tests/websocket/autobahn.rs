//! The Autobahn test suite, against an echo on the code that serves WebSockets.
//!
//! `SUKKAL_AUTOBAHN` is the command of the suite, such as `wstest`, which needs Python 2.7. Without it,
//! only the echo itself is tested.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use sukkal::api::http;
use sukkal::app;
use sukkal::config::Config;
use sukkal::metrics::LiveCount;
use sukkal::storage::embedded::EmbeddedStore;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio_tungstenite::tungstenite::Message;

use crate::support::redis::child_command;
use crate::support::socket::Socket;

/// Size in bytes of the largest message of the suite.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;
/// The groups of the suite, besides those of extensions that the service does not have.
const GROUPS: [&str; 9] = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"];
/// The outcomes that the suite accepts.
const ACCEPTED: [&str; 3] = ["OK", "NON-STRICT", "INFORMATIONAL"];

/// Starts an echo and returns its port.
async fn start_echo() -> u16 {
    let mut config = Config::load(None, [], &[]).unwrap();
    config.transport.limits.max_messages_post_size = MESSAGE_BYTES_MAX;
    let mut service = app::service(&config, Arc::new(EmbeddedStore::in_memory().unwrap())).unwrap();
    let mut settings = (*service.settings).clone();
    settings.websocket.echoes = true;
    service.settings = Arc::new(settings);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let limits = http::ServerLimits { head_timeout: Duration::from_secs(60), connections_max: 1000 };
    let router = http::websocket_router(service);
    tokio::spawn(async move {
        http::serve(listener, router, limits, LiveCount::default(), std::future::pending()).await.await;
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn the_autobahn_suite_accepts_an_echo_on_the_same_code() {
    let port = start_echo().await;
    let mut socket = Socket::open(&format!("http://127.0.0.1:{port}/"), "p").await;
    for message in [Message::text("\u{20ac}"), Message::binary(vec![0xff; 1 << 20])] {
        socket.stream.send(message.clone()).await.unwrap();
        assert_eq!(socket.stream.next().await.unwrap().unwrap(), message);
    }
    let Ok(command) = std::env::var("SUKKAL_AUTOBAHN") else { return };

    let folder = tempfile::tempdir().unwrap();
    let (specification, reports) = (folder.path().join("specification.json"), folder.path().join("reports"));
    let document = json!({
        "outdir": reports, "servers": [{ "agent": "sukkal", "url": format!("ws://127.0.0.1:{port}") }],
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
    println!("{} cases", cases.len());
    assert!(cases.len() > 200 && wrong.is_empty(), "{wrong:#?}");
}
