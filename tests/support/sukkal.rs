//! A Sukkal process on a free port, and a client that adds the headers that every request needs.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::redis::{RedisServer, child_command, spawn, wait_until_suspended};
use super::secrets;

/// Options of a service with pools.
pub(crate) const POOLING: [(&str, &str); 2] = [("SUKKAL_POOLING__ENABLED", "true"), ("SUKKAL_ADMIN_MODE", "true")];

/// The client id of requests that do not set another one.
pub(crate) const CLIENT: &str = "3381af92-2b9e-11e3-b191-71861300734c";

/// A running server, which is killed on drop. The test fails if its log has a secret.
pub(crate) struct Sukkal {
    process: Child,
    address: String,
    log: Arc<Mutex<Vec<String>>>,
    /// The thread that reads the log. It ends with the server.
    follower: Option<JoinHandle<()>>,
}

impl Sukkal {
    /// Starts a server over the store, with all options at their defaults.
    pub(crate) fn start(store: &str) -> Self {
        Self::start_with(store, &[])
    }

    /// Starts a server that listens on this address.
    pub(crate) fn start_at(store: &str, address: SocketAddr) -> Self {
        Self::start_where(&address.to_string(), store, &[])
    }

    /// Starts a server with environment variables set, such as `SUKKAL_ADMIN_MODE`.
    pub(crate) fn start_with(store: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_where("127.0.0.1:0", store, environment)
    }

    /// Starts a server that does no maintenance. The URL leads to this Redis.
    pub(crate) fn start_without_janitor(redis: &RedisServer, url: &str, environment: &[(&str, &str)]) -> Self {
        redis.record_maintenance();
        Self::start_with(url, &[&[("SUKKAL_JANITOR__PAUSE", "86400")], environment].concat())
    }

    /// Starts a server that listens on this address, with environment variables set.
    pub(crate) fn start_where(bind: &str, store: &str, environment: &[(&str, &str)]) -> Self {
        secrets::note_environment(environment);
        secrets::note_store(store);
        let mut command = child_command(env!("CARGO_BIN_EXE_sukkal"));
        command.args(["serve", "--bind", bind, "--store", store]);
        command.envs(environment.iter().copied());
        let mut process = spawn_logging(command);
        let mut lines = BufReader::new(process.stderr.take().expect("stderr is piped")).lines();
        let mut log = Vec::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                panic!("sukkal did not start: {log:#?}");
            };
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            log.push(line);
            if event["fields"]["message"] == "listening" {
                break event["fields"]["address"].as_str().expect("the address is logged").to_owned();
            }
        };
        let log = Arc::new(Mutex::new(log));
        let follower = Some(follow(lines, log.clone()));
        Self { process, address, log, follower }
    }

    /// Returns the URL of a path: `http://127.0.0.1:PORT` and the path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns a client for one project, with the usual client id.
    pub(crate) fn project(&self, project: &str) -> Api {
        Api::new(self.url(""), project)
    }

    /// Returns the log lines so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the server to stop (SIGTERM) without waiting for it.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Stops the process (SIGSTOP). It still has its connections, and accepts others.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
        wait_until_suspended(self.id());
    }

    /// Continues a paused process.
    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &id]).status().expect("kill can be run");
        assert!(status.success(), "kill -{name} {id}");
    }

    /// Waits until the server has exited by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.process.wait().expect("the process is a child of this one")
    }

    /// Kills the server (SIGKILL), which is like a power cut.
    pub(crate) fn kill(&mut self) {
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
        if !thread::panicking() {
            assert_eq!(secrets::find(&self.log()), None, "the log has a secret");
        }
    }
}

fn spawn_logging(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    spawn(command).expect("the binary under test starts")
}

fn follow(lines: std::io::Lines<BufReader<ChildStderr>>, log: Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    })
}

/// A client for one project: adds the headers that every request needs.
#[derive(Clone)]
pub(crate) struct Api {
    base: String,
    project: String,
    client: String,
    http: reqwest::Client,
}

impl Api {
    /// Creates a client for one project on the server at this URL.
    pub(crate) fn new(base: String, project: &str) -> Self {
        Self { base, project: project.to_owned(), client: CLIENT.to_owned(), http: reqwest::Client::new() }
    }

    /// Returns the same client, whose connections come from this address of the machine.
    pub(crate) fn from(&self, address: IpAddr) -> Self {
        let http = reqwest::Client::builder().local_address(address).build().expect("a client can be built");
        Self { http, ..self.clone() }
    }

    /// Returns a request without headers.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    /// Returns the same client with another client id.
    pub(crate) fn client(&self, client: &str) -> Self {
        Self { client: client.to_owned(), ..self.clone() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).header("Client-ID", &self.client).header("X-Project-ID", &self.project)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    pub(crate) fn put(&self, path: &str) -> RequestBuilder {
        self.request(Method::PUT, path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, path).json(body)
    }

    pub(crate) fn delete(&self, path: &str) -> RequestBuilder {
        self.request(Method::DELETE, path)
    }
}
