//! The header `Host` of requests to a server without `strategies`: a web page under a name that
//! becomes an alias of this machine (DNS rebinding) gets nothing.

use std::io::{Read, Write};
use std::net::TcpStream;

use reqwest::Method;

use super::{SECRET_KEY, STRATEGIES};
use crate::http::{answered, refused, send};
use support::ports::free_port;
use support::sukkal::{Api, Sukkal};

const INVALID_HOST: &str = "Invalid Host header";
const EVIL: &str = "evil.example";

#[tokio::test]
async fn a_request_for_another_name_is_refused() {
    let sukkal = Sukkal::start_with("memory:", &[("SUKKAL_TRANSPORT__CORS_ORIGINS", "http://laptop.lan:8888")]);
    let api = sukkal.project("p");
    let port = sukkal.address().rsplit(':').next().unwrap().to_owned();

    for (method, path) in [
        (Method::GET, "/v2/queues"),
        (Method::GET, "/v2/"),
        (Method::GET, "/v2/ping"),
        (Method::OPTIONS, "/v2/queues"),
        (Method::TRACE, "/v2/queues"),
        (Method::GET, "/v2/nothing"),
        (Method::GET, "/v2/queues/a%2Fb"),
    ] {
        for host in [EVIL, "localhost.evil.example", "127.0.0.1.evil.example:80", "a b", "\u{e9}"] {
            refused(api.request(method.clone(), path).header("Host", host), 400, INVALID_HOST).await;
        }
    }
    for own in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "192.0.2.7", "laptop.lan"] {
        for host in [own.to_owned(), format!("{own}:{port}")] {
            answered(api.get("/v2/queues").header("Host", host), 200).await;
        }
    }
}

/// Also for what needs no project: it tells about the service and its projects.
#[tokio::test]
async fn every_route_of_every_listener_checks_the_host() {
    let [operations, websockets] = [(); 2].map(|()| free_port());
    let sukkal = Sukkal::start_with(
        "memory:",
        &[
            ("SUKKAL_OPERATIONS__BIND", &format!("localhost:{operations}")),
            ("SUKKAL_WEBSOCKET__BIND", &websockets.to_string()),
        ],
    );
    let api = |port: &str| Api::new(format!("http://127.0.0.1:{port}"), "p");
    let [main, operations, websockets] =
        [sukkal.address().rsplit(':').next().unwrap(), &operations.to_string(), &websockets.to_string()].map(api);
    let paths = ["/", "/v2", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.yaml", "/console", "/v2/websocket"];

    for (listener, path) in paths.map(|path| (&main, path)).into_iter().chain([
        (&operations, "/healthz"),
        (&operations, "/metrics"),
        (&operations, "/no"),
        (&websockets, "/"),
    ]) {
        refused(listener.get(path).header("Host", EVIL), 400, INVALID_HOST).await;
        // A page can send this header to its own origin, although it has no signature.
        let signed = send(listener.get(path).header("Host", EVIL).header("URL-Signature", "")).await;
        assert!([400, 404].contains(&signed.status), "{path}: {}", signed.text);
        let own = send(listener.get(path).header("Host", "localhost")).await;
        assert_ne!(own.status, 400, "{path}: {}", own.text);
    }
}

/// Such as an old health check.
#[tokio::test]
async fn a_request_without_a_host_is_accepted() {
    let sukkal = Sukkal::start("memory:");
    let mut stream = TcpStream::connect(sukkal.address()).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();

    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();

    assert!(response.starts_with("HTTP/1.0 204 "), "{response}");
}

#[tokio::test]
async fn the_name_in_bind_is_a_name_of_the_server() {
    let sukkal = Sukkal::start_where("localhost:0", "memory:", &[]);

    answered(sukkal.project("p").get("/v2/queues").header("Host", "localhost"), 200).await;
    refused(sukkal.project("p").get("/v2/queues").header("Host", EVIL), 400, INVALID_HOST).await;
}

/// The page does not have the signature.
#[tokio::test]
async fn a_signed_request_proves_who_sends_it() {
    let sukkal = Sukkal::start_with("memory:", &[(SECRET_KEY, "the secret of these tests")]);
    let request = sukkal.project("p").get("/v2/queues").header("Host", EVIL).header("URL-Signature", "");

    refused(request, 404, "404 Not Found").await;
}

#[tokio::test]
async fn with_the_strategy_none_every_name_is_accepted() {
    let sukkal = Sukkal::start_with("memory:", &[(STRATEGIES, "none")]);

    answered(sukkal.project("p").get("/v2/queues").header("Host", EVIL), 200).await;
}
