//! A Sukkal process on a free port, and a client that adds the headers that every request needs.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::redis::{RedisServer, child_command, spawn, wait_until_suspended};
use super::waiting::{POLL_TIMEOUT, block_until, until_some};
use super::{lock, root, secrets};

/// The beginnings of variables that Cargo and `tests/run.py` set for the tests. Build scripts of
/// dependencies would notice them and run again.
const SET_FOR_TESTS: [&str; 4] = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PRIMARY_PACKAGE", "RUSTC_BOOTSTRAP"];

/// Returns the path of the program under test. The first call builds it, if it is not up to date,
/// with the profile of the tests.
pub fn binary() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(build);

    &BINARY
}

fn build() -> PathBuf {
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let mut cargo = Command::new(env!("CARGO"));
    // Together with the tests, so that dependencies have the same features and are compiled once.
    cargo.args(["build", "--workspace", "--bin", "sukkal", "--profile", profile, "--message-format", "json"]);
    cargo.current_dir(root()).stdin(Stdio::null()).stderr(Stdio::inherit());
    for (name, _) in std::env::vars_os() {
        if SET_FOR_TESTS.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
            cargo.env_remove(name);
        }
    }
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "cargo cannot build the program under test");
    let messages = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let built = messages.filter_map(|message: Value| message["executable"].as_str().map(PathBuf::from)).next_back();
    built.expect("cargo names the program that it has built")
}

/// Number of lines of the log of a server that a failing test shows.
const LINES_SHOWN: usize = 40;

const LOG_FILTER: &str = "SUKKAL_LOG__FILTER";
/// What a server logs once it has tried to use its store.
const CONNECTED_OR_NOT: [&str; 2] = ["connected to the store", "the store cannot be used"];

/// Options of a service with pools.
pub const POOLING: [(&str, &str); 2] = [("SUKKAL_POOLING__ENABLED", "true"), ("SUKKAL_ADMIN_MODE", "true")];

/// Variable of a service, and of commands on its store, whose clock tests move: see
/// `test_bed::open_movable`.
pub const MOVABLE_CLOCK: (&str, &str) = ("SUKKAL_MOVABLE_CLOCK", "true");

/// The client id of requests that do not set another one.
pub const CLIENT: &str = "3381af92-2b9e-11e3-b191-71861300734c";

/// A running server, which is killed on drop. The test fails if its log has a secret.
pub struct Sukkal {
    process: Child,
    address: String,
    log: Arc<Mutex<Vec<String>>>,
    /// The thread that reads the log. It ends with the server.
    follower: Option<JoinHandle<()>>,
}

impl Sukkal {
    /// Starts a server over the store, with all options at their defaults.
    pub fn start(store: &str) -> Self {
        Self::start_with(store, &[])
    }

    /// Starts a server that listens on this address.
    pub fn start_at(store: &str, address: SocketAddr) -> Self {
        Self::start_where(&address.to_string(), store, &[])
    }

    /// Starts a server with environment variables set, such as `SUKKAL_ADMIN_MODE`.
    pub fn start_with(store: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_where("127.0.0.1:0", store, environment)
    }

    /// Starts a server that does no maintenance. The URL leads to this Redis.
    pub fn start_without_janitor(redis: &RedisServer, url: &str, environment: &[(&str, &str)]) -> Self {
        redis.record_maintenance();
        Self::start_with(url, &[&[("SUKKAL_JANITOR__PAUSE", "86400")], environment].concat())
    }

    /// Starts a server that listens on this address, with environment variables set.
    pub fn start_where(bind: &str, store: &str, environment: &[(&str, &str)]) -> Self {
        secrets::note_store(store);
        let server = Self::launch(&["serve", "--bind", bind, "--store", store], environment);
        let logs_connections = environment.iter().all(|(name, _)| *name != LOG_FILTER);
        if store.starts_with("redis") && logs_connections {
            block_until("the server knows whether it can use the store", || {
                server.log().iter().any(|line| CONNECTED_OR_NOT.iter().any(|text| line.contains(text)))
            });
        }
        server
    }

    /// Starts a server with these arguments and environment variables, and waits until it listens.
    pub fn launch<A: AsRef<OsStr>>(arguments: &[A], environment: &[(&str, &str)]) -> Self {
        secrets::note_environment(environment);
        let mut command = child_command(binary());
        command.args(arguments).envs(environment.iter().copied());
        let mut process = spawn_logging(command);
        let (log, (sender, listening)) = (Arc::default(), mpsc::channel());
        let follower = Some(follow(process.stderr.take().expect("stderr is piped"), Arc::clone(&log), sender));
        let address = listening.recv_timeout(POLL_TIMEOUT).unwrap_or_else(|error| {
            let _dead_already = process.kill();
            panic!("sukkal does not listen: {error}: {:#?}", lock(&log));
        });
        Self { process, address, log, follower }
    }

    /// Returns the URL of a path: `http://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn socket_address(&self) -> SocketAddr {
        self.address.parse().expect("a server logs its address")
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns a client for one project, with the usual client id.
    pub fn project(&self, project: &str) -> Api {
        Api::new(self.url(""), project)
    }

    /// Returns the log lines so far.
    pub fn log(&self) -> Vec<String> {
        lock(&self.log).clone()
    }

    /// Returns the warnings from before the server listened.
    pub fn first_warnings(&self) -> Vec<String> {
        let log = self.log().into_iter().take_while(|line| !line.contains(&message_field("listening")));
        log.filter(|line| line.contains("\"WARN\"")).collect()
    }

    /// Waits until the server has logged this message. Blocks the runtime.
    pub fn wait_until_logged(&self, message: &str) {
        let field = message_field(message);
        block_until(message, || self.log().iter().any(|line| line.contains(&field)));
    }

    /// Waits until the log has a line that contains a text. Returns all such lines.
    ///
    /// A response does not wait for the lines that its request logs.
    pub async fn logged(&self, text: &str) -> Vec<String> {
        until_some(&format!("\"{text}\" is logged"), async || {
            let lines: Vec<String> = self.log().into_iter().filter(|line| line.contains(text)).collect();
            (!lines.is_empty()).then_some(lines)
        })
        .await
    }

    /// Asks the server to stop (SIGTERM) without waiting for it.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Stops the process (SIGSTOP). It still has its connections, and accepts others.
    pub fn pause(&self) {
        self.signal("STOP");
        wait_until_suspended(self.id());
    }

    /// Continues a paused process.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Sends the process a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &id]).status().expect("kill can be run");
        assert!(status.success(), "kill -{name} {id}");
    }

    /// Waits until the server has exited by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        block_until("the server exits", || {
            ended = self.process.try_wait().expect("the process is a child of this one");
            ended.is_some()
        });
        ended.expect("the wait has ended")
    }

    /// Kills the server (SIGKILL), which is like a power cut.
    pub fn kill(&mut self) {
        let _dead_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

impl Drop for Sukkal {
    fn drop(&mut self) {
        self.kill();
        if let Some(follower) = self.follower.take() {
            let _panicked = follower.join();
        }
        if thread::panicking() {
            let log = self.log();
            let last = log.len().saturating_sub(LINES_SHOWN);
            eprintln!("the last lines of the log of {}:\n{}", self.address, log[last..].join("\n"));
        } else {
            assert_eq!(secrets::find(&self.log()), None, "the log has a secret");
        }
    }
}

/// Returns what a line of the log contains if its message is this one.
fn message_field(message: &str) -> String {
    format!("\"message\":\"{message}\"")
}

fn spawn_logging(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    spawn(command).expect("the binary under test starts")
}

/// Reads the log of a server, and sends its address once it listens.
fn follow(stderr: ChildStderr, log: Arc<Mutex<Vec<String>>>, listening: mpsc::Sender<String>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut listening = Some(listening);
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if listening.is_some() {
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                if event["fields"]["message"] == "listening" {
                    let address = event["fields"]["address"].as_str().expect("the address is logged");
                    let _test_has_given_up = listening.take().map(|sender| sender.send(address.to_owned()));
                }
            }
            lock(&log).push(line);
        }
    })
}

/// A client for one project: adds the headers that every request needs.
#[derive(Clone)]
pub struct Api {
    base: String,
    project: String,
    client: String,
    http: reqwest::Client,
}

impl Api {
    /// Creates a client for one project on the server at this URL.
    pub fn new(base: String, project: &str) -> Self {
        Self { base, project: project.to_owned(), client: CLIENT.to_owned(), http: crate::plain_http::client() }
    }

    /// Returns the same client, whose connections come from this address of the machine.
    pub fn from(&self, address: IpAddr) -> Self {
        let http = crate::plain_http::builder().local_address(address).build().expect("a client can be built");
        Self { http, ..self.clone() }
    }

    /// Returns a request without headers.
    pub fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    /// Returns the same client with another client id.
    pub fn client(&self, client: &str) -> Self {
        Self { client: client.to_owned(), ..self.clone() }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).header("Client-ID", &self.client).header("X-Project-ID", &self.project)
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    pub fn put(&self, path: &str) -> RequestBuilder {
        self.request(Method::PUT, path)
    }

    pub fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, path).json(body)
    }

    pub fn delete(&self, path: &str) -> RequestBuilder {
        self.request(Method::DELETE, path)
    }
}
