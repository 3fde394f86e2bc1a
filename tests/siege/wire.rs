//! Connections of attackers and honest clients to the service.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::tls::client::connector;
use support::sukkal::CLIENT;

/// The address of the trusted proxy: what comes from there is known.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The address of clients that the service does not know.
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

pub(super) type Stream = TlsStream<TcpStream>;
/// What may happen to a connection of an attacker.
pub(super) type Ended = Result<(), Failure>;
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// The service as one group of clients sees it.
#[derive(Clone)]
pub(super) struct Target {
    address: SocketAddr,
    /// The address from which the clients connect.
    from: IpAddr,
    http1: TlsConnector,
    http2: TlsConnector,
    /// Number of connections that have been opened.
    opened: Arc<AtomicUsize>,
}

impl Target {
    /// The service at this address, for its trusted proxy. The file has the certificate of its
    /// authority.
    pub(super) fn new(address: &str, authority: &Path) -> Self {
        let (http1, http2) = (connector(authority, "http/1.1"), connector(authority, "h2"));
        Self { address: address.parse().unwrap(), from: PROXY, http1, http2, opened: Arc::default() }
    }

    /// The same for clients of another group, whose connections are counted apart.
    pub(super) fn for_group(&self, is_known: bool) -> Self {
        Self { from: if is_known { PROXY } else { STRANGER }, opened: Arc::default(), ..self.clone() }
    }

    pub(super) fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    async fn connect(&self, connector: &TlsConnector) -> io::Result<Stream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(self.from, 0))?;
        // What a client does not read stays in the service.
        socket.set_recv_buffer_size(16 << 10)?;
        let stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        let stream = connector.connect(self.address.ip().into(), stream).await?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(stream)
    }

    /// Opens a connection with HTTP/1.
    pub(super) async fn open(&self) -> io::Result<Stream> {
        self.connect(&self.http1).await
    }

    /// Opens a connection whose protocol is HTTP/2.
    pub(super) async fn open_http2(&self) -> io::Result<Stream> {
        self.connect(&self.http2).await
    }

    /// Opens a connection with HTTP/2 and a window of 0 bytes for each response.
    pub(super) async fn open_without_window(&self) -> Result<(SendRequest<Bytes>, Connection<Stream, Bytes>), Failure> {
        Ok(Builder::new().initial_window_size(0).handshake(self.open_http2().await?).await?)
    }

    /// Opens a WebSocket.
    pub(super) async fn open_socket(&self, project: &str) -> io::Result<Stream> {
        let mut stream = self.open().await?;
        let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let response = send(&mut stream, &head("GET /v2/websocket", project, upgrade)).await?;
        if response.starts_with("HTTP/1.1 101") { Ok(stream) } else { Err(io::Error::other(response)) }
    }

    /// Opens a connection for one request after another.
    pub(super) async fn open_client(&self) -> Result<Client, Failure> {
        let stream = TokioIo::new(self.open().await?);
        let (sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        tokio::spawn(connection);
        Ok(Client(sender))
    }
}

/// A connection for one request after another, whose responses are read.
pub(super) struct Client(hyper::client::conn::http1::SendRequest<Full<Bytes>>);

impl Client {
    /// Sends a request of this project, and returns the response.
    pub(super) async fn send(
        &mut self,
        project: &str,
        method: &str,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<(StatusCode, Bytes), hyper::Error> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Host", "localhost")
            .header("Client-ID", CLIENT)
            .header("X-Project-ID", project)
            .header("Content-Type", "application/json")
            .body(Full::new(body.into()))
            .unwrap();
        self.0.ready().await?;
        let response = self.0.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}

/// Returns the head of a request with HTTP/1. `others` are more header lines.
pub(super) fn head(target: &str, project: &str, others: &str) -> String {
    format!(
        "{target} HTTP/1.1\r\nHost: localhost\r\nX-Project-ID: {project}\r\nClient-ID: {CLIENT}\r\n\
         Content-Type: application/json\r\n{others}\r\n"
    )
}

/// Sends a text, and returns the beginning of what the service answers.
pub(super) async fn send(stream: &mut Stream, text: &str) -> io::Result<String> {
    stream.write_all(text.as_bytes()).await?;
    let mut response = vec![0; 2048];
    let bytes = stream.read(&mut response).await?;
    Ok(String::from_utf8_lossy(&response[..bytes]).into_owned())
}

/// Reads until the service ends the connection.
pub(super) async fn read_to_end(mut stream: Stream) -> Ended {
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Writes the same bytes until the service ends the connection. Reads nothing.
pub(super) async fn write_to_end(mut stream: Stream, bytes: &[u8]) -> Ended {
    loop {
        stream.write_all(bytes).await?;
    }
}

/// Returns a frame of a WebSocket with this code, masked with zeros.
pub(super) fn frame(code: u8, payload: &[u8]) -> Vec<u8> {
    let long = u16::try_from(payload.len()).expect("frames of attackers are short").to_be_bytes();
    let length = match u8::try_from(payload.len()) {
        Ok(short @ 0..126) => vec![0x80 | short],
        _ => [&[0xfe], &long[..]].concat(),
    };
    [&[0x80 | code][..], &length, &[0; 4], payload].concat()
}
