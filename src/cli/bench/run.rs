//! A complete run: creates and fills queues, opens connections, warms up, measures, and cleans up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::connection_loop::RunningTotals;
use super::error::Error;
use super::options::Options;
use super::process::{allow_connections, processor_time};
use super::progress::{Progress, TICK, TICKS_PER_SECOND};
use super::setup::Setup;
use super::stats::Window;
use super::target::Client;
use super::threads::{StatsByKind, WorkerThreads};
use super::traffic::Traffic;

/// The results of a run.
pub(super) struct Measured {
    /// The time measured, which is shorter than requested if the run was interrupted.
    pub(super) time: Duration,
    pub(super) stats: StatsByKind,
    /// Processor time that this process itself used in that time.
    pub(super) processor_time: Duration,
    /// Names of the queues that could not be deleted.
    pub(super) queues_left: Vec<String>,
}

/// Performs a run, which ends early when `stop` is canceled.
pub(super) async fn run(options: &Options, stop: &CancellationToken) -> Result<Measured, Error> {
    let client = Client::new(options.url(), &options.project);
    let prefix =
        options.queue.clone().unwrap_or_else(|| format!("bench-{}", &Uuid::new_v4().simple().to_string()[..8]));
    let queues: Vec<String> = (0..options.queues()).map(|n| format!("{prefix}-{n}")).collect();
    let traffic = Arc::new(Traffic::new(options, &client, &queues)?);
    allow_connections(options.connections().iter().map(|(_, connections)| connections).sum())?;
    let unreachable = |source| Error::Unreachable { url: options.url().to_string(), source };
    let server = options.url().resolve().await.map_err(unreachable)?;
    let progress = Progress::new();
    let setup = Setup::new(&server, &traffic);

    let prepare = async {
        setup.create(&progress).await?;
        setup.fill(options.prefill(), &progress).await?;
        let mut threads = WorkerThreads::spawn(options, &server, &traffic, stop);
        wait_for_connections(options, &mut threads, &progress).await?;
        Ok(threads)
    };
    let outcome = match stop.run_until_cancelled(prepare).await {
        Some(Ok(threads)) => measure(options, threads, stop, &progress).await,
        Some(Err(error)) => Err(error),
        None => Err(Error::Interrupted),
    };
    // Ends threads that still wait for the start.
    stop.cancel();
    let queues_left = setup.delete_queues(&progress).await;
    progress.finish();
    outcome.map(|measured| Measured { queues_left, ..measured })
}

async fn wait_for_connections(
    options: &Options,
    threads: &mut WorkerThreads,
    progress: &Progress,
) -> Result<(), Error> {
    let connections = options.connections().iter().map(|(_, connections)| connections).sum::<usize>();
    progress.begin_phase("connections", connections as u64);
    for _ in 0..connections {
        threads.connection_opened().await?;
        progress.advance();
    }
    Ok(())
}

async fn measure(
    options: &Options,
    mut threads: WorkerThreads,
    stop: &CancellationToken,
    progress: &Progress,
) -> Result<Measured, Error> {
    let window = Window::new(Instant::now(), options.warmup, options.duration);
    threads.start(window);
    let totals = threads.totals();
    let show_progress = async {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = 0;
        loop {
            ticks.tick().await;
            let (succeeded, failed) = RunningTotals::sum(&totals);
            progress.show_run(&window, (succeeded - before) * TICKS_PER_SECOND, failed);
            before = succeeded;
        }
    };
    let measure_processor_time = async {
        let _stopped = stop.run_until_cancelled(sleep_until(window.counts_from.into())).await;
        let before = processor_time();
        let _stopped = stop.run_until_cancelled(sleep_until(window.end.into())).await;
        (processor_time().saturating_sub(before), window.counts_from.elapsed().min(options.duration))
    };
    tokio::select! {
        never = show_progress => never,
        (stats, (processor_time, time)) = async { tokio::join!(threads.stats(), measure_processor_time) } => {
            Ok(Measured { time, stats: stats?, processor_time, queues_left: Vec::new() })
        }
    }
}
