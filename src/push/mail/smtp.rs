//! A client of the operator's SMTP server. It keeps connections for further mails, and sends a mail
//! to all recipients that the server accepts.
//!
//! The pool of `lettre` is not used: it would keep a connection on which an attempt has timed out,
//! and the late reply would be taken for that to the next mail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lettre::Message;
use lettre::address::Envelope;
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::{Instant, interval, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::stream::SmtpStream;
use crate::push::client::{Response, SendFailure, printable, trusted_certificates};
use sukkal_base::outbound;
use sukkal_domain::{MailConfig, MailEncryption};
use sukkal_storage::ATTEMPT_DURATION_MAX;

/// Maximum time to resolve the name of the server and to connect.
const CONNECT_DURATION_MAX: Duration = Duration::from_secs(10);
/// Time for which an unused connection is kept open.
const IDLE_DURATION_MAX: Duration = Duration::from_secs(30);
/// Pause between two searches for connections that were unused for too long.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum time to say goodbye to the server.
const QUIT_DURATION_MAX: Duration = Duration::from_secs(2);
const MECHANISMS: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Login];

/// The client.
pub(super) struct SmtpClient {
    host: String,
    port: u16,
    encryption: MailEncryption,
    hello: ClientId,
    credentials: Option<Credentials>,
    tls: TlsConnector,
    /// Connections that wait for the next mail, and since when.
    unused: Mutex<Vec<(AsyncSmtpConnection, Instant)>>,
    /// Whether the server could not be used the last time.
    is_failing: AtomicBool,
}

impl SmtpClient {
    pub(super) fn new(config: &MailConfig, hello_name: &str) -> Self {
        let password = config.password.reveal().unwrap_or_default();
        let credentials = Credentials::new(config.username.clone(), password.to_owned());
        Self {
            host: config.host.clone(),
            port: config.port(),
            encryption: config.encryption,
            hello: ClientId::Domain(hello_name.to_owned()),
            credentials: Some(credentials).filter(|_| !config.username.is_empty()),
            tls: TlsConnector::from(Arc::new(outbound::tls_config(trusted_certificates()))),
            unused: Mutex::default(),
            is_failing: AtomicBool::new(false),
        }
    }

    /// Sends a mail, and returns the reply of the server.
    pub(super) async fn send(&self, mail: &Message) -> Result<Response, SendFailure> {
        let exchange = self.exchange(mail.envelope(), mail.formatted());
        let outcome = timeout(ATTEMPT_DURATION_MAX, exchange).await.unwrap_or(Err(SendFailure::Timeout));
        let is_failing = outcome.is_err();
        match (&outcome, self.is_failing.swap(is_failing, Ordering::Relaxed)) {
            (Err(reason), false) => warn!(host = self.host, %reason, "cannot send mails"),
            (Ok(_), true) => info!(host = self.host, "mails can be sent again"),
            _ => {}
        }
        outcome
    }

    /// Closes connections that are unused for too long, until the process stops.
    pub(super) async fn close_unused(&self, stopping: &CancellationToken) {
        let mut interval = interval(IDLE_CHECK_INTERVAL);
        loop {
            let is_stopping = stopping.run_until_cancelled(interval.tick()).await.is_none();
            let is_old = |(_, since): &mut (_, Instant)| is_stopping || since.elapsed() >= IDLE_DURATION_MAX;
            let old: Vec<_> = self.unused.lock().extract_if(.., is_old).collect();
            for (connection, _) in old {
                quit(connection);
            }
            if is_stopping {
                return;
            }
        }
    }

    async fn exchange(&self, envelope: &Envelope, mail: Vec<u8>) -> Result<Response, SendFailure> {
        let mut connection = match self.connected().await {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let response = transact(&mut connection, envelope, &mail).await?;
        if (200..300).contains(&response.status) {
            self.unused.lock().push((connection, Instant::now()));
        } else {
            quit(connection);
        }
        Ok(response)
    }

    /// Returns an unused connection that the server has not closed.
    async fn connected(&self) -> Option<AsyncSmtpConnection> {
        loop {
            let (mut connection, _) = self.unused.lock().pop()?;
            if connection.test_connected().await {
                return Some(connection);
            }
        }
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, SendFailure> {
        let failed = |error: std::io::Error| SendFailure::Connection(outbound::root_cause(&error).to_string());
        let tcp = timeout(CONNECT_DURATION_MAX, TcpStream::connect((self.host.as_str(), self.port))).await;
        let too_late = |_| SendFailure::Connection("the mail server cannot be reached in time".to_owned());
        let tcp = tcp.map_err(too_late)?.map_err(failed)?;
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| SendFailure::Connection(error.to_string()));
        let stream = match self.encryption {
            MailEncryption::None => SmtpStream::plain(tcp),
            MailEncryption::StartTls => SmtpStream::starttls(tcp, &self.hello, &self.tls, name?).await,
            MailEncryption::Tls => SmtpStream::tls(tcp, &self.tls, name?).await,
        };
        let stream = Box::new(stream.map_err(failed)?);
        let connection = AsyncSmtpConnection::connect_with_transport(stream, &self.hello).await;
        let mut connection = connection.map_err(|error| unusable("the mail server", &error))?;
        if let Some(credentials) = &self.credentials {
            let login = connection.auth(&MECHANISMS, credentials).await;
            login.map_err(|error| unusable("the login at the mail server", &error))?;
        }
        Ok(connection)
    }
}

/// Sends a mail on a connection. The recipients that the server accepts get it.
async fn transact(
    connection: &mut AsyncSmtpConnection,
    envelope: &Envelope,
    mail: &[u8],
) -> Result<Response, SendFailure> {
    if let Err(error) = connection.command(Mail::new(envelope.from().cloned(), Vec::new())).await {
        return refusal(&error);
    }
    let mut refusals = Vec::new();
    for recipient in envelope.to() {
        if let Err(error) = connection.command(Rcpt::new(recipient.clone(), Vec::new())).await {
            refusals.push(refusal(&error)?);
        }
    }
    if refusals.len() == envelope.to().len() {
        return Ok(refusals.swap_remove(0));
    }
    if let Err(error) = connection.command(Data).await {
        return refusal(&error);
    }
    match connection.message(mail).await {
        Ok(reply) => {
            let note = refusals.first().map(|Response { status, start, .. }| {
                let (refused, all) = (refusals.len(), envelope.to().len());
                format!("{refused} of {all} recipients were refused, the first one with {status} {start}")
            });
            let text: Vec<&str> = reply.message().collect();
            Ok(Response { note, ..response(reply.code().into(), &text.join(" ")) })
        }
        Err(error) => refusal(&error),
    }
}

/// Returns the reply of a server that refuses a command, or why there is none.
fn refusal(error: &smtp::Error) -> Result<Response, SendFailure> {
    match error.status() {
        Some(code) => Ok(response(code.into(), &outbound::root_cause(error).to_string())),
        None => Err(SendFailure::Connection(printable(outbound::root_cause(error).to_string().as_bytes()))),
    }
}

fn response(status: u16, text: &str) -> Response {
    Response { status, retry_after: None, start: printable(text.as_bytes()), note: None }
}

/// Returns why the server cannot be used. Clients may read it, so it has no text of the server,
/// which may name the user.
fn unusable(what: &str, error: &smtp::Error) -> SendFailure {
    SendFailure::Connection(match error.status() {
        Some(code) => format!("{what} was refused with {code}"),
        None => format!("{what} failed: {}", printable(outbound::root_cause(error).to_string().as_bytes())),
    })
}

/// Says goodbye to the server in the background.
fn quit(mut connection: AsyncSmtpConnection) {
    tokio::spawn(async move { timeout(QUIT_DURATION_MAX, connection.quit()).await });
}
