//! An SMTP server, which is `server.py`, and what it has received.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use support::certificates::{Certificate, text};
use support::python;
use support::redis::{child_command, spawn};
use support::waiting::block_until;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/push/mail/server.py");
/// Maximum time that a test waits for a mail.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server, which is killed on drop.
pub(crate) struct MailServer {
    process: Child,
    pub(crate) port: u16,
    events: watch::Receiver<Vec<Value>>,
}

impl MailServer {
    /// Starts a server without encryption.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server that uses this certificate, and at which clients must log in.
    pub(crate) fn encrypted(encryption: &str, certificate: &Certificate) -> Self {
        let Certificate { certificate, key } = certificate;
        Self::start_with(&[
            "--encryption",
            encryption,
            "--certificate",
            text(certificate),
            "--key",
            text(key),
            "--login",
        ])
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let mut command = child_command(python::venv());
        command.args(["-u", SCRIPT]).args(arguments).stdout(Stdio::piped());
        let mut process = spawn(command).expect("python starts");
        let lines = BufReader::new(process.stdout.take().expect("stdout is piped")).lines();
        let happened = lines.map_while(Result::ok).map(|line| serde_json::from_str::<Value>(&line).unwrap());
        let (record, events) = watch::channel(Vec::<Value>::new());
        thread::spawn(move || happened.for_each(|event| record.send_modify(|record| record.push(event))));
        let mut port = None;
        block_until("the mail server listens", || {
            port = events.borrow().first().and_then(|listening| listening["port"].as_u64());
            port.is_some()
        });
        let port = port.and_then(|port| u16::try_from(port).ok()).expect("it is a port");
        Self { process, port, events }
    }

    /// Returns the mails that have arrived so far.
    pub(crate) fn mails(&self) -> Vec<Value> {
        self.events("mail")
    }

    /// Returns what has happened so far, of one kind.
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        self.events.borrow().iter().filter(|event| event["event"] == kind).cloned().collect()
    }

    /// Waits until at least this many mails have arrived, and returns them.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Value> {
        self.wait_for_events("mail", count).await
    }

    /// Waits until at least this many events of one kind have happened, and returns them.
    pub(crate) async fn wait_for_events(&self, kind: &str, count: usize) -> Vec<Value> {
        let is_wanted = |event: &&Value| event["event"] == kind;
        let mut events = self.events.clone();
        let happened = events.wait_for(|events| events.iter().filter(is_wanted).count() >= count);
        let happened = timeout(PATIENCE, happened).await.map(drop);
        let found = self.events(kind);
        assert!(happened.is_ok(), "{} of {count} events of the kind {kind} happened", found.len());
        found
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _dead_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Returns the values of a header of a mail.
pub(crate) fn headers<'m>(mail: &'m Value, name: &str) -> Vec<&'m str> {
    let headers = mail["headers"].as_array().unwrap().iter();
    headers.filter(|header| header[0] == name).map(|header| header[1].as_str().unwrap()).collect()
}

/// Returns the only value of a header of a mail.
pub(crate) fn header<'m>(mail: &'m Value, name: &str) -> &'m str {
    let values = headers(mail, name);
    assert_eq!(values.len(), 1, "{name}: {mail}");
    values[0]
}
