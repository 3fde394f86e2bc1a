//! A run from beginning to end: queues, messages to find, connections, warm-up, the time that counts, and clearing up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Error;
use super::crew::{Crew, Tallies};
use super::options::Options;
use super::process::{allow_connections, processor_time};
use super::progress::{Progress, TICK, TICKS_PER_SECOND};
use super::stage::Stage;
use super::tally::Window;
use super::target::Client;
use super::traffic::Traffic;
use super::worker::Live;

/// What a run has found out.
pub(super) struct Measured {
    /// The length of what was counted; shorter than asked for if the run was cut short.
    pub(super) time: Duration,
    pub(super) tallies: Tallies,
    /// What this process itself has used in that time.
    pub(super) processor_time: Duration,
    /// Queues that should have been deleted.
    pub(super) left: Vec<String>,
}

/// Runs; `stop` cuts it short.
pub(super) async fn run(options: &Options, stop: &CancellationToken) -> Result<Measured, Error> {
    let client = Client::new(&options.url, &options.project);
    let prefix =
        options.queue.clone().unwrap_or_else(|| format!("bench-{}", &Uuid::new_v4().simple().to_string()[..8]));
    let queues: Vec<String> = (0..options.queues()).map(|n| format!("{prefix}-{n}")).collect();
    let traffic = Arc::new(Traffic::new(options, &client, &queues)?);
    allow_connections(options.connections().iter().map(|(_, connections)| connections).sum())?;
    let unreachable = |source| Error::Unreachable { url: options.url.to_string(), source };
    let address = options.url.find().await.map_err(unreachable)?;
    let progress = Progress::new();
    let stage = Stage::new(address, &traffic);

    let set_up = async {
        stage.create(&progress).await?;
        stage.fill(options.prefill(), &progress).await?;
        let mut crew = Crew::assemble(options, address, &traffic, stop);
        open(options, &mut crew, &progress).await?;
        Ok(crew)
    };
    let outcome = match stop.run_until_cancelled(set_up).await {
        Some(Ok(crew)) => measure(options, crew, stop, &progress).await,
        Some(Err(error)) => Err(error),
        None => Err(Error::Interrupted),
    };
    // Whatever is still waiting to begin need not.
    stop.cancel();
    let left = stage.clear(&progress).await;
    progress.done();
    outcome.map(|measured| Measured { left, ..measured })
}

async fn open(options: &Options, crew: &mut Crew, progress: &Progress) -> Result<(), Error> {
    let connections = options.connections().iter().map(|(_, connections)| connections).sum::<usize>();
    progress.stage("connections", connections as u64);
    for _ in 0..connections {
        crew.opened_one().await?;
        progress.step();
    }
    Ok(())
}

async fn measure(
    options: &Options,
    mut crew: Crew,
    stop: &CancellationToken,
    progress: &Progress,
) -> Result<Measured, Error> {
    let window = Window::new(Instant::now(), options.warmup, options.duration);
    crew.start(window);
    let threads = crew.live();
    let show = async {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = 0;
        loop {
            ticks.tick().await;
            let (answered, failed) = Live::sum(&threads);
            progress.run(&window, (answered - before) * TICKS_PER_SECOND, failed);
            before = answered;
        }
    };
    let used = async {
        let _stopped = stop.run_until_cancelled(sleep_until(window.counts_from.into())).await;
        let before = processor_time();
        let _stopped = stop.run_until_cancelled(sleep_until(window.end.into())).await;
        (processor_time().saturating_sub(before), window.counts_from.elapsed().min(options.duration))
    };
    tokio::select! {
        never = show => never,
        (tallies, (processor_time, time)) = async { tokio::join!(crew.tallies(), used) } => {
            Ok(Measured { time, tallies: tallies?, processor_time, left: Vec::new() })
        }
    }
}
