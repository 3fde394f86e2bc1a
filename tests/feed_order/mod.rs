//! Concurrent producers, observers and deleters on a queue without delays, one with delays, and a
//! fair one with delays. A checker verifies the recorded history. In `pooled.rs`, two races run at
//! the same time, on queues in two pools that are stopped and restarted.
//!
//! `SUKKAL_RACE_OBSERVED` sets the number of deliveries of each race. `SUKKAL_SEED` repeats the
//! choices of an earlier race, but not its timing. A history that breaks a rule is written to
//! cargo's directory for tests. With `SUKKAL_RACE_HISTORY`, every history is written to the
//! directory of that name.

mod actors;
mod checker;
mod clock_mover;
mod coordinator;
mod delays;
mod history;
mod pooled;
mod wire;
mod workers;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use uuid::Uuid;

use self::actors::{DELETERS, PRODUCERS, RaceContext, RaceOptions, excluded_producer};
use self::checker::Summary;
use self::clock_mover::ClockMover;
use self::coordinator::Phase;
use self::delays::Delays;
use self::history::{History, Observer};
use self::wire::Wire;
use support::cluster::{RedisCluster, SlotMover};
use support::random::{self, Random};
use support::test_bed::{Home, Server, ServerUrls, TestBed, queue_id};
use support::timeline::clock::wall_us;
use support::timeline::{Disturbances, disturbances, save_history, start_actors};
use support::{campaign, campaigns, report};

/// The name of the campaign in the report.
const CAMPAIGN: &str = "feed_order";
const SERVERS: usize = 3;
const QUEUE: &str = "feed";
/// Much longer than any race takes; a race that hangs fails.
const RACE_TIMEOUT: Duration = Duration::from_secs(1800);

/// Number of deliveries of a long race.
const LONG_RACE: usize = 1_000_000;
/// Number of deliveries of a race that may lack rare events.
const SHORT_RACE: usize = 50_000;
/// Deviation of the two clocks in addition to the measured one, in microseconds.
const SLACK_US: i64 = 5000;

const PLAIN: RaceOptions =
    RaceOptions { observers: 16, page_max: 20, flood_every: 25, delays: None, shards: 1, workers: 0 };
const DELAYED: RaceOptions =
    RaceOptions { observers: 8, page_max: 100, flood_every: 10, delays: Some(Delays { default_s: 1 }), ..PLAIN };
const WORKED: RaceOptions = RaceOptions { observers: 8, workers: 6, ..PLAIN };
const FAIR: RaceOptions = RaceOptions { shards: 64, ..DELAYED };
/// Limits that allow pages of 100 messages, and posts of up to 2 MiB.
const LARGE_LIMITS: [(&str, &str); 2] =
    [("SUKKAL_TRANSPORT__MAX_MESSAGES_PER_PAGE", "100"), ("SUKKAL_TRANSPORT__MAX_MESSAGES_POST_SIZE", "2097152")];

campaigns! {
    /// Row 6.1-25.
    every_observer_reads_the_same_complete_feed:
        race_without_delays("standalone", &Home::redis(), 300_000);
    every_observer_reads_the_same_complete_feed_from_a_cluster:
        race_without_delays("cluster", &Home::cluster(), 30_000);
    every_observer_reads_the_same_complete_feed_of_delayed_messages:
        race_with_delays("delayed", &Home::redis(), 300_000);
    every_observer_reads_the_same_complete_feed_of_delayed_messages_from_a_cluster:
        race_with_delays("delayed-cluster", &Home::cluster(), 60_000);
    every_observer_reads_the_same_complete_feed_from_a_file:
        race_without_delays("embedded", &Home::file(), 75_000);
    every_observer_reads_the_same_complete_feed_of_delayed_messages_from_a_file:
        race_with_delays("delayed-embedded", &Home::file(), 75_000);
    every_observer_reads_the_same_complete_feed_from_memory:
        race_without_delays("memory", &Home::memory(), 75_000);
    every_observer_reads_the_same_complete_feed_of_delayed_messages_from_memory:
        race_with_delays("delayed-memory", &Home::memory(), 75_000);
    every_observer_reads_the_same_complete_feed_of_a_fair_queue:
        fair_race_with_delays("fair", &Home::redis(), 150_000);
    every_observer_reads_the_same_complete_feed_of_a_fair_queue_from_a_cluster:
        fair_race_with_delays("fair-cluster", &Home::cluster(), 30_000);
    every_observer_reads_the_same_complete_feed_of_a_fair_queue_from_a_file:
        fair_race_with_delays("fair-embedded", &Home::file(), 30_000);
    every_observer_reads_the_same_complete_feed_of_a_fair_queue_from_memory:
        fair_race_with_delays("fair-memory", &Home::memory(), 30_000);
    /// Observers follow the feed while workers take all messages that they can get from its head.
    observers_skip_and_repeat_nothing_beside_workers_at_full_speed:
        race_beside_workers("worked", &Home::redis(), 15_000);
    observers_of_a_cluster_skip_and_repeat_nothing_beside_workers_at_full_speed:
        race_beside_workers("worked-cluster", &Home::cluster(), 10_000);
    observers_of_memory_skip_and_repeat_nothing_beside_workers_at_full_speed:
        race_beside_workers("worked-memory", &Home::memory(), 10_000);
}

async fn race_with_delays(name: &str, home: &Home, usual: usize) {
    race_with_delays_on(DELAYED, name, home, usual).await;
}

async fn fair_race_with_delays(name: &str, home: &Home, usual: usize) {
    race_with_delays_on(FAIR, name, home, usual).await;
}

async fn race_with_delays_on(options: RaceOptions, name: &str, home: &Home, usual: usize) {
    let target = observed(usual);
    let (summary, details) = race(name, home.bed(), options, target).await;

    assert!(summary.delayed > 0 && summary.kept_back > 0, "no message was delayed");
    // A short race may have none of these by chance.
    if target >= LONG_RACE {
        assert!(summary.spread > 0, "no two requests wanted the same position");
    }
    report::checked(CAMPAIGN, name, summary.observed, details);
}

async fn race_without_delays(name: &str, home: &Home, usual: usize) {
    let target = observed(usual);
    let (summary, details) = race(name, home.bed(), PLAIN, target).await;

    assert!(summary.markers_expired > 0 || target <= SHORT_RACE, "no marker expired");
    report::checked(CAMPAIGN, name, summary.observed, details);
}

/// Observers follow the feed while workers take all messages that they can get from its head.
async fn race_beside_workers(name: &str, home: &Home, usual: usize) {
    let (summary, details) = race(name, home.bed(), WORKED, observed(usual)).await;

    report::checked(CAMPAIGN, name, summary.observed, details);
}

/// The slot of the queue moves from server to server all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_complete_feed_while_its_slot_moves() {
    let cluster = Arc::new(RedisCluster::start());
    let store = TestBed::redis(&cluster.url());
    let slot_mover = SlotMover::start(cluster, &format!("sukkal:{{{}/{QUEUE}}}:queue", Wire::project()));

    let (summary, details) = race("moved", store, PLAIN, observed(30_000)).await;

    let moves = slot_mover.stop();
    assert!(moves > 1, "the slot moved {moves} times");
    report::checked(CAMPAIGN, "moved", summary.observed, format!("{details}, the slot moved {moves} times"));
}

/// Runs a race over the store and checks its history. Returns its counts, and details for the
/// report.
async fn race(name: &str, store: TestBed, options: RaceOptions, target: usize) -> (Summary, String) {
    let servers: Vec<Server> = (0..SERVERS).map(|_| store.serve(&LARGE_LIMITS)).collect();
    let seed = random::seed();
    let urls = Arc::new(ServerUrls::of(&servers));
    let context = RaceContext::new(seed, options, Wire::new(QUEUE, urls.clone()), (target, None));
    let replacement = disturbances(replace_one(context.clone(), urls, store.clone(), servers));

    let history = timeout(RACE_TIMEOUT, run(&context, store, replacement)).await.expect("a race ends in time");

    check(name, &context, &history, target)
}

/// Checks the history of a race. Returns its counts, and details for the report.
fn check(name: &str, context: &RaceContext, history: &History, target: usize) -> (Summary, String) {
    let verdict = checker::check(history);
    let run = format!("{:.1} s, {}, seed {}", seconds(history.quiet), context.coordinator.failures, history.seed);
    let file = format!("race-{name}-{}-{}.txt", context.wire.queue, history.seed);
    if let Some(directory) = std::env::var_os("SUKKAL_RACE_HISTORY") {
        save_history(Path::new(&directory), &file, |to| history.dump(to));
    }
    let summary = verdict.unwrap_or_else(|violation| {
        let path = save_history(Path::new(env!("CARGO_TARGET_TMPDIR")), &file, |to| history.dump(to));
        panic!("{violation}\n{run}\nthe history is in {}", path.display());
    });
    let details = format!("{summary:?}, {run}");
    assert!(summary.observed >= target, "the race was cut short: {details}");
    assert!(summary.markers_deleted > 0 || target <= SHORT_RACE, "no marker ended: {details}");
    assert!(summary.passed_over > 0 && summary.filtered > 0, "nothing ended before it was read: {details}");
    (summary, details)
}

async fn run(context: &RaceContext, store: TestBed, disturbances: Disturbances) -> History {
    let queue = queue_id(Wire::project(), &context.wire.queue);
    let default_delay_s = context.options.delays.map_or(0, |delays| delays.default_s);
    if default_delay_s > 0 {
        let mut random = Random::new(context.seed, 0, 0);
        let shards = context.options.shards;
        context.wire.create(&Uuid::nil(), &mut random, default_delay_s, shards).await.expect("it is created");
    }

    let observers = start_actors(context.options.observers, |observer| context.clone().observe(observer));
    let workers = context.options.workers;
    let deletes = start_actors(if workers == 0 { DELETERS } else { 0 }, |deleter| context.clone().delete(deleter));
    let takes = start_actors(workers, |worker| context.clone().work(worker));
    let clock_mover = ClockMover::new(context.clone(), store, queue);
    let moves = tokio::spawn(async move { if workers == 0 { clock_mover.run().await } else { Default::default() } });
    let mut posts = start_actors(PRODUCERS, |producer| context.clone().produce(producer)).join_all().await;
    context.coordinator.set_phase(Phase::Posted);
    let mut deletes = deletes.join_all().await;
    let (taken_by_workers, unknown_pops): (Vec<_>, Vec<_>) =
        takes.join_all().await.into_iter().map(|work| (work.deletes, work.unknown_pops)).unzip();
    deletes.extend(taken_by_workers);
    let (moves, pressed) = moves.await.expect("the clock was moved");
    posts.push(pressed);
    let _servers = disturbances.await;
    let quiet = context.coordinator.now();
    context.coordinator.set_phase(Phase::Quiet);
    let pages = observers.join_all().await;

    let mut history = History {
        seed: context.seed,
        wall_us: context.wall_us,
        slack_us: SLACK_US + (wall_us(|| context.coordinator.now()) - context.wall_us).abs(),
        default_delay_s,
        observers: (0..context.options.observers)
            .map(|observer| Observer { excluded_producer: excluded_producer(observer) })
            .collect(),
        posts: posts.concat(),
        deletes: deletes.concat(),
        moves,
        pages: pages.concat(),
        quiet,
    };
    if workers > 0 {
        history.deletes.push(context.deleted_by(&unknown_pops.concat(), &history).await);
    }
    history
}

/// Kills a server in the middle of the race, which leaves requests without a response, and starts
/// another one. A race with workers needs all servers.
async fn replace_one(context: RaceContext, urls: Arc<ServerUrls>, store: TestBed, servers: Vec<Server>) -> Vec<Server> {
    if context.options.workers > 0 {
        return servers;
    }
    let mut progress = context.coordinator.progress();
    let half = progress.wait_for(|now| context.coordinator.percent() >= 50 || now.phase > Phase::Racing).await;
    drop(half.expect("the coordinator exists during the test"));
    urls.replace_one(servers, move || store.serve(&LARGE_LIMITS)).await
}

fn observed(short: usize) -> usize {
    campaign::size("SUKKAL_RACE_OBSERVED", short)
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}
