//! Clients that wait for messages over TLS with HTTP/1, and disconnect around the time at which one
//! arrives. A client gets its whole response, or its message is returned.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::client::{Http2, TIMEOUT, connect, message};
use super::{PROJECT, Server};
use support::random::{self, Random};
use support::sukkal::CLIENT;

const ROLE: u64 = 0x6057;
const CLIENTS: usize = 100;
/// Period around the post in which clients disconnect, in microseconds.
const SPREAD_US: u64 = 4_000;

#[tokio::test]
async fn the_message_of_a_client_that_disconnects_is_returned() {
    let server = Server::start(&[]);
    let mut random = Random::new(random::seed(), ROLE, 0);
    let mut other = Http2::open(&server).await;
    let request = format!(
        "DELETE /v2/queues/q/messages?pop=1&wait=20 HTTP/1.1\r\nHost: localhost\r\nClient-ID: {CLIENT}\r\nX-Project-ID: {PROJECT}\r\n\r\n"
    );
    let mut returned = 0;
    for number in 0..CLIENTS {
        let text = format!("message {number}");
        let mut stream = connect(&server, "http/1.1").await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let [disconnect_after, post_after] = [(); 2].map(|()| Duration::from_micros(random.within(0..=SPREAD_US)));
        let disconnect = async {
            sleep(disconnect_after).await;
            stream.shutdown().await.unwrap();
            let mut received = Vec::new();
            let _end = timeout(TIMEOUT, stream.read_to_end(&mut received)).await.expect("the server closes its side");
            String::from_utf8(received).unwrap()
        };
        let post = async {
            sleep(post_after).await;
            other.post("q", &text).await;
        };
        let (received, ()) = tokio::join!(disconnect, post);

        if received.is_empty() {
            returned += 1;
        } else {
            assert!(received.contains(&text) && received.ends_with("}]}"), "{received}");
            other.post("q", &text).await;
        }
        let popped = other.send("DELETE", "/v2/queues/q/messages?pop=2&wait=20", "").await;
        assert_eq!(message(popped).await, text);
    }
    assert!(returned > CLIENTS / 4, "most clients got responses: {} of {CLIENTS}", CLIENTS - returned);
}
