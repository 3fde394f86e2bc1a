//! A client of HTTP/2 that has full control of its streams, and TLS without HTTP.

use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use hyper::{Method, Request, StatusCode};
use serde_json::Value;
use sukkal_base::outbound;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::{PROJECT, Server};
use support::exposition::Exposition;
use support::sukkal::CLIENT;
use support::waiting::until;

/// Much longer than events that should happen at once may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// The beginning of a connection with HTTP/2: the preface, and settings without values.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Returns the frames of the request `GET https://h/` with this stream id, and of a reset of its
/// stream.
pub(crate) fn reset_request(id: u32) -> Vec<u8> {
    let request = [&[0, 0, 6, 1, 5][..], &id.to_be_bytes(), &[0x82, 0x87, 0x84, 0x41, 1, b'h']].concat();
    let reset = [&[0, 0, 4, 3, 0][..], &id.to_be_bytes(), &8_u32.to_be_bytes()].concat();
    [request, reset].concat()
}

/// Returns what opens TLS connections with this protocol to servers of the authority whose
/// certificate the file has.
pub(crate) fn connector(authority: &Path, protocol: &str) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let mut config = outbound::tls_config(roots);
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// Opens a TLS connection with this protocol.
pub(super) async fn connect(server: &Server, protocol: &str) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(server.sukkal.address()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let name = "127.0.0.1".try_into().unwrap();
    connector(&server.authority.file(), protocol).connect(name, stream).await.unwrap()
}

/// A connection with HTTP/2.
pub(super) struct Http2 {
    pub(super) sender: SendRequest<Bytes>,
    authority: String,
    /// The task that drives the connection. It is the only owner of the socket.
    driver: JoinHandle<Result<(), h2::Error>>,
}

/// A response whose body is being read.
pub(super) type Response = hyper::Response<RecvStream>;

impl Http2 {
    pub(super) async fn open(server: &Server) -> Self {
        Self::open_with(server, &Builder::new(), |connection| connection).await
    }

    /// Opens a connection with these settings, which `drive` then drives.
    pub(super) async fn open_with<F>(
        server: &Server,
        settings: &Builder,
        drive: impl FnOnce(Connection<TlsStream<TcpStream>, Bytes>) -> F,
    ) -> Self
    where
        F: Future<Output = Result<(), h2::Error>> + Send + 'static,
    {
        let stream = connect(server, "h2").await;
        let (sender, connection) = settings.handshake(stream).await.unwrap();
        let driver = tokio::spawn(drive(connection));
        Self { sender, authority: server.sukkal.address().to_owned(), driver }
    }

    /// Sends the head of a request, and the whole body if there is one.
    pub(super) async fn send(&mut self, method: &str, path: &str, body: &str) -> ResponseFuture {
        let (response, mut stream) = self.begin(method, path, body.is_empty()).await.unwrap();
        if !body.is_empty() {
            stream.send_data(body.to_owned().into(), true).unwrap();
        }
        response
    }

    /// Sends the head of a request.
    pub(super) async fn begin(
        &mut self,
        method: &str,
        path: &str,
        is_complete: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        let request = self.request(method, path).body(()).unwrap();
        timeout(TIMEOUT, std::future::poll_fn(|context| self.sender.poll_ready(context))).await.unwrap()?;
        self.sender.send_request(request, is_complete)
    }

    pub(super) fn request(&self, method: &str, path: &str) -> hyper::http::request::Builder {
        Request::builder()
            .method(method.parse::<Method>().unwrap())
            .uri(format!("https://{}{path}", self.authority))
            .header("Client-ID", CLIENT)
            .header("X-Project-ID", PROJECT)
            .header("Content-Type", "application/json")
    }

    /// Posts a message, whose body is this text.
    pub(super) async fn post(&mut self, queue: &str, text: &str) {
        let body = serde_json::json!({ "messages": [{ "body": text }] }).to_string();
        let response = self.send("POST", &format!("/v2/queues/{queue}/messages"), &body).await;
        assert_eq!(head(response).await.status(), StatusCode::CREATED);
    }

    /// Sends a request that waits until it can pop a message, and returns when it waits.
    pub(super) async fn wait_for_message(&mut self, server: &Server, queue: &str) -> ResponseFuture {
        let waiting = waiting_requests(server).await;
        let response = self.send("DELETE", &format!("/v2/queues/{queue}/messages?pop=1&wait=30"), "").await;
        until("the request waits", async || waiting_requests(server).await > waiting).await;
        response
    }

    /// Waits until the server has closed the connection.
    pub(super) async fn closed(self) -> Result<(), h2::Error> {
        let Self { sender, driver, .. } = self;
        drop(sender);
        let ended = timeout(TIMEOUT, driver).await.expect("the server closes the connection").unwrap();
        // This end may be saying goodbye at the moment when the server closes.
        ended.or_else(|error| {
            let kind = error.get_io().map(std::io::Error::kind);
            if matches!(kind, Some(BrokenPipe | ConnectionReset)) { Ok(()) } else { Err(error) }
        })
    }

    /// Breaks the connection.
    pub(super) async fn break_off(self) {
        self.driver.abort();
        let _aborted = self.driver.await;
    }
}

/// Returns the number of requests that wait for messages.
pub(super) async fn waiting_requests(server: &Server) -> u64 {
    metric(server, "sukkal_waiting_requests").await
}

/// Returns a figure of the metrics, which is a number of something.
pub(super) async fn metric(server: &Server, name: &str) -> u64 {
    let mut http = Http2::open(server).await;
    let response = http.send("GET", "/metrics", "").await;
    let text = body(head(response).await).await;
    let value = Exposition::read(&text).value(name).unwrap_or_else(|| panic!("no {name} in {text}"));
    value.to_string().parse().expect("it is an integer")
}

/// Waits for the head of a response.
pub(super) async fn head(response: ResponseFuture) -> Response {
    timeout(TIMEOUT, response).await.expect("the server responds").unwrap()
}

/// Reads the rest of a response.
pub(super) async fn body(response: Response) -> String {
    let (_, mut stream) = response.into_parts();
    let mut bytes = Vec::new();
    while let Some(data) = timeout(TIMEOUT, stream.data()).await.expect("the body arrives") {
        let data = data.unwrap();
        stream.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
    }
    String::from_utf8(bytes).unwrap()
}

/// Returns the body of the message in a response.
pub(super) async fn message(response: ResponseFuture) -> Value {
    let response = head(response).await;
    assert_eq!(response.status(), StatusCode::OK);
    let document: Value = serde_json::from_str(&body(response).await).unwrap();
    document["messages"][0]["body"].clone()
}
