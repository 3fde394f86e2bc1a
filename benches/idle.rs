//! Measures the load that idle queues put on Redis.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use tokio::time::sleep;

use crate::client::send;
use crate::processes;
use crate::report::Report;
use crate::service::process_id;
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};

const PROJECTS: usize = 200;
/// Number of queues that are created at the same time.
const CREATIONS: usize = 32;
/// What the janitors of all processes have done.
const MAINTENANCE: &str = "sukkal:{janitor}";
/// Interval between two passes over all queues, in seconds.
const WALK_S: f64 = 3_600.0;
const WALK_MAX: Duration = Duration::from_secs(1_200);

async fn create_queues(redis: &RedisServer, queues: usize) {
    let sukkal = Sukkal::start_without_janitor(redis, &redis.url(), &[]);
    let apis: Vec<Api> = (0..PROJECTS).map(|project| sukkal.project(&format!("p{project}"))).collect();
    let create = async |queue: usize| {
        send(apis[queue % PROJECTS].put(&format!("/v2/queues/q{queue}")), 201).await;
    };
    stream::iter(0..queues).for_each_concurrent(CREATIONS, create).await;
    drop(sukkal);
    redis.command(&["DEL", MAINTENANCE]);
}

pub(crate) async fn run(report: &mut Report) {
    let (queues, processes, seconds) = if report.is_short { (1_000, 1, 1) } else { (200_000, 3, 60) };
    let redis = RedisServer::start();
    create_queues(&redis, queues).await;
    let (id, time) = ([process_id(&redis)], Duration::from_secs(seconds));
    let cpu_s = || processes::cpu_s(&id);
    let share_while_idle = async || {
        let before = cpu_s();
        sleep(time).await;
        (cpu_s() - before) / time.as_secs_f64()
    };
    sleep(time / 10).await;
    let without = share_while_idle().await;

    // The first round is a pass over all queues.
    let (before, started) = (cpu_s(), Instant::now());
    let servers: Vec<Sukkal> = (0..processes).map(|_| Sukkal::start(&redis.url())).collect();
    while redis.command(&["HEXISTS", MAINTENANCE, "w"]).as_int() == 0 {
        assert!(started.elapsed() < WALK_MAX, "the walk takes too long");
        sleep(Duration::from_millis(100)).await;
    }
    let walk = cpu_s() - before - without * started.elapsed().as_secs_f64();
    let idle = share_while_idle().await - without;
    drop(servers);

    let percent = 100.0 * (idle + walk / WALK_S);
    writeln!(
        report,
        "{queues} idle queues, {processes} processes: Redis uses {percent:.2} % of a core for them ({:.3} % between passes over all queues; \
         a pass takes {walk:.1} s every hour), and {:.2} % for itself",
        100.0 * idle,
        100.0 * without
    )
    .unwrap();
}
