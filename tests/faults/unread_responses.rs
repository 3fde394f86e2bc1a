//! Clients that wait for a message, and disconnect before they have read it, or read no further.
//! The message is returned: at once, or when the time to accept the response is over.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::http::{answered, ids};
use support::campaigns;
use support::exposition::Exposition;
use support::sukkal::{Api, CLIENT};
use support::test_bed::Home;
use support::waiting::until;

const PROJECT: &str = "unread";
/// More than the operating system takes for a client that does not read.
const BODY_BYTES: usize = 4_000_000;
const LARGE_POSTS: (&str, &str) = ("SUKKAL_TRANSPORT__MAX_MESSAGES_POST_SIZE", "4194304");
/// Requests that wait for messages.
const POP: [&str; 3] = ["DELETE", "/v2/queues/q/messages?pop=5&wait=20", ""];
const CLAIM: [&str; 3] = ["POST", "/v2/queues/q/claims?limit=5&wait=20", r#"{"ttl":43200,"grace":60}"#];

campaigns! {
    a_message_that_is_not_read_is_returned: assert_returned(&Home::redis());
    a_message_that_is_not_read_is_returned_to_an_embedded_store: assert_returned(&Home::memory());
}

async fn assert_returned(home: &Home) {
    for (client_timeout, disconnects) in [("3600", true), ("1", false)] {
        let server = home.bed().serve(&[LARGE_POSTS, ("SUKKAL_CLIENT_TIMEOUT", client_timeout)]);
        let (api, url) = (server.project(PROJECT), server.url(""));
        for request in [POP, CLAIM] {
            let mut stream = connect(&url).await;
            send(&mut stream, request).await;
            let waiting = async || Exposition::of(&url).await.value("sukkal_waiting_requests");
            until("the request waits", async || waiting().await == Some(1.0)).await;
            let posted = post(&api).await;
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.unwrap();
            assert!(status.starts_with(b"HTTP/1.1 20"), "{status:?}");
            // The time of the other client may be over soon.
            assert!(!disconnects || pop(&api, "").await.is_null(), "the message is on its way");

            let unread = (!disconnects).then_some(stream);

            let returned = pop(&api, "&wait=20").await;
            assert_eq!(returned["id"], posted, "{request:?} with a client_timeout of {client_timeout}");
            assert_eq!(returned["body"].as_str().map(str::len), Some(BODY_BYTES));
            drop(unread);
        }
    }
}

/// Connects with a small buffer for what arrives.
async fn connect(url: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(url.trim_start_matches("http://").parse().unwrap()).await.unwrap()
}

async fn send(stream: &mut TcpStream, [method, path, body]: [&str; 3]) {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nClient-ID: {CLIENT}\r\nX-Project-ID: {PROJECT}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
}

/// Posts a message, and returns its id.
async fn post(api: &Api) -> String {
    let message = json!({ "messages": [{ "body": "x".repeat(BODY_BYTES) }] });
    ids(&answered(api.post("/v2/queues/q/messages", &message), 201).await.json()).remove(0)
}

/// Returns the message that another client pops, or null.
async fn pop(api: &Api, wait: &str) -> Value {
    let popped = api.delete(&format!("/v2/queues/q/messages?pop=5{wait}"));
    answered(popped, 200).await.json()["messages"][0].clone()
}
