//! Limits on connections, waiting requests and event streams.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;
use support::events::Events;
use support::waiting::{block_until, until};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that is kept open between requests.
struct Connection(TcpStream);

impl Connection {
    async fn open(server: &Server) -> Self {
        Self(TcpStream::connect(server.sukkal.url("").replace("http://", "")).await.unwrap())
    }

    /// Opens a connection and sends a request that waits for messages of this queue.
    async fn waiting(server: &Server, queue: &str) -> Self {
        let mut connection = Self::open(server).await;
        connection.send(&format!("GET /v2/queues/{queue}/messages?wait=20&echo=true"), "").await;
        let channel = format!("sukkal:{{p/{queue}}}:queue");
        block_until("the request waits", || {
            server.redis.command(&["PUBSUB", "SHARDNUMSUB", &channel]).items()[1].as_int() == 1
        });
        connection
    }

    async fn send(&mut self, request: &str, body: &str) {
        let client = support::sukkal::CLIENT;
        let head =
            format!("Host: localhost\r\nX-Project-ID: p\r\nClient-ID: {client}\r\nContent-Length: {}", body.len());
        // A failed write is noticed when the response is read.
        let _closed = self.0.write_all(format!("{request} HTTP/1.1\r\n{head}\r\n\r\n{body}").as_bytes()).await;
    }

    /// Returns the beginning of a response, or an empty string if the connection is closed.
    async fn read_some(&mut self) -> String {
        let mut head = [0; 1024];
        let bytes =
            timeout(TIMEOUT, self.0.read(&mut head)).await.expect("the server responds or closes the connection");
        String::from_utf8_lossy(&head[..bytes.unwrap_or(0)]).into_owned()
    }

    /// Sends a request that makes the client known, and returns the beginning of the response.
    async fn list_queues(&mut self) -> String {
        self.send("GET /v2/queues", "").await;
        self.read_some().await
    }

    async fn is_served(&mut self) -> bool {
        self.list_queues().await.starts_with("HTTP/1.1 200 ")
    }
}

#[tokio::test]
async fn a_new_connection_replaces_the_one_that_was_idle_for_longest() {
    let server = Server::start(&[("SUKKAL_MAX_CONNECTIONS", "3")]);
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(Connection::open(&server).await);
    }
    for connection in &mut connections {
        assert!(connection.is_served().await);
    }
    // The second connection is now the one that has been idle for longest.
    assert!(connections[0].is_served().await);

    let mut new = Connection::open(&server).await;

    assert!(new.is_served().await);
    assert_eq!(connections[1].read_some().await, "");
    assert!(connections[0].is_served().await);
    assert!(connections[2].is_served().await);
}

#[tokio::test]
async fn a_connection_with_a_request_is_not_closed_for_a_new_one() {
    let (server, other) = (Server::start(&[("SUKKAL_MAX_CONNECTIONS", "2")]), Server::start(&[]));
    let queues = [(); 2].map(|()| Uuid::new_v4().to_string());
    let mut waiting = Vec::new();
    for queue in &queues {
        waiting.push(Connection::waiting(&server, queue).await);
    }

    let mut new = Connection::open(&server).await;
    new.send("GET /healthz", "").await;
    // The new connection is accepted once one of the others has its response. So the message is
    // posted through another process.
    let mut poster = Connection::open(&other).await;
    poster.send(&format!("POST /v2/queues/{}/messages", queues[0]), r#"{"messages": [{"body": 1}]}"#).await;

    assert!(poster.read_some().await.starts_with("HTTP/1.1 201 "));
    assert!(waiting[0].read_some().await.starts_with("HTTP/1.1 200 "));
    assert!(new.read_some().await.starts_with("HTTP/1.1 204 "));
    poster.send(&format!("POST /v2/queues/{}/messages", queues[1]), r#"{"messages": [{"body": 1}]}"#).await;
    assert!(poster.read_some().await.starts_with("HTTP/1.1 201 "));
    assert!(waiting[1].read_some().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn no_request_is_dropped_when_clients_outnumber_connections() {
    let server = Arc::new(Server::start(&[("SUKKAL_MAX_CONNECTIONS", "4")]));
    let clients = (0..16).map(|number| {
        let server = server.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                let mut connection = Connection::open(&server).await;
                // Half of the clients send several requests, until the service announces that it
                // closes the connection.
                for _ in 0..=(number % 2) * 5 {
                    let answer = connection.list_queues().await;
                    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
                    if answer.contains("connection: close") {
                        break;
                    }
                }
            }
        })
    });

    for client in clients.collect::<Vec<_>>() {
        timeout(TIMEOUT, client).await.expect("every client is served").unwrap();
    }
}

#[tokio::test]
async fn incomplete_requests_and_unread_responses_do_not_block_new_connections() {
    let server = Server::start(&[("SUKKAL_MAX_CONNECTIONS", "4")]);
    let project = Project::of(&Arc::new(Server::start(&[])), "p");
    let queue = Uuid::new_v4();
    for _ in 0..20 {
        let body = json!({"messages": [{"body": "x".repeat(250_000)}]});
        assert_eq!(project.post(&format!("/v2/queues/{queue}/messages"), &body).send().await.unwrap().status(), 201);
    }
    let mut half_head = Connection::open(&server).await;
    half_head.0.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").await.unwrap();
    let mut unread = Connection::open(&server).await;
    unread.send(&format!("GET /v2/queues/{queue}/messages?echo=true&limit=20"), "").await;
    let _idle = [Connection::open(&server).await, Connection::open(&server).await];

    for _ in 0..3 {
        let mut new = Connection::open(&server).await;
        assert!(timeout(TIMEOUT, new.is_served()).await.expect("the connection is accepted"));
    }
}

#[tokio::test]
async fn the_operations_listener_answers_when_all_connections_are_in_use() {
    let server = Server::start(&[("SUKKAL_MAX_CONNECTIONS", "1"), ("SUKKAL_OPERATIONS__BIND", "127.0.0.1:0")]);
    let address = || {
        let log = server.sukkal.log();
        let line = log.iter().find(|line| line.contains("listening for health checks and metrics"))?;
        let event: Value = serde_json::from_str(line).unwrap();
        Some(event["fields"]["address"].as_str().unwrap().to_owned())
    };
    block_until("the operations listener is up", || address().is_some());
    let address = address().unwrap();
    let _waiting = Connection::waiting(&server, &Uuid::new_v4().to_string()).await;

    for (path, status) in [("healthz", 204), ("readyz", 204), ("metrics", 200), ("v2/queues", 404)] {
        let answer = timeout(TIMEOUT, support::plain_http::get(format!("http://{address}/{path}")))
            .await
            .expect("the operations listener responds");
        assert_eq!(answer.unwrap().status(), status, "{path}");
    }
}

#[tokio::test]
async fn event_streams_and_waiting_requests_are_limited_per_project() {
    let options =
        [("SUKKAL_TRANSPORT__MAX_STREAMS_PER_PROJECT", "1"), ("SUKKAL_TRANSPORT__MAX_WAITS_PER_PROJECT", "1")];
    let server = Arc::new(Server::start(&options));
    let projects = [(); 2].map(|()| Project::of(&server, &format!("project-{}", Uuid::new_v4())));
    let stream = |project: &Project| project.api.get("/v2/queues/q/messages").header("Accept", "text/event-stream");
    let wait = |project: &Project| project.api.get("/v2/queues/q/messages?wait=20&echo=true");

    let first = Events::open(stream(&projects[0])).await;
    let refused = stream(&projects[0]).send().await.unwrap();
    let _other = Events::open(stream(&projects[1])).await;
    drop(first);

    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert!(refused.text().await.unwrap().contains("at most 1 event streams at the same time"));
    let again = async || stream(&projects[0]).send().await.unwrap().status() != 429;
    until("a stream that has ended does not count", again).await;

    // The request that arrives first waits, and the other one is refused.
    let refused = tokio::select! {
        biased;
        refused = wait(&projects[0]).send() => refused.unwrap(),
        refused = wait(&projects[0]).send() => refused.unwrap(),
    };
    assert_eq!(refused.status(), 429);
    assert!(refused.text().await.unwrap().contains("at most 1 requests that wait"));
}
