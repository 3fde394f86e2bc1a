//! `OpenStack` Zaqar from `PyPI` with a private Redis as message and management store, without
//! authentication and pooling. It runs on the fastest server for it: uWSGI with its HTTP router and
//! four workers.
//!
//! The first start installs it below `target/versus`, which takes a minute and needs a package
//! index.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use support::ports::free_port;
use support::python;
use support::redis::{RedisServer, child_command, spawn};

const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/zaqar.txt");
const LOG_FILE: &str = "zaqar.log";
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Longer than Zaqar needs to end after it is asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The directory of configurations and logs. It stays after this program, so that the logs can be
/// read.
static HOME: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// Starts Zaqar and returns its process and URL.
pub(crate) async fn start(redis: &RedisServer) -> (Child, String) {
    start_with(redis, configuration(redis, "")).await
}

/// Starts Zaqar so that it notifies subscribers.
///
/// By default, Zaqar waits 0.1 s for a reply of Redis, and does not repeat the command. To create a
/// subscription, it reads all others of the queue, one command for each. A single late reply then
/// gives the response `503 Subscription could not be created`. So the limit is longer here.
pub(crate) async fn start_notifying(redis: &RedisServer) -> (Child, String) {
    let pipeline = "[storage]\nmessage_pipeline = zaqar.notification.notifier\n";
    start_with(redis, configuration(redis, "?socket_timeout=10") + pipeline).await
}

/// Returns the last line of the last error that Zaqar with this Redis has logged.
pub(crate) fn last_error(redis: &RedisServer) -> Option<String> {
    let log = fs::read_to_string(home(redis).join(LOG_FILE)).ok()?;
    let errors = log.lines().filter_map(|line| line.split_once(" ERROR zaqar.")?.1.split_once(' '));
    // The lines of a traceback are indented, but for the last one.
    let mut unindented = errors.map(|(_module, text)| text).filter(|text| !text.is_empty() && !text.starts_with(' '));
    unindented.next_back().map(str::to_owned)
}

/// Stops Zaqar and waits for its end. It stops its child processes only if it is asked to stop, not
/// if it is killed.
pub(crate) fn stop(process: &mut Child) {
    let id = process.id().to_string();
    let _asked = Command::new("kill").args(["-INT", &id]).status();
    let give_up = Instant::now() + STOP_TIMEOUT;
    while process.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < give_up {
        thread::sleep(Duration::from_millis(10));
    }
    let _dead_already = process.kill();
    let _reaped = process.wait();
}

async fn start_with(redis: &RedisServer, configuration: String) -> (Child, String) {
    let python = python::environment("versus/zaqar", REQUIREMENTS);
    // oslo.config reads the configuration from the home directory.
    let home = home(redis);
    fs::create_dir_all(home.join(".zaqar")).unwrap();
    fs::write(home.join(".zaqar/zaqar.conf"), configuration).unwrap();

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

/// The directory of the Zaqar that has this Redis.
fn home(redis: &RedisServer) -> PathBuf {
    HOME.path().join(redis.port().to_string())
}

/// Returns the configuration with these options of the connections to Redis, such as
/// `?socket_timeout=10`.
fn configuration(redis: &RedisServer, options: &str) -> String {
    let store = format!("uri = {}{options}", redis.url());
    format!(
        "[DEFAULT]\nauth_strategy =\npooling = False\nlog_file = {LOG_FILE}\nlog_dir = {home}\n\
         [drivers]\ntransport = wsgi\nmessage_store = redis\nmanagement_store = redis\n\
         [drivers:message_store:redis]\n{store}\n[drivers:management_store:redis]\n{store}\n\
         [signed_url]\nsecret_key = unused\n",
        home = home(redis).display(),
    )
}

async fn wait_until_ready(process: &mut Child, url: &str, home: PathBuf) {
    let give_up = Instant::now() + START_TIMEOUT;
    loop {
        // A response is sufficient, even one that requires a client id.
        if support::plain_http::get(format!("{url}/v2/ping")).await.is_ok() {
            return;
        }
        let over = process.try_wait().unwrap().is_some() || Instant::now() > give_up;
        assert!(!over, "Zaqar did not start: {}", fs::read_to_string(home.join("uwsgi.log")).unwrap());
        sleep(Duration::from_millis(100)).await;
    }
}
