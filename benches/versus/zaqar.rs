//! `OpenStack` Zaqar from `PyPI` with a private Redis as message and management store, without
//! authentication and pooling. It runs on the fastest server for it: uWSGI with its HTTP router and
//! four workers.
//!
//! The first start installs it below `target/versus`, which takes a minute and needs a package
//! index.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::support::ports::free_port;
use crate::support::python;
use crate::support::redis::{RedisServer, child_command, spawn};

const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/versus/zaqar.txt");
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The directory of configuration and logs, which is removed when this program ends.
static HOME: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// Starts Zaqar and returns its process and URL.
pub(crate) async fn start(redis: &RedisServer) -> (Child, String) {
    start_with(redis, "").await
}

/// Starts Zaqar so that it notifies subscribers.
pub(crate) async fn start_notifying(redis: &RedisServer) -> (Child, String) {
    start_with(redis, "[storage]\nmessage_pipeline = zaqar.notification.notifier\n").await
}

async fn start_with(redis: &RedisServer, more: &str) -> (Child, String) {
    let python = python::environment("versus/zaqar", REQUIREMENTS);
    // oslo.config reads the configuration from the home directory.
    let home = HOME.path().join(redis.port().to_string());
    fs::create_dir_all(home.join(".zaqar")).unwrap();
    fs::write(home.join(".zaqar/zaqar.conf"), configuration(redis) + more).unwrap();

    let port = free_port();
    let log = File::create(home.join("uwsgi.log")).unwrap();
    let mut uwsgi = child_command(python.with_file_name("uwsgi"));
    uwsgi
        .args(["--http", &format!("127.0.0.1:{port}"), "--http-keepalive", "--master", "--processes", "4"])
        .args(["--add-header", "Connection: Keep-Alive", "--listen", "4096", "--disable-logging", "--no-orphans"])
        .args(["--module", "zaqar.transport.wsgi.app:app", "--need-app"])
        // Without a length, the router would close the connection after each response.
        .args(["--response-route-status", "204 addheader:Content-Length: 0"])
        .env("HOME", &home)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    let mut process = spawn(uwsgi).expect("uwsgi is installed");
    let url = format!("http://127.0.0.1:{port}");
    wait_until_ready(&mut process, &url, home).await;
    (process, url)
}

fn configuration(redis: &RedisServer) -> String {
    let store = format!("uri = {}", redis.url());
    format!(
        "[DEFAULT]\nauth_strategy =\npooling = False\nlog_file = zaqar.log\nlog_dir = {home}\n\
         [drivers]\ntransport = wsgi\nmessage_store = redis\nmanagement_store = redis\n\
         [drivers:message_store:redis]\n{store}\n[drivers:management_store:redis]\n{store}\n\
         [signed_url]\nsecret_key = unused\n",
        home = HOME.path().display(),
    )
}

async fn wait_until_ready(process: &mut Child, url: &str, home: PathBuf) {
    let give_up = Instant::now() + START_TIMEOUT;
    loop {
        // A response is sufficient, even one that requires a client id.
        if reqwest::get(format!("{url}/v2/ping")).await.is_ok() {
            return;
        }
        let over = process.try_wait().unwrap().is_some() || Instant::now() > give_up;
        assert!(!over, "Zaqar did not start: {}", fs::read_to_string(home.join("uwsgi.log")).unwrap());
        sleep(Duration::from_millis(100)).await;
    }
}
