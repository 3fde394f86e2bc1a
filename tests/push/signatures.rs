//! Signatures of notifications, verified by the published libraries of Standard Webhooks. The
//! libraries know only `v1`, so `v1a` is verified by libraries for Ed25519.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::endpoint::{Endpoint, Received};
use super::{Bench, id, numbers};
use crate::http::answered;
use support::redis::{child_command, spawn};
use support::{node, python};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/push");

/// Returns what `verify.py` and `verify.mjs` verify: that each of these keys has signed.
fn case(received: &Received, keys: &[&Value]) -> Value {
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers: Value = names.iter().map(|name| ((*name).to_owned(), json!(received.header(name)))).collect();
    json!({"headers": headers, "body": str::from_utf8(&received.text).unwrap(), "keys": keys})
}

/// Returns one notification signed by `v1`, one signed by two keys during a rotation, and one
/// signed by `v1a`, each with the keys that verify it.
async fn cases() -> Value {
    let bench = Bench::embedded();
    let (v1, v1a) = (Endpoint::start(), Endpoint::start());
    let created = bench.subscribe(&v1.url("/"), json!({})).await;
    let asymmetric = bench.subscribe(&v1a.url("/"), json!({"signature": "v1a"})).await;
    bench.post(&[json!("über €")]).await;
    let before = v1.wait_for(1).await[0].clone();

    let new_secret = json!("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let path = format!("/v2/queues/q/subscriptions/{}", id(&created));
    answered(bench.api.request(Method::PATCH, &path).json(&json!({"secret": new_secret})), 204).await;
    bench.post(&numbers(1, 1)).await;
    let during = v1.wait_for(2).await[1].clone();

    let (old, new, public) = (&created["secret"], &new_secret, &asymmetric["public_key"]);
    json!([case(&before, &[old]), case(&during, &[old, new]), case(&v1a.wait_for(1).await[0], &[public])])
}

/// Runs a script that verifies these cases.
fn verify(mut command: Command, cases: &Value) {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut script = spawn(command).expect("the program starts");
    script.stdin.take().unwrap().write_all(cases.to_string().as_bytes()).unwrap();
    let output = script.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_library_verifies_notifications() {
    let cases = cases().await;

    spawn_blocking(move || {
        let mut command = child_command(python::venv());
        command.args(["-B", &format!("{FOLDER}/verify.py")]);
        verify(command, &cases);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_javascript_library_verifies_notifications() {
    let cases = cases().await;

    spawn_blocking(move || {
        // The folder is below the packages, so that the script can import them.
        let folder = tempfile::tempdir_in(node::packages()).unwrap();
        fs::copy(Path::new(FOLDER).join("verify.mjs"), folder.path().join("verify.mjs")).unwrap();
        let mut command = child_command("node");
        command.arg(folder.path().join("verify.mjs"));
        verify(command, &cases);
    })
    .await
    .unwrap();
}
