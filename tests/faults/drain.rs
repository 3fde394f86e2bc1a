//! SIGTERM, SIGINT and SIGHUP: requests under way are finished, no new ones are accepted, and the
//! process exits soon.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::process::Program;
use support::redis::RedisServer;
use support::sukkal::CLIENT;
use support::waiting::block_until;

const BODY: &str = r#"{"messages":[{"body":"the last"}]}"#;
/// Longest duration of a drain without requests to wait for, on a busy machine.
const PROMPT: Duration = Duration::from_secs(3);
/// A connection that is neither answered nor closed by then never will be.
const SILENCE_MAX: Duration = Duration::from_secs(10);

#[test]
fn requests_under_way_are_answered_and_new_ones_refused() {
    for signal in ["TERM", "INT", "HUP"] {
        let redis = RedisServer::start();
        let mut program = start(&redis, &[]);
        let mut posting = Posting::begin(&program);

        program.signal(signal);
        program.wait_until_logged("draining");
        block_until("nothing new is taken", || TcpStream::connect(program.address).is_err());
        let answer = posting.finish();
        let status = program.wait();

        assert!(answer.starts_with("HTTP/1.1 201 "), "{signal}: {answer}");
        assert_eq!(status.code(), Some(0), "{signal}");
    }
}

#[test]
fn writes_that_wait_for_the_store_are_answered() {
    let redis = RedisServer::start();
    let mut program = start(&redis, &[]);
    program.wait_until_logged("connected to the store");
    let mut posting = Posting::begin(&program);

    redis.pause();
    posting.send_the_rest();
    program.signal("TERM");
    program.wait_until_logged("draining");
    redis.resume();
    let answer = posting.answer();
    let status = program.wait();

    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn idle_connections_do_not_delay_the_shutdown() {
    let redis = RedisServer::start();
    let mut program = start(&redis, &[]);
    let _never_used = TcpStream::connect(program.address).unwrap();
    let mut kept_alive = connect(&program);
    kept_alive.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    kept_alive.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 204");

    program.signal("TERM");
    let start = Instant::now();
    let status = program.wait();

    assert_eq!(status.code(), Some(0));
    assert!(start.elapsed() < PROMPT, "it took {:?}", start.elapsed());
}

#[test]
fn an_unfinished_request_delays_the_shutdown_only_up_to_the_drain_timeout() {
    let redis = RedisServer::start();
    let mut program = start(&redis, &[("SUKKAL_DRAIN_TIMEOUT", "1")]);
    let _stuck_in_the_body = Posting::begin(&program);
    let mut stuck_in_the_head = connect(&program);
    stuck_in_the_head.write_all(b"GET /healthz HT").unwrap();

    program.signal("TERM");
    let start = Instant::now();
    let status = program.wait();

    assert_eq!(status.code(), Some(0));
    assert!(start.elapsed() >= Duration::from_secs(1), "it did not wait: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(1) + PROMPT, "it took {:?}", start.elapsed());
}

#[test]
fn an_unavailable_store_does_not_delay_the_shutdown() {
    let redis = RedisServer::start();
    redis.kill();
    let mut program = start(&redis, &[]);
    let mut posting = Posting::begin(&program);
    posting.send_the_rest();

    program.signal("TERM");
    let start = Instant::now();
    let answer = posting.answer();
    let status = program.wait();

    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!(status.code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(2) + PROMPT, "it took {:?}", start.elapsed());
}

fn start(redis: &RedisServer, environment: &[(&str, &str)]) -> Program {
    Program::start(&["serve", "--bind", "127.0.0.1:0", "--store", &redis.url()], environment)
}

fn connect(program: &Program) -> TcpStream {
    let stream = TcpStream::connect(program.address).unwrap();
    stream.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    stream
}

/// A post for whose body the server waits.
struct Posting(BufReader<TcpStream>);

impl Posting {
    fn begin(program: &Program) -> Self {
        let mut stream = connect(program);
        let length = BODY.len();
        write!(
            stream,
            "POST /v2/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nClient-ID: {CLIENT}\r\nX-Project-ID: p\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        )
        .unwrap();
        let mut this = Self(BufReader::new(stream));
        // The server sends this when its handler begins to read.
        assert_eq!(this.line(), "HTTP/1.1 100 Continue");
        assert_eq!(this.line(), "");
        this
    }

    fn finish(&mut self) -> String {
        self.send_the_rest();
        self.answer()
    }

    fn send_the_rest(&mut self) {
        self.0.get_mut().write_all(BODY.as_bytes()).unwrap();
    }

    fn answer(&mut self) -> String {
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
