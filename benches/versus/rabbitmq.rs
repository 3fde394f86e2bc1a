//! A private `RabbitMQ` node with its management plugin, on free ports and in a temporary
//! directory.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use support::ports::free_port;
use support::redis::{child_command, spawn};

/// The server of the Debian package, without the wrapper that changes the user.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running node. Dropping it stops the node.
pub(crate) struct RabbitMq {
    process: Child,
    pub(crate) url: String,
    /// Port of the name daemon (epmd) of the node, which keeps running when the node stops.
    name_port: String,
    _dir: TempDir,
}

impl RabbitMq {
    /// Starts a node with one queue, `q-0`. Returns the reason if it cannot.
    pub(crate) async fn start() -> Result<Self, String> {
        if !Path::new(SERVER).exists() {
            return Err("not installed".to_owned());
        }
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let http_port = free_port();
        fs::write(path("rabbitmq.conf"), format!("management.tcp.port = {http_port}\nmanagement.tcp.ip = 127.0.0.1\n"))
            .unwrap();
        fs::write(path("plugins"), "[rabbitmq_management].\n").unwrap();
        let log = File::create(path("log")).unwrap();
        let name_port = free_port().to_string();
        let mut command = child_command(SERVER);
        command
            .envs([("HOME", path("")), ("RABBITMQ_CONFIG_FILE", path("rabbitmq.conf"))])
            .envs([("RABBITMQ_ENABLED_PLUGINS_FILE", path("plugins")), ("RABBITMQ_MNESIA_BASE", path("data"))])
            .envs([("RABBITMQ_LOG_BASE", path("logs")), ("RABBITMQ_CONF_ENV_FILE", path("none"))])
            .env("RABBITMQ_NODENAME", format!("versus{http_port}@localhost"))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", free_port().to_string())
            .env("RABBITMQ_DIST_PORT", free_port().to_string())
            .env("ERL_EPMD_PORT", &name_port)
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let process = spawn(command).map_err(|error| error.to_string())?;
        let mut node = Self { process, url: format!("http://127.0.0.1:{http_port}"), name_port, _dir: dir };
        node.create_queue().await?;
        Ok(node)
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Creates an empty queue `q-0`. The first call waits until the node is ready.
    pub(crate) async fn create_queue(&mut self) -> Result<(), String> {
        let give_up = Instant::now() + START_TIMEOUT;
        let url = format!("{}/api/queues/%2F/q-0", self.url);
        let http = support::plain_http::client();
        loop {
            let _was_there = http.delete(&url).basic_auth("guest", Some("guest")).send().await;
            let json = serde_json::json!({"durable": true});
            let created = http.put(&url).basic_auth("guest", Some("guest")).json(&json).send().await;
            if created.is_ok_and(|reply| reply.status().is_success()) {
                return Ok(());
            }
            if self.process.try_wait().unwrap().is_some() || Instant::now() > give_up {
                return Err("it does not start".to_owned());
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        let id = self.process.id().to_string();
        let _asked = Command::new("kill").args(["-TERM", &id]).status();
        let _reaped = self.process.wait();
        let _ended = Command::new("epmd").args(["-port", &self.name_port, "-kill"]).output();
    }
}

/// Returns the installed version.
pub(crate) fn version() -> Option<String> {
    let said = Command::new("dpkg-query").args(["-W", "-f", "${Version}", "rabbitmq-server"]).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).into_owned())
}
