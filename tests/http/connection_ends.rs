//! How connections end: a client that has ended its side still gets its response, and a response
//! after which the connection is closed says so and can be read.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::raw::read_answer;
use super::*;
use support::waiting::in_time;

/// The head of a request after which the connection could stay open.
fn lasting_head(project: &Project, method: &str, path: &str) -> String {
    project.head(method, path).replace("Connection: close\r\n", "")
}

/// Sends a request, ends the client's side of the connection at once, and returns the response.
async fn answer_after_half_close(project: &Project, request: &str) -> Answer {
    let mut stream = project.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    in_time("the response", read_answer(&mut stream)).await
}

#[tokio::test]
async fn a_client_that_has_ended_its_side_gets_its_response() {
    let project = new_project();
    let body = json!({ "messages": [{ "body": 1 }, { "body": 2 }] }).to_string();
    let head = lasting_head(&project, "POST", "/v2/queues/q/messages");

    let whole = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(answer_after_half_close(&project, &whole).await.status, 201);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    assert_eq!(answer_after_half_close(&project, &chunked).await.status, 201);

    let pop = format!("{}\r\n", lasting_head(&project, "DELETE", "/v2/queues/q/messages?pop=2"));
    let popped = answer_after_half_close(&project, &pop).await;
    assert_eq!(pick(&popped.json()["messages"], "body"), [json!(1), json!(2)]);
}

#[tokio::test]
async fn a_client_that_has_ended_its_side_and_waits_gets_nothing() {
    let project = new_project();
    let mut stream = project.connect().await;
    let pop = format!("{}\r\n", lasting_head(&project, "DELETE", "/v2/queues/q/messages?pop=1&wait=20"));
    stream.write_all(pop.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();

    let mut received = Vec::new();
    in_time("the connection ends", stream.read_to_end(&mut received)).await.unwrap();

    assert_eq!(String::from_utf8_lossy(&received), "");
    project.post_bodies("q", &[json!("for another")]).await;
    assert_eq!(project.stats("q").await["free"], 1);
}

#[tokio::test]
async fn a_body_that_ends_too_early_is_408_at_once() {
    let server = Arc::new(Server::start(&[("SUKKAL_CLIENT_TIMEOUT", "600")]));
    let project = Project::of(&server, "p");
    let document = r#"{"messages": [{"body": 1}]}"#;
    let head = lasting_head(&project, "POST", "/v2/queues/q/messages");

    for cut in [0, 1, document.len() - 1] {
        let half = format!("{head}Content-Length: {}\r\n\r\n{}", document.len(), &document[..cut]);
        answer_after_half_close(&project, &half).await.refusal(408, "Request timeout");
    }
    assert_eq!(project.snapshot().await, json!([]));
}

#[tokio::test]
async fn a_malformed_chunked_body_is_400_and_closes_the_connection() {
    let project = new_project();
    let head = lasting_head(&project, "POST", "/v2/queues/q/messages");
    let huge = "f".repeat(17);
    let long = "x".repeat(20_000);
    for body in [
        "zz\r\n".to_owned(),
        "\r\n".to_owned(),
        format!("{huge}\r\n"),
        "1\r\n{0\r\n".to_owned(),
        format!("1;{long}\r\n{{\r\n0\r\n\r\n"),
        format!("0\r\na: {long}\r\n\r\n"),
        "0\r\na b\r\n\r\n".to_owned(),
    ] {
        let answer = project.send_raw(format!("{head}Transfer-Encoding: chunked\r\n\r\n{body}")).await;
        let description = answer.refusal(400, "Invalid request body");
        assert!(description.starts_with("The chunked request body is malformed ("), "{description}");
        assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    }
    for early in ["", "5\r\n{", "5", "1\r\n{\r\n0\r\na: "] {
        let request = format!("{head}Transfer-Encoding: chunked\r\n\r\n{early}");
        answer_after_half_close(&project, &request).await.refusal(408, "Request timeout");
    }
}

/// Such a client reads nothing before it has sent everything.
#[tokio::test]
async fn a_client_that_sends_a_body_that_is_not_read_reads_why_and_that_its_connection_is_closed() {
    const BYTES: usize = 5 << 20;
    let project = new_project();
    let body = "x".repeat(BYTES);
    let head = lasting_head(&project, "POST", "/v2/queues/q/messages");
    let requests = [
        format!("{head}Content-Length: {BYTES}\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{BYTES:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n{body}"),
        format!(
            "{}Content-Length: {BYTES}\r\n\r\n{body}",
            head.replace("X-Project-ID", "X-Other").replace("x-project-id", "x-other")
        ),
        format!("{head}Expect: 100-continue\r\nContent-Length: {BYTES}\r\n\r\n"),
        "GET / rubbish\r\n\r\n".to_owned(),
        format!("GET /\u{1} HTTP/1.1\r\n\r\n{body}"),
        format!("{head}Invalid name: 1\r\n\r\n{body}"),
        format!("GET / HTTP/1.1\r\nX-Long: {}\r\n\r\n", "x".repeat(200_000)),
    ];
    for request in requests {
        let answer = project.send_raw(&request).await;
        assert!((400..500).contains(&answer.status), "{answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    }
}
