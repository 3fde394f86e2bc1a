//! Restarts of two processes, one after the other, behind nginx, `HAProxy` and a balancer of TCP
//! connections: no request fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::proxies::{haproxy, nginx};
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};
use support::waiting::{in_time, until};

/// Number of clients. Each sends a request every [`REQUEST_INTERVAL`], so there are 200 in a
/// second.
const CLIENTS: usize = 10;
const REQUEST_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of the checks of the balancers.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Three intervals of the checks.
const ENVIRONMENT: [(&str, &str); 3] =
    [("SUKKAL_DRAIN_DELAY", "3"), ("SUKKAL_AUTH__STRATEGIES", "proxy"), ("SUKKAL_AUTH__TRUSTED_PROXIES", "127.0.0.1")];

#[tokio::test]
async fn no_request_fails_during_rolling_restarts_behind_nginx() {
    let (redis, servers) = two_servers();
    let proxy = nginx([servers[0].address(), servers[1].address()]);
    restart_both(&redis, servers, &proxy.api("p")).await;
}

#[tokio::test]
async fn no_request_fails_during_rolling_restarts_behind_haproxy() {
    let (redis, servers) = two_servers();
    let proxy = haproxy([servers[0].address(), servers[1].address()]);
    restart_both(&redis, servers, &proxy.api("p")).await;
}

#[tokio::test]
async fn no_request_fails_during_rolling_restarts_behind_a_balancer_of_connections() {
    let (redis, servers) = two_servers();
    let balancer = balance([servers[0].address().to_owned(), servers[1].address().to_owned()]).await;
    restart_both(&redis, servers, &Api::new(format!("http://{balancer}"), "p")).await;
}

fn two_servers() -> (RedisServer, [Sukkal; 2]) {
    let redis = RedisServer::start();
    let servers = [(); 2].map(|()| Sukkal::start_with(&redis.url(), &ENVIRONMENT));
    (redis, servers)
}

/// Restarts each server while clients send requests through `api`.
async fn restart_both(redis: &RedisServer, servers: [Sukkal; 2], api: &Api) {
    until("the balancer is ready", async || {
        api.get("/v2/queues").send().await.is_ok_and(|answer| answer.status().is_success())
    })
    .await;
    let (ends, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(work(api.clone(), number, ends.clone(), answered.clone()));
    }
    let mut running = Vec::new();
    for mut server in servers {
        let address = server.address().to_owned();
        server.terminate();
        assert!(tokio::task::spawn_blocking(move || server.wait()).await.unwrap().success());
        let url = redis.url();
        let started = move || Sukkal::start_where(&address, &url, &ENVIRONMENT);
        running.push(tokio::task::spawn_blocking(started).await.unwrap());
        // A balancer notices only with its next checks that the server is back.
        let before = answered.load(Ordering::SeqCst);
        until("requests are answered", async || answered.load(Ordering::SeqCst) > before + 600).await;
    }
    ends.store(true, Ordering::SeqCst);
    let failures: Vec<String> = clients.join_all().await.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{} of {answered:?} requests failed: {failures:?}", failures.len());
}

/// Posts, lists, claims and pops in turn until it shall end. Returns what has failed.
async fn work(api: Api, number: usize, ends: Arc<AtomicBool>, answered: Arc<AtomicUsize>) -> Vec<String> {
    let queue = format!("/v2/queues/q{number}");
    let mut ticks = interval(REQUEST_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = Vec::new();
    for step in 0.. {
        ticks.tick().await;
        if ends.load(Ordering::SeqCst) {
            break;
        }
        let request = match step % 4 {
            0 => api.post(&format!("{queue}/messages"), &json!({ "messages": [{ "body": step, "ttl": 300 }] })),
            1 => api.get(&format!("{queue}/messages?echo=true")),
            2 => api.post(&format!("{queue}/claims"), &json!({ "ttl": 60 })),
            _ => api.delete(&format!("{queue}/messages?pop=1")),
        };
        match in_time("an answer", request.send()).await {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => failures.push(format!("{step}: {} {:?}", answer.status(), answer.text().await)),
            Err(error) => failures.push(format!("{step}: {error:?}")),
        }
        answered.fetch_add(1, Ordering::SeqCst);
    }
    failures
}

/// Starts a balancer that gives each connection to the next server whose last check has succeeded.
/// Returns its address.
async fn balance(servers: [String; 2]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let are_ready: Arc<[AtomicBool; 2]> = Arc::default();
    for number in 0..2 {
        let (server, are_ready) = (servers[number].clone(), are_ready.clone());
        tokio::spawn(async move {
            let mut checks = interval(CHECK_INTERVAL);
            loop {
                checks.tick().await;
                let checked = support::plain_http::get(format!("http://{server}/readyz")).await;
                are_ready[number].store(checked.is_ok_and(|answer| answer.status().is_success()), Ordering::SeqCst);
            }
        });
    }
    tokio::spawn(async move {
        for turn in 0.. {
            let (mut client, _) = listener.accept().await.unwrap();
            let chosen = (turn..turn + 2).map(|turn| turn % 2).find(|number| are_ready[*number].load(Ordering::SeqCst));
            // Without a server, the connection is closed.
            let Some(server) = chosen.map(|number| servers[number].clone()) else { continue };
            tokio::spawn(async move {
                if let Ok(mut stream) = TcpStream::connect(&server).await {
                    let _ended = tokio::io::copy_bidirectional(&mut client, &mut stream).await;
                }
            });
        }
    });
    address
}
