//! A siege: attackers of many kinds, known and unknown, use a service at the same time, while two
//! honest projects work. Each honest request gets its response in time, and the memory of the
//! service stays bounded and is free again afterwards.
//!
//! `SUKKAL_SIEGE_SECONDS` sets how long it lasts. Then it also compares the times of honest
//! requests with those before the siege.

mod attacks;
mod honest;
mod wire;

use std::time::Duration;

use rustix::process::setpriority_process;
use sukkal::descriptors::connections_max;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use support::certificates::Authority;
use support::memory::{peak_bytes, resident_bytes};
use support::redis::RedisServer;
use support::sukkal::Sukkal;
use support::waiting::{POLL_TIMEOUT, until};
use support::{campaign, report};
use wire::Target;

/// Length of the short form.
const SECONDS: usize = 10;
const CONNECTIONS: usize = 1_000;
const MIB: usize = 1 << 20;
/// Maximum of the memory of the service.
const MEMORY_MAX: usize = 400_000_000;
/// How much more memory than before the siege the service may hold after it.
const REMAINING_MAX: usize = 64 * MIB;
const RELEASED_AFTER_MAX: Duration = Duration::from_secs(10);
/// How much longer honest requests may take than without attackers, at the 99th percentile.
const SLOWER_MAX: u32 = 5;
/// How much lower than usual the priority of attackers is.
const NICE: i32 = 10;
/// The same in the long form: the lowest priority.
const NICE_MAX: i32 = 19;
/// Time after which an attacker begins again.
const PAUSE: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread")]
async fn attackers_do_not_keep_honest_clients_from_working_over_redis() {
    let redis = RedisServer::start();
    besiege("redis", &redis.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attackers_do_not_keep_honest_clients_from_working_over_a_file() {
    let folder = tempfile::tempdir().unwrap();
    besiege("embedded", &format!("embedded:{}", folder.path().join("data").display())).await;
}

async fn besiege(name: &str, store: &str) {
    // One siege after the other.
    static BESIEGED: Mutex<()> = Mutex::const_new(());
    let _turn = BESIEGED.lock().await;
    assert_eq!(connections_max(3 * CONNECTIONS), 3 * CONNECTIONS, "the limit on open files is too low");
    let long = campaign::long_size("SUKKAL_SIEGE_SECONDS");
    let time = Duration::from_secs(long.unwrap_or(SECONDS) as u64);
    let authority = Authority::new();
    let sukkal = start(store, &authority);
    let target = Target::new(sukkal.address(), &authority.file());
    attacks::prepare(&target).await.expect("the service answers");
    let before = honest::work(&target, sleep(time / 5)).await;
    let memory_before = resident_bytes(sukkal.id());

    // Threads of the lowest priority would hardly run beside other tests.
    let siege = Siege::begin(&target, if long.is_some() { NICE_MAX } else { NICE });
    let begun = async {
        sleep(time).await;
        until("each attacker has begun", async || siege.has_begun()).await;
    };
    let work = honest::work(&target, begun).await;
    let opened = siege.end();
    let ended = Instant::now();

    let memory_max = peak_bytes(sukkal.id());
    let grown = || resident_bytes(sukkal.id()).saturating_sub(memory_before);
    // The allocator returns memory to the system while the service does something. Other tests
    // delay that.
    let released = async {
        while grown() > REMAINING_MAX {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let released_after_max = if long.is_some() { RELEASED_AFTER_MAX } else { POLL_TIMEOUT };
    let mut is_released = false;
    honest::work(&target, async { is_released = timeout(released_after_max, released).await.is_ok() }).await;
    let details = format!(
        "before: {before}, {} MiB; in the siege: {work}, {} MiB; {:?} afterwards: {} MiB more than before; {opened:?}",
        memory_before / MIB,
        memory_max / MIB,
        ended.elapsed(),
        grown() / MIB,
    );
    eprintln!("{details}");
    assert!(memory_max < MEMORY_MAX, "{details}");
    assert!(is_released, "the memory is not free again: {details}");
    assert!(long.is_none() || work.p99() <= SLOWER_MAX * before.p99(), "{details}");
    report::checked("siege", name, work.count(), details);
}

/// Starts a service that knows the clients of a proxy, and those with a token.
fn start(store: &str, authority: &Authority) -> Sukkal {
    let certificate = authority.issue("server", "/CN=server");
    let connections = CONNECTIONS.to_string();
    Sukkal::start_with(
        store,
        &[
            ("SUKKAL_TLS__CERTIFICATE", certificate.certificate.to_str().unwrap()),
            ("SUKKAL_TLS__KEY", certificate.key.to_str().unwrap()),
            ("SUKKAL_AUTH__STRATEGIES", "proxy,tokens"),
            ("SUKKAL_AUTH__TRUSTED_PROXIES", "127.0.0.1"),
            ("SUKKAL_MAX_CONNECTIONS", &connections),
            ("SUKKAL_WEBSOCKET__MAX_CONNECTIONS", "400"),
            // High enough for honest clients, so that only the memory of rates matters.
            ("SUKKAL_QUOTAS__REQUESTS_PER_SECOND", "100000"),
        ],
    )
}

/// The attackers, who have threads of their own at the lowest priority.
struct Siege {
    runtime: Runtime,
    targets: Vec<Target>,
}

impl Siege {
    fn begin(target: &Target, nice: i32) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(move || setpriority_process(None, nice).expect("a thread may become nicer"))
            .enable_all()
            .build()
            .expect("threads can be started");
        let targets: Vec<Target> = attacks::ALL.iter().map(|kind| target.for_group(kind.is_known)).collect();
        for (kind, target) in attacks::ALL.iter().zip(&targets) {
            for number in 0..kind.count {
                let target = target.clone();
                runtime.spawn(async move {
                    loop {
                        let _ended = (kind.attack)(target.clone(), number).await;
                        sleep(PAUSE).await;
                    }
                });
            }
        }
        Self { runtime, targets }
    }

    /// Returns whether there were as many connections of each kind as there are attackers.
    fn has_begun(&self) -> bool {
        attacks::ALL.iter().zip(&self.targets).all(|(kind, target)| target.opened() >= kind.count)
    }

    /// Ends all attacks. Returns how many connections the attackers of each kind have opened.
    fn end(self) -> Vec<(&'static str, usize)> {
        self.runtime.shutdown_background();
        attacks::ALL.iter().zip(self.targets).map(|(kind, target)| (kind.name, target.opened())).collect()
    }
}
