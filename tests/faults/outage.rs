//! Redis is unavailable in each possible way: every request gets a response in time, nothing hangs,
//! and all requests work again soon after its return.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

use tokio::time::timeout;

use super::gate::Gate;
use super::requests::{self, Answer, DELETES, HANG_TIMEOUT, Kind, READS, Requests, WRITES, all_done, all_refused};
use crate::http::answered;
use support::ports;
use support::proxy::Proxy;
use support::redis::{RedisServer, Reply};
use support::sukkal::Sukkal;
use support::waiting::block_until;

/// Number of concurrent requests.
const MANY: usize = 64;

const KEEPS_DATA: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "no")];

const BIG_POST: Kind =
    ("POST big messages", |r| r.api.post("/v2/queues/kept/messages", &requests::message(&"x".repeat(200_000))));

/// A server over a Redis that keeps its data when it is killed, behind a network that can fail.
struct Scene {
    redis: RedisServer,
    proxy: Proxy,
    _sukkal: Sukkal,
    requests: Requests,
}

impl Scene {
    async fn start() -> Self {
        let redis = RedisServer::start_with(&KEEPS_DATA);
        let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port())));
        let sukkal = Sukkal::start(&proxy.url("redis"));
        let requests = Requests::prepare(&sukkal).await;
        let scene = Self { redis, proxy, _sukkal: sukkal, requests };
        all_done(&scene.send_all().await);
        scene
    }

    async fn send_all(&self) -> Vec<Answer> {
        self.requests.send(&requests::all(), MANY).await
    }

    /// Waits, concurrently with `send_all`, until its requests are under way.
    async fn some_are_answered(&self) {
        answered(self.requests.api.get("/readyz"), 204).await;
    }

    async fn all_work_again(&self) {
        self.requests.all_work_again(&requests::all()).await;
        all_done(&self.send_all().await);
    }
}

/// All requests are refused in time while the store is broken in this way, and work again soon
/// after it has been mended.
async fn survives(break_it: impl FnOnce(&Scene), mend: impl FnOnce(&Scene)) {
    let scene = Scene::start().await;

    break_it(&scene);
    all_refused(&scene.send_all().await);
    all_refused(&scene.send_all().await);
    mend(&scene);

    scene.all_work_again().await;
}

#[tokio::test]
async fn requests_get_503_until_a_killed_redis_is_back() {
    survives(|scene| scene.redis.kill(), |scene| scene.redis.restart()).await;
}

#[tokio::test]
async fn later_requests_do_not_wait_for_a_redis_that_is_known_to_be_down() {
    let scene = Scene::start().await;
    scene.redis.kill();
    all_refused(&scene.send_all().await);

    // Thirty sequential requests that time out would take forty seconds.
    let one_after_the_other = async {
        for _ in 0..30 {
            answered(scene.requests.api.get("/v2/queues"), 503).await;
        }
    };
    timeout(HANG_TIMEOUT, one_after_the_other).await.expect("they are refused at once");
}

#[tokio::test]
async fn requests_get_503_until_a_suspended_redis_resumes() {
    survives(|scene| scene.redis.pause(), |scene| scene.redis.resume()).await;
}

#[tokio::test]
async fn requests_get_a_response_in_time_if_redis_is_suspended_meanwhile() {
    let scene = Scene::start().await;

    for _ in 0..3 {
        let (answers, ()) = tokio::join!(scene.send_all(), async {
            scene.some_are_answered().await;
            scene.redis.pause();
        });
        answers.iter().for_each(Answer::check);
        scene.redis.resume();

        scene.all_work_again().await;
    }
}

#[tokio::test]
async fn requests_get_503_until_a_silent_network_recovers() {
    survives(|scene| scene.proxy.black_hole(), |scene| scene.proxy.restore()).await;
}

#[tokio::test]
async fn requests_get_503_if_the_network_accepts_connections_but_forwards_nothing() {
    let black_hole = |scene: &Scene| {
        scene.proxy.black_hole();
        scene.proxy.cut();
    };
    let mend = |scene: &Scene| {
        scene.proxy.cut();
        scene.proxy.restore();
    };
    survives(black_hole, mend).await;
}

#[tokio::test]
async fn requests_get_503_while_redis_refuses_connections() {
    let refuse = |scene: &Scene| {
        scene.proxy.refuse();
        scene.proxy.cut();
    };
    survives(refuse, |scene| scene.proxy.restore()).await;
}

#[tokio::test]
async fn closed_connections_are_replaced_without_an_error() {
    let scene = Scene::start().await;

    for _ in 0..5 {
        let (answers, ()) = tokio::join!(scene.send_all(), async {
            scene.some_are_answered().await;
            scene.redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        });

        all_done(&answers);
        scene.redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        all_done(&scene.send_all().await);
    }
}

#[tokio::test]
async fn the_service_starts_before_its_redis() {
    let redis = RedisServer::start();
    redis.kill();
    let sukkal = Sukkal::start(&redis.url());
    let requests = Requests::without_queue(&sukkal);

    // These do not send the store an id that cannot be one of its own.
    let by_id = ["GET message", "GET messages by id", "DELETE message", "DELETE messages", "PATCH queue"];
    let kinds: Vec<_> = requests::all().into_iter().filter(|(what, _)| !by_id.contains(what)).collect();

    all_refused(&requests.send(&kinds, MANY).await);
    redis.restart();

    requests.all_work_again(&kinds).await;
}

#[tokio::test]
async fn requests_get_503_while_redis_is_busy_with_a_script() {
    let redis = Arc::new(RedisServer::start_with(&[("lua-time-limit", "50")]));
    let sukkal = Sukkal::start(&redis.url());
    let requests = Requests::prepare(&sukkal).await;

    let runner = redis.clone();
    let script = thread::spawn(move || runner.command(&["EVAL", "while true do end", "0"]));
    let is_busy = || matches!(redis.command(&["PING"]), Reply::Error(error) if error.starts_with("BUSY"));
    block_until("the script is too slow", is_busy);
    all_refused(&requests.send(&requests::all(), MANY).await);
    redis.command(&["SCRIPT", "KILL"]);
    let killed = script.join().unwrap();

    assert!(matches!(killed, Reply::Error(_)), "{killed:?}");
    requests.all_work_again(&requests::all()).await;
}

#[tokio::test]
async fn a_read_only_redis_answers_reads_and_refuses_writes() {
    let scene = Scene::start().await;
    let unused_port = ports::free_port().to_string();

    for (refuse, accept) in [
        (&["REPLICAOF", "127.0.0.1", &unused_port][..], &["REPLICAOF", "NO", "ONE"][..]),
        (&["CONFIG", "SET", "min-replicas-to-write", "1"], &["CONFIG", "SET", "min-replicas-to-write", "0"]),
    ] {
        scene.redis.command(refuse);
        all_done(&scene.requests.send(&READS, MANY).await);
        all_refused(&scene.requests.send(&WRITES, MANY).await);
        scene.requests.send(&DELETES, MANY).await.iter().for_each(Answer::check);
        scene.redis.command(accept);

        scene.all_work_again().await;
    }
}

#[tokio::test]
async fn silent_connections_are_replaced_under_load() {
    let redis = RedisServer::start();
    let gate = Gate::start(redis.port(), "faults");
    let sukkal = Sukkal::start(&gate.url());
    let requests = Requests::prepare(&sukkal).await;
    all_done(&requests.send(&requests::all(), MANY).await);

    gate.silence_connections();

    requests.all_work_again(&requests::all()).await;
    all_done(&requests.send(&requests::all(), MANY).await);
}

#[tokio::test]
async fn a_connection_that_accepts_no_more_data_is_replaced() {
    let redis = RedisServer::start();
    let gate = Gate::start(redis.port(), "faults");
    let sukkal = Sukkal::start(&gate.url());
    let requests = Requests::prepare(&sukkal).await;

    gate.silence_connections();
    // More data than the kernel's buffers take.
    requests.send(&[BIG_POST], 2 * MANY).await.iter().for_each(Answer::check);

    requests.all_work_again(&requests::all()).await;
    all_done(&requests.send(&requests::all(), MANY).await);
}

#[tokio::test]
async fn requests_get_503_while_redis_is_loading() {
    const KEYS: usize = 3000;
    let redis = Arc::new(RedisServer::start_with(&[
        // Redis responds while it loads, after each kilobyte, and takes a millisecond to load a
        // key.
        ("loading-process-events-interval-bytes", "1024"),
        ("key-load-delay", "1000"),
    ]));
    let sukkal = Sukkal::start(&redis.url());
    let requests = Requests::prepare(&sukkal).await;
    redis.command(&["EVAL", &format!("for i = 1, {KEYS} do redis.call('SET', 'ballast' .. i, 1) end"), "0"]);
    redis.command(&["SAVE"]);

    let restarting = redis.clone();
    let restart = thread::spawn(move || restarting.restart());
    block_until("it loads", || is_loading(redis.port()).unwrap_or(false));
    all_refused(&requests.send(&requests::all(), MANY).await);
    restart.join().unwrap();

    requests.all_work_again(&requests::all()).await;
}

/// Returns an error if it accepts no connections at all.
fn is_loading(port: u16) -> io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer.starts_with("-LOADING"))
}
