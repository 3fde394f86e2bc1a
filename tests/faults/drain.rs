//! SIGTERM, SIGINT and SIGHUP: requests under way are finished, no new ones are accepted, and the
//! process exits soon.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use support::ports::free_port;
use support::redis::{RedisServer, child_command};
use support::sukkal::{CLIENT, Sukkal, binary};
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
        block_until("nothing new is taken", || TcpStream::connect(program.address()).is_err());
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
    let _never_used = TcpStream::connect(program.address()).unwrap();
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

    let start = Instant::now();
    program.signal("TERM");
    let status = program.wait();

    assert_eq!(status.code(), Some(0));
    assert!(start.elapsed() >= Duration::from_secs(1), "it did not wait: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(1) + PROMPT, "it took {:?}", start.elapsed());
}

/// A load balancer needs time to notice.
#[test]
fn a_service_that_is_to_stop_says_so_everywhere_and_answers_until_the_drain_delay_is_over() {
    let redis = RedisServer::start();
    let operations = format!("127.0.0.1:{}", free_port());
    let long =
        [("SUKKAL_DRAIN_DELAY", "600"), ("SUKKAL_DRAIN_TIMEOUT", "600"), ("SUKKAL_OPERATIONS__BIND", &operations)];
    let program = start(&redis, &long);
    let mut kept_alive = BufReader::new(connect(&program));
    assert_eq!(get(&mut kept_alive, "/readyz")[0], "HTTP/1.1 204 No Content");
    let command = |name| {
        let mut command = child_command(binary());
        command
            .arg("ready")
            .env(name, if name == "SUKKAL_BIND" { program.address().to_owned() } else { operations.clone() });
        command.output().unwrap()
    };

    program.signal("TERM");

    for name in ["SUKKAL_BIND", "SUKKAL_OPERATIONS__BIND"] {
        block_until("it is not ready", || !command(name).status.success());
        let said = String::from_utf8(command(name).stderr).unwrap();
        assert!(said.contains("answers 503: The service is stopping."), "{said}");
    }
    let mut new = BufReader::new(connect(&program));
    for connection in [&mut kept_alive, &mut new] {
        let head = get(connection, "/healthz");
        assert!(head[0].starts_with("HTTP/1.1 204") && head.contains(&"connection: close".to_owned()), "{head:?}");
        assert_eq!(connection.read_to_end(&mut Vec::new()).unwrap(), 0, "it is closed");
    }
    assert!(Posting::begin(&program).finish().starts_with("HTTP/1.1 201 "));
}

#[test]
fn the_drain_delay_is_a_part_of_the_drain_timeout() {
    let redis = RedisServer::start();
    let mut program = start(&redis, &[("SUKKAL_DRAIN_DELAY", "1"), ("SUKKAL_DRAIN_TIMEOUT", "2")]);
    let _stuck_in_the_body = Posting::begin(&program);

    let start = Instant::now();
    program.signal("TERM");
    program.wait_until_logged("draining");
    let delay = start.elapsed();
    let status = program.wait();

    assert_eq!(status.code(), Some(0));
    assert!(delay >= Duration::from_secs(1), "it did not wait: {delay:?}");
    assert!(start.elapsed() < Duration::from_secs(2) + PROMPT, "it took {:?}", start.elapsed());
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

fn start(redis: &RedisServer, environment: &[(&str, &str)]) -> Sukkal {
    Sukkal::launch(&["serve", "--bind", "127.0.0.1:0", "--store", &redis.url()], environment)
}

fn connect(program: &Sukkal) -> TcpStream {
    let stream = TcpStream::connect(program.address()).unwrap();
    stream.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    stream
}

/// Returns the lines of the head of the response, in lower case but for the first.
fn get(connection: &mut BufReader<TcpStream>, path: &str) -> Vec<String> {
    write!(connection.get_mut(), "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => return head,
            line => head.push(if head.is_empty() { line.to_owned() } else { line.to_lowercase() }),
        }
    }
}

/// A post for whose body the server waits.
struct Posting(BufReader<TcpStream>);

impl Posting {
    fn begin(program: &Sukkal) -> Self {
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
