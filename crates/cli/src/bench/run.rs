//! A complete run: creates and fills queues, opens connections, warms up, measures, and cleans up.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::{interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::LocalPoolHandle;

use super::connection::{LoadConnection, Server};
use super::error::Error;
use super::load::{SharedLoad, Worker};
use super::options::Options;
use super::pace::Pace;
use super::requests::Requests;
use super::setup::Setup;
use super::stats::{Kind, Stats, Window};

/// Maximum number of connections that are opened at the same time. Any service's backlog holds as
/// many.
const OPENED_AT_ONCE_MAX: usize = 32;
/// Open files besides the connections and their timers: those of the terminal, the runtimes and
/// libraries.
const OTHER_FILES: u64 = 100;
/// How often the progress bar is updated during a run.
const TICKS_PER_SECOND: u64 = 5;
const BAR: &str = "{prefix:>11} {bar:40.green/dim} {msg}";

/// The results of a run.
pub(super) struct Measured {
    /// The time measured, which is shorter than requested if the run was interrupted.
    pub(super) time: Duration,
    /// The statistics of each kind of request, indexed by `Kind`.
    pub(super) stats: [Stats; Kind::ALL.len()],
    /// Processor time that this process itself used in that time.
    pub(super) processor_time: Duration,
    /// Names of the queues that could not be deleted.
    pub(super) queues_left: Vec<String>,
}

/// Performs a run, which ends early when `stop` is canceled.
pub(super) async fn run(options: &Options, stop: &CancellationToken) -> Result<Measured, Error> {
    allow_open_files(options)?;
    let unreachable = |source| Error::Unreachable { url: options.url_text(), source };
    let server = Server::new(options.url()).map_err(unreachable)?;
    LoadConnection::open(&server).await.map_err(unreachable)?;
    let stats = Kind::ALL.map(|_| Mutex::new(Stats::new()));
    let shared = Arc::new(SharedLoad { requests: Requests::new(options), stop: stop.clone(), stats });
    // The library hides it if stderr is not a terminal.
    let progress = &ProgressBar::new(1);
    progress.set_style(ProgressStyle::with_template(BAR).expect("the template is valid").progress_chars("━╸─"));
    let setup = Setup { server: &server, requests: &shared.requests, created: Vec::new().into() };
    let pool = LocalPoolHandle::new(options.threads());

    let prepare = async {
        progress.set_prefix("setting up");
        setup.prepare(options.prefill()).await?;
        progress.set_prefix("connecting");
        open(options, &server, &pool).await.map_err(unreachable)
    };
    let outcome = match stop.run_until_cancelled(prepare).await {
        Some(Ok(connections)) => measure(options, connections, &pool, &shared, progress).await,
        Some(Err(error)) => Err(error),
        None => Err(Error::Interrupted),
    };
    progress.set_prefix("cleaning up");
    let queues_left = setup.delete_queues().await;
    progress.finish_and_clear();
    outcome.map(|measured| Measured { queues_left, ..measured })
}

/// Opens all connections. Each one belongs to a thread, which is given by its position in the list.
async fn open(options: &Options, server: &Server, pool: &LocalPoolHandle) -> io::Result<Vec<LoadConnection>> {
    let connections = options.connections().iter().map(|(_, connections)| connections).sum();
    let open = async |n: usize| {
        let server = server.clone();
        let opened =
            pool.spawn_pinned_by_idx(move || async move { LoadConnection::open(&server).await }, thread(n, pool));
        opened.await?
    };
    stream::iter(0..connections).map(open).buffered(OPENED_AT_ONCE_MAX).try_collect().await
}

async fn measure(
    options: &Options,
    connections: Vec<LoadConnection>,
    pool: &LocalPoolHandle,
    shared: &Arc<SharedLoad>,
    progress: &ProgressBar,
) -> Result<Measured, Error> {
    let window = Window::new(Instant::now(), options.warmup, options.duration);
    let (rate, stop) = (options.rate, &shared.stop);
    let roles = options.connections().into_iter().flat_map(|(kind, all)| (0..all).map(move |index| (kind, index, all)));
    let workers = roles.zip(connections).enumerate().map(|(n, ((kind, index, connections), connection))| {
        let shared = shared.clone();
        let work = async move || {
            let pace = Pace::new(rate, connections, index, &window)?;
            Worker { kind, index, window, connection, pace, shared }.run().await;
            io::Result::Ok(())
        };
        pool.spawn_pinned_by_idx(work, thread(n, pool))
    });
    let workers = try_join_all(workers.map(async |worker| worker.await?));
    let processor_time = async {
        let _stopped = stop.run_until_cancelled(sleep_until(window.counts_from.into())).await;
        let before = processor_time();
        let _stopped = stop.run_until_cancelled(sleep_until(window.end.into())).await;
        Ok((processor_time().saturating_sub(before), window.counts_from.elapsed().min(options.duration)))
    };
    tokio::select! {
        never = show_run(progress, &window, shared) => never,
        ended = async { tokio::try_join!(workers, processor_time) } => {
            let (_, (processor_time, time)) = ended?;
            let stats = Kind::ALL.map(|kind| std::mem::replace(&mut *shared.stats(kind), Stats::new()));
            Ok(Measured { time, stats, processor_time, queues_left: Vec::new() })
        }
    }
}

fn thread(connection: usize, pool: &LocalPoolHandle) -> usize {
    connection % pool.num_threads()
}

/// Shows the elapsed time of a run, the current rate, and the failures since its start.
async fn show_run<T>(progress: &ProgressBar, window: &Window, shared: &SharedLoad) -> T {
    let mut ticks = interval(Duration::from_millis(1_000 / TICKS_PER_SECOND));
    let mut before = 0;
    loop {
        ticks.tick().await;
        let now = Instant::now();
        let (name, from, to) = if now < window.counts_from {
            ("warming up", window.start, window.counts_from)
        } else if now < window.end {
            ("measuring", window.counts_from, window.end)
        } else {
            ("last responses", window.counts_from, window.end)
        };
        let (length, elapsed) = (to - from, now.min(to) - from);
        let so_far = Kind::ALL.map(|kind| shared.stats(kind).so_far);
        let succeeded: u64 = so_far.iter().map(|(succeeded, _)| succeeded).sum();
        let failed: u64 = so_far.iter().map(|(_, failed)| failed).sum();
        let failed = if failed > 0 { format!(", {} failed", HumanCount(failed)) } else { String::new() };
        let (seconds, of, rate) = (elapsed.as_secs(), length.as_secs_f64(), (succeeded - before) * TICKS_PER_SECOND);
        before = succeeded;
        progress.set_prefix(name);
        progress.set_message(format!("{seconds} of {of} s, {}/s{failed}", HumanCount(rate)));
        progress.set_length(u64::try_from(length.as_millis()).unwrap_or(u64::MAX).max(1));
        progress.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
    }
}

/// Raises the limit on open files if the connections need more. Opening them fails if it is still
/// too low.
fn allow_open_files(options: &Options) -> io::Result<()> {
    let connections: usize = options.connections().iter().map(|(_, connections)| connections).sum();
    // With a rate, each connection has a timer.
    let needed = (connections * if options.rate.is_some() { 2 } else { 1 }) as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let most = limit.maximum.map_or(needed, |maximum| needed.min(maximum));
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit })?;
    }
    Ok(())
}

/// Processor time of all threads since the process started.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
