//! Connections to the SMTP server, with or without TLS.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use lettre::transport::smtp::extension::ClientId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// Maximum number of bytes that the server may send without another command, with the messages of
/// TLS. Otherwise, a line without an end would take memory.
const BYTES_PER_COMMAND_MAX: usize = 256 * 1024;
/// Maximum size of a reply before TLS begins, in bytes.
const REPLY_BYTES_MAX: usize = 8 * 1024;
/// Stands for the greeting that a server does not repeat when TLS has begun.
const GREETING: &[u8] = b"220 TLS\r\n";

trait Connection: AsyncRead + AsyncWrite + Send + Sync + Unpin + Debug {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin + Debug> Connection for T {}

/// A connection to the server.
#[derive(Debug)]
pub(super) struct SmtpStream {
    peer: SocketAddr,
    connection: Box<dyn Connection>,
    /// What is read before anything that comes from the server.
    greeting: &'static [u8],
    /// Number of bytes that were read since the last write.
    read: usize,
}

impl SmtpStream {
    /// Uses a connection without TLS.
    pub(super) fn plain(tcp: TcpStream) -> io::Result<Self> {
        Ok(Self { peer: tcp.peer_addr()?, connection: Box::new(tcp), greeting: b"", read: 0 })
    }

    /// Begins TLS at once.
    pub(super) async fn tls(tcp: TcpStream, tls: &TlsConnector, name: ServerName<'static>) -> io::Result<Self> {
        let peer = tcp.peer_addr()?;
        Ok(Self { peer, connection: Box::new(tls.connect(name, tcp).await?), greeting: b"", read: 0 })
    }

    /// Begins TLS by the command `STARTTLS`. What the server has said before has no effect, because
    /// anybody between could have said it.
    pub(super) async fn starttls(
        mut tcp: TcpStream,
        hello: &ClientId,
        tls: &TlsConnector,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        expect(&reply(&mut tcp).await?, "220")?;
        tcp.write_all(format!("EHLO {hello}\r\n").as_bytes()).await?;
        let extensions = reply(&mut tcp).await?;
        expect(&extensions, "250")?;
        let offers_tls = |line: &str| line.get(4..).is_some_and(|line| line.trim().eq_ignore_ascii_case("STARTTLS"));
        if !extensions.lines().any(offers_tls) {
            return Err(io::Error::other("the mail server does not offer STARTTLS"));
        }
        tcp.write_all(b"STARTTLS\r\n").await?;
        expect(&reply(&mut tcp).await?, "220")?;
        Ok(Self { greeting: GREETING, ..Self::tls(tcp, tls, name).await? })
    }
}

/// Reads a reply: lines that begin with a code and a hyphen, but for the last one.
async fn reply(tcp: &mut TcpStream) -> io::Result<String> {
    let (mut bytes, mut part) = (Vec::new(), [0; 1024]);
    loop {
        let count = tcp.read(&mut part).await?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        bytes.extend_from_slice(&part[..count]);
        if bytes.len() > REPLY_BYTES_MAX {
            return Err(io::Error::other("a reply of the mail server is too large"));
        }
        let text = String::from_utf8_lossy(&bytes);
        let is_complete = text.ends_with('\n') && text.lines().last().is_some_and(|line| line.get(3..4) != Some("-"));
        if is_complete {
            return Ok(text.into_owned());
        }
    }
}

/// Succeeds if all lines of a reply have this code.
fn expect(reply: &str, code: &str) -> io::Result<()> {
    match reply.lines().find(|line| !line.starts_with(code)) {
        None => Ok(()),
        Some(other) => {
            let shown: String = other.chars().take(3).filter(char::is_ascii_digit).collect();
            Err(io::Error::other(format!("the mail server has answered {shown} and not {code}, before TLS began")))
        }
    }
}

impl AsyncTokioStream for SmtpStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl AsyncRead for SmtpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.greeting.is_empty() {
            let (now, later) = self.greeting.split_at(self.greeting.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.greeting = later;
            return Poll::Ready(Ok(()));
        }
        if self.read > BYTES_PER_COMMAND_MAX {
            return Poll::Ready(Err(io::Error::other("a reply of the mail server is too large")));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.connection).poll_read(context, buffer))?;
        self.read += buffer.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SmtpStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.read = 0;
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio_rustls::rustls::RootCertStore;

    use super::*;
    use sukkal_base::outbound;

    /// Returns why TLS does not begin at a server that says this at once and after each line.
    async fn refusal(replies: &'static [&'static str]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut tcp, _) = listener.accept().await.unwrap();
            for reply in replies {
                tcp.write_all(reply.as_bytes()).await.unwrap();
                let _closed = tcp.read(&mut [0; 1024]).await;
            }
        });
        let tls = TlsConnector::from(std::sync::Arc::new(outbound::tls_config(RootCertStore::empty())));
        let (name, hello) = ("localhost".try_into().unwrap(), ClientId::Domain("a.example".to_owned()));
        let tcp = TcpStream::connect(address).await.unwrap();
        SmtpStream::starttls(tcp, &hello, &tls, name).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn tls_begins_only_if_the_server_offers_it_and_says_nothing_more() {
        const HELLO: &str = "250-a.example\r\n250-SIZE 100\r\n250 STARTTLS\r\n";
        for (replies, reason) in [
            (&["554 no\r\n"][..], "has answered 554 and not 220"),
            (&["220 a\r\n", "250-a\r\n250 SIZE\r\n"], "does not offer STARTTLS"),
            (&["220 a\r\n", "502 what\r\n"], "has answered 502 and not 250"),
            (&["220 a\r\n", HELLO, "454 not now\r\n"], "has answered 454 and not 220"),
            (&["220 a\r\n", HELLO, "220 go\r\n250 injected\r\n"], "has answered 250 and not 220"),
            (&["220 a\r\n", HELLO, "220 go\r\n", "nonsense"], "corrupt message"),
        ] {
            let error = refusal(replies).await;
            assert!(error.contains(reason), "{replies:?}: {error}");
        }
    }
}
