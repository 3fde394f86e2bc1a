//! How many connections, waiting requests and event streams there may be.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;
use crate::support::events::Events;
use crate::support::redis::poll_until;

const PATIENCE: Duration = Duration::from_secs(20);

/// A keep-alive connection.
struct Connection(TcpStream);

impl Connection {
    async fn open(stage: &Stage) -> Self {
        Self(TcpStream::connect(stage.sukkal.url("").replace("http://", "")).await.unwrap())
    }

    /// One with a request that waits for messages of that queue.
    async fn waiting(stage: &Stage, queue: &str) -> Self {
        let mut connection = Self::open(stage).await;
        connection.send(&format!("GET /v2/queues/{queue}/messages?wait=20&echo=true"), "").await;
        let channel = format!("sukkal:{{p/{queue}}}:queue");
        poll_until("it waits", || stage.redis.command(&["PUBSUB", "SHARDNUMSUB", &channel]).items()[1].as_int() == 1);
        connection
    }

    async fn send(&mut self, request: &str, body: &str) {
        let client = crate::support::sukkal::CLIENT;
        let head = format!("Host: sukkal\r\nX-Project-ID: p\r\nClient-ID: {client}\r\nContent-Length: {}", body.len());
        // An error shows when the answer is read.
        let _closed = self.0.write_all(format!("{request} HTTP/1.1\r\n{head}\r\n\r\n{body}").as_bytes()).await;
    }

    /// The beginning of an answer; nothing if the connection is closed.
    async fn heard(&mut self) -> String {
        let mut head = [0; 1024];
        let bytes = timeout(PATIENCE, self.0.read(&mut head)).await.expect("there is an answer, or the end");
        String::from_utf8_lossy(&head[..bytes.unwrap_or(0)]).into_owned()
    }

    async fn get_healthz(&mut self) -> String {
        self.send("GET /healthz", "").await;
        self.heard().await
    }

    async fn works(&mut self) -> bool {
        self.get_healthz().await.starts_with("HTTP/1.1 204 ")
    }
}

#[tokio::test]
async fn a_new_connection_takes_the_place_of_the_one_that_was_idle_for_longest() {
    let stage = Stage::start(&[("SUKKAL_MAX_CONNECTIONS", "3")]);
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(Connection::open(&stage).await);
    }
    for connection in &mut connections {
        assert!(connection.works().await);
    }
    // So the second one is idle for longest.
    assert!(connections[0].works().await);

    let mut new = Connection::open(&stage).await;

    assert!(new.works().await);
    assert_eq!(connections[1].heard().await, "");
    assert!(connections[0].works().await);
    assert!(connections[2].works().await);
}

#[tokio::test]
async fn a_connection_with_a_request_is_not_closed_for_a_new_one() {
    let (stage, other) = (Stage::start(&[("SUKKAL_MAX_CONNECTIONS", "2")]), Stage::start(&[]));
    let queues = [(); 2].map(|()| Uuid::new_v4().to_string());
    let mut waiting = Vec::new();
    for queue in &queues {
        waiting.push(Connection::waiting(&stage, queue).await);
    }

    let mut new = Connection::open(&stage).await;
    new.send("GET /healthz", "").await;
    // It has a place when one of the others is answered, so the message comes through another process.
    let mut poster = Connection::open(&other).await;
    poster.send(&format!("POST /v2/queues/{}/messages", queues[0]), r#"{"messages": [{"body": 1}]}"#).await;

    assert!(poster.heard().await.starts_with("HTTP/1.1 201 "));
    assert!(waiting[0].heard().await.starts_with("HTTP/1.1 200 "));
    assert!(new.heard().await.starts_with("HTTP/1.1 204 "));
    poster.send(&format!("POST /v2/queues/{}/messages", queues[1]), r#"{"messages": [{"body": 1}]}"#).await;
    assert!(poster.heard().await.starts_with("HTTP/1.1 201 "));
    assert!(waiting[1].heard().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn no_request_is_dropped_when_there_are_more_clients_than_places() {
    let stage = Arc::new(Stage::start(&[("SUKKAL_MAX_CONNECTIONS", "4")]));
    let clients = (0..16).map(|number| {
        let stage = stage.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                let mut connection = Connection::open(&stage).await;
                // Half of them send more than one request, unless the service says that it closes the connection.
                for _ in 0..=(number % 2) * 5 {
                    let answer = connection.get_healthz().await;
                    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer:?}");
                    if answer.contains("connection: close") {
                        break;
                    }
                }
            }
        })
    });

    for client in clients.collect::<Vec<_>>() {
        timeout(PATIENCE, client).await.expect("each client has its turns").unwrap();
    }
}

#[tokio::test]
async fn half_a_head_and_an_unread_answer_keep_nobody_from_a_place() {
    let stage = Stage::start(&[("SUKKAL_MAX_CONNECTIONS", "4")]);
    let tenant = Tenant::of(&Arc::new(Stage::start(&[])), "p");
    let queue = Uuid::new_v4();
    for _ in 0..20 {
        let body = json!({"messages": [{"body": "x".repeat(250_000)}]});
        assert_eq!(tenant.post(&format!("/v2/queues/{queue}/messages"), &body).send().await.unwrap().status(), 201);
    }
    let mut half_head = Connection::open(&stage).await;
    half_head.0.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").await.unwrap();
    let mut unread = Connection::open(&stage).await;
    unread.send(&format!("GET /v2/queues/{queue}/messages?echo=true&limit=20"), "").await;
    let _idle = [Connection::open(&stage).await, Connection::open(&stage).await];

    for _ in 0..3 {
        let mut new = Connection::open(&stage).await;
        assert!(timeout(PATIENCE, new.works()).await.expect("there is a place"));
    }
}

#[tokio::test]
async fn the_listener_for_operations_answers_when_all_connections_are_in_use() {
    let stage = Stage::start(&[("SUKKAL_MAX_CONNECTIONS", "1"), ("SUKKAL_OPERATIONS__BIND", "127.0.0.1:0")]);
    let address = || {
        let log = stage.sukkal.log();
        let line = log.iter().find(|line| line.contains("listening for health checks and metrics"))?;
        let event: Value = serde_json::from_str(line).unwrap();
        Some(event["fields"]["address"].as_str().unwrap().to_owned())
    };
    poll_until("it listens", || address().is_some());
    let address = address().unwrap();
    let _waiting = Connection::waiting(&stage, &Uuid::new_v4().to_string()).await;

    for (path, status) in [("healthz", 204), ("readyz", 204), ("metrics", 200), ("v2/queues", 404)] {
        let answer = timeout(PATIENCE, reqwest::get(format!("http://{address}/{path}"))).await.expect("it answers");
        assert_eq!(answer.unwrap().status(), status, "{path}");
    }
}

#[tokio::test]
async fn a_project_has_so_many_event_streams_and_waiting_requests_and_no_more() {
    let options =
        [("SUKKAL_TRANSPORT__MAX_STREAMS_PER_PROJECT", "1"), ("SUKKAL_TRANSPORT__MAX_WAITS_PER_PROJECT", "1")];
    let stage = Arc::new(Stage::start(&options));
    let projects = [(); 2].map(|()| Tenant::of(&stage, &format!("project-{}", Uuid::new_v4())));
    let stream = |tenant: &Tenant| tenant.api.get("/v2/queues/q/messages").header("Accept", "text/event-stream");
    let wait = |tenant: &Tenant| tenant.api.get("/v2/queues/q/messages?wait=20&echo=true");

    let first = Events::open(stream(&projects[0])).await;
    let refused = stream(&projects[0]).send().await.unwrap();
    let _other = Events::open(stream(&projects[1])).await;
    drop(first);

    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert!(refused.text().await.unwrap().contains("at most 1 event streams at the same time"));
    let again = async { while stream(&projects[0]).send().await.unwrap().status() == 429 {} };
    timeout(PATIENCE, again).await.expect("the stream that has ended does not count");

    // Whichever came first waits, and the other one is refused.
    let refused = tokio::select! {
        biased;
        refused = wait(&projects[0]).send() => refused.unwrap(),
        refused = wait(&projects[0]).send() => refused.unwrap(),
    };
    assert_eq!(refused.status(), 429);
    assert!(refused.text().await.unwrap().contains("at most 1 requests that wait"));
}
