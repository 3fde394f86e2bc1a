//! A client of WebSockets.

use std::sync::Arc;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use sukkal_base::outbound;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::certificates::Authority;
use super::sukkal::CLIENT;
use super::waiting::in_time;

/// A connection, with TLS or without.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// An open WebSocket of one project.
pub struct Socket {
    pub stream: WebSocketStream<Box<dyn Transport>>,
    project: String,
    /// Whether requests are binary frames.
    pub is_binary: bool,
}

/// What a client receives.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    Text(Value),
    Binary(Value),
    /// The code and the reason; `None` if the connection broke.
    Closed(Option<(u16, String)>),
}

impl Socket {
    /// Opens a WebSocket at `http://HOST:PORT/PATH`, with these headers.
    pub async fn try_open(url: &str, project: &str, headers: &[(&str, &str)]) -> Result<Self, Error> {
        let stream = connect(url).await?;
        Self::over(Box::new(stream), &url.replace("http://", "ws://"), project, headers).await
    }

    /// Returns the status with which the server refuses to open a WebSocket.
    pub async fn refusal(url: &str, project: &str, headers: &[(&str, &str)]) -> u16 {
        match Self::try_open(url, project, headers).await {
            Err(Error::Http(response)) => response.status().as_u16(),
            other => panic!("{headers:?}: {:?}", other.map(|_| "a socket")),
        }
    }

    /// Opens a WebSocket at `https://HOST:PORT/PATH`, where the server has a certificate of this
    /// authority.
    pub async fn open_with_tls(url: &str, project: &str, authority: &Authority) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
        let connector = TlsConnector::from(Arc::new(outbound::tls_config(roots)));
        let name = "127.0.0.1".try_into().unwrap();
        let stream = connect(url).await.unwrap();
        let stream = in_time("the TLS handshake ends", connector.connect(name, stream)).await.unwrap();
        Self::over(Box::new(stream), &url.replace("https://", "wss://"), project, &[]).await.unwrap()
    }

    async fn over(
        stream: Box<dyn Transport>,
        url: &str,
        project: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let name: reqwest::header::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let (stream, _response) = in_time("a WebSocket opens", client_async(request, stream)).await?;
        Ok(Self { stream, project: project.to_owned(), is_binary: false })
    }

    pub async fn open(url: &str, project: &str) -> Self {
        Self::try_open(url, project, &[]).await.unwrap()
    }

    /// Returns the same socket with requests of this kind.
    pub fn of_kind(self, is_binary: bool) -> Self {
        Self { is_binary, ..self }
    }

    /// Sends a document as it is.
    pub async fn send(&mut self, document: &Value) {
        let message = if self.is_binary {
            Message::Binary(rmp_serde::to_vec(document).unwrap().into())
        } else {
            Message::Text(document.to_string().into())
        };
        in_time("the service reads a request", self.stream.send(message)).await.unwrap();
    }

    /// Sends a request with the usual headers.
    pub async fn request(&mut self, action: &str, body: &Value) {
        let headers = json!({ "Client-ID": CLIENT, "X-Project-ID": self.project });
        self.send(&json!({ "action": action, "body": body, "headers": headers })).await;
    }

    /// Returns the next message as the library returns it, which may be a control frame. Returns
    /// `None` when the connection has ended.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        in_time("a frame arrives", self.stream.next()).await
    }

    /// Returns what arrives next, besides pings.
    pub async fn receive(&mut self) -> Received {
        in_time("a message arrives", self.receive_without_limit()).await
    }

    async fn receive_without_limit(&mut self) -> Received {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return Received::Text(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Binary(bytes))) => return Received::Binary(rmp_serde::from_slice(&bytes).unwrap()),
                Some(Ok(Message::Close(frame))) => {
                    let closed = frame.map(|CloseFrame { code, reason }| (code.into(), reason.to_string()));
                    return Received::Closed(closed);
                }
                Some(Ok(_)) => {}
                None | Some(Err(_)) => return Received::Closed(None),
            }
        }
    }

    /// Returns the next document, which has the kind of the requests.
    pub async fn document(&mut self) -> Value {
        match (self.receive().await, self.is_binary) {
            (Received::Text(document), false) | (Received::Binary(document), true) => document,
            (other, _) => panic!("{other:?}"),
        }
    }

    /// Sends a request and returns the status and the body of the reply.
    pub async fn ask(&mut self, action: &str, body: Value) -> (u64, Value) {
        self.request(action, &body).await;
        status_and_body(self.document().await)
    }

    /// The same with these headers instead of the usual ones.
    pub async fn ask_with(&mut self, action: &str, body: Value, headers: Value) -> (u64, Value) {
        self.send(&json!({ "action": action, "body": body, "headers": headers })).await;
        status_and_body(self.document().await)
    }

    /// Subscribes the connection and returns the id of the subscription.
    pub async fn subscribe(&mut self, body: Value) -> String {
        let (status, body) = self.ask("subscription_create", body).await;
        assert_eq!(status, 201, "{body}");
        body["subscription_id"].as_str().unwrap().to_owned()
    }

    /// Returns the code with which the service closes the connection.
    pub async fn close_code(&mut self) -> Option<u16> {
        let closed = async {
            loop {
                if let Received::Closed(closed) = self.receive_without_limit().await {
                    return closed.map(|(code, _)| code);
                }
            }
        };
        in_time("the service closes the connection", closed).await
    }
}

/// Connects to the host of a URL.
async fn connect(url: &str) -> Result<TcpStream, Error> {
    let address = url.split('/').nth(2).unwrap();
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn status_and_body(mut reply: Value) -> (u64, Value) {
    (reply["headers"]["status"].as_u64().unwrap(), reply["body"].take())
}
