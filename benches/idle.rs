//! Measures the load that idle queues put on Redis. It takes some minutes, so `make bench` omits
//! it.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use crate::support::redis::{RedisServer, block_until};
use crate::support::sukkal::Sukkal;

const QUEUES: usize = 200_000;
const PROJECTS: usize = 200;
const PROCESSES: usize = 3;
const WATCHED_FOR: Duration = Duration::from_secs(60);
/// Interval between two passes over all queues, in seconds.
const WALK_S: f64 = 3_600.0;

/// Processor time that Redis has used, in seconds.
fn cpu_s(redis: &RedisServer) -> f64 {
    let info = redis.command(&["INFO", "cpu"]);
    let used = |name: &str| -> f64 {
        let line = info.as_text().lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|figure| figure.trim().parse().ok()).expect("INFO has the figure")
    };
    used("used_cpu_sys:") + used("used_cpu_user:")
}

/// Stores queues directly, in the form that their creation stores them, to save round trips.
fn store_queues(redis: &RedisServer) {
    let mut commands = String::new();
    let mut add = |words: &[&str]| {
        write!(commands, "*{}\r\n", words.len()).expect("a string can be written to");
        for word in words {
            write!(commands, "${}\r\n{word}\r\n", word.len()).expect("a string can be written to");
        }
    };
    for project in 0..PROJECTS {
        add(&["ZADD", "sukkal:{projects}", "0", &format!("p{project}\x001")]);
        for queue in 0..QUEUES / PROJECTS {
            add(&["ZADD", &format!("sukkal:{{p{project}}}:queues"), "0", &format!("q{queue}\x001")]);
            add(&["HSET", &format!("sukkal:{{p{project}/q{queue}}}:queue"), "m", "\u{1}", "v", "1", "s", "1"]);
        }
    }
    add(&["SET", "sukkal:layout", "2"]);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, redis.port())).expect("the server runs");
    let mut replies = stream.try_clone().expect("a socket can be cloned");
    let reader = std::thread::spawn(move || replies.read_to_end(&mut Vec::new()));
    stream.write_all(commands.as_bytes()).expect("the server takes commands");
    block_until("all queues are stored", || redis.command(&["EXISTS", "sukkal:layout"]).as_int() == 1);
    stream.shutdown(Shutdown::Both).expect("the connection can be closed");
    let _all_replies = reader.join();
}

fn main() {
    let redis = RedisServer::start();
    store_queues(&redis);
    std::thread::sleep(Duration::from_secs(5));
    let before = cpu_s(&redis);
    std::thread::sleep(WATCHED_FOR);
    let without = (cpu_s(&redis) - before) / WATCHED_FOR.as_secs_f64();

    // The first round is a pass over all queues.
    let before = cpu_s(&redis);
    let debug = [("SUKKAL_LOG__FILTER", "debug")];
    let started = std::time::Instant::now();
    let processes: Vec<Sukkal> = (0..PROCESSES).map(|_| Sukkal::start_with(&redis.url(), &debug)).collect();
    while redis.command(&["HEXISTS", "sukkal:{janitor}", "w"]).as_int() == 0 {
        assert!(started.elapsed() < Duration::from_secs(1_200), "the walk takes too long");
        std::thread::sleep(Duration::from_millis(100));
    }
    let walk = cpu_s(&redis) - before - without * started.elapsed().as_secs_f64();

    let before = cpu_s(&redis);
    std::thread::sleep(WATCHED_FOR);
    let idle = (cpu_s(&redis) - before) / WATCHED_FOR.as_secs_f64() - without;
    drop(processes);

    let percent = 100.0 * (idle + walk / WALK_S);
    println!(
        "{QUEUES} idle queues, {PROCESSES} processes: Redis uses {percent:.2} % of a core for them ({:.3} % between passes over all queues; \
         a pass takes {walk:.1} s every hour), and {:.2} % for itself",
        100.0 * idle,
        100.0 * without
    );
}
