//! Connections that post once and then stay open without requests.

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::PROJECT;
use crate::support::sukkal::CLIENT;

/// Opens connections, posts one message of the given size on each, and returns the open
/// connections.
pub(crate) async fn post_on_each(url: &str, connections: usize, bytes: usize) -> Vec<TcpStream> {
    let address = url.trim_start_matches("http://").to_owned();
    let body = format!("{{\"messages\": [{{\"ttl\": 3600, \"body\": \"{}\"}}]}}", "x".repeat(bytes));
    let request = format!(
        "POST /v2/queues/q-0/messages HTTP/1.1\r\nHost: {address}\r\nClient-ID: {CLIENT}\r\nX-Project-ID: {PROJECT}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(TcpStream::connect(&address).await.unwrap());
    }
    join_all(open.into_iter().map(|stream| exchange(stream, &request))).await
}

async fn exchange(mut stream: TcpStream, request: &str) -> TcpStream {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = vec![0; 4096];
    let read = stream.read(&mut reply).await.unwrap();
    let reply = String::from_utf8_lossy(&reply[..read]).into_owned();
    assert!(reply.starts_with("HTTP/1.1 201 "), "{reply}");
    stream
}
