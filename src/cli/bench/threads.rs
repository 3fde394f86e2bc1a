//! The worker threads of a run. Each thread opens its connections, then all connections start at the
//! same moment.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet, LocalSet, spawn_blocking};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Failure};
use super::connection_loop::{ConnectionLoop, RunningTotals, ThreadState};
use super::error::Error;
use super::options::Options;
use super::pacing::Pace;
use super::server::Server;
use super::stats::{Kind, RequestStats, Window};
use super::timer::PreciseTimer;
use super::traffic::Traffic;

/// Maximum number of connections that a thread opens at the same time. Any service's backlog holds
/// as many.
const OPENED_AT_ONCE_MAX: usize = 32;

/// Maximum time for the requests in flight when a run is interrupted.
const LAST_REQUESTS_MAX: Duration = Duration::from_secs(2);

/// All threads of a run.
pub(super) struct WorkerThreads {
    threads: Vec<JoinHandle<Result<StatsByKind, Error>>>,
    start: watch::Sender<Option<Window>>,
    /// The outcome of opening, for each connection.
    opened: mpsc::UnboundedReceiver<Result<(), Failure>>,
    totals: Vec<Arc<RunningTotals>>,
}

/// The statistics of each kind of request, indexed by `Kind`.
pub(super) type StatsByKind = [RequestStats; Kind::ALL.len()];

/// What one connection does.
#[derive(Clone, Copy)]
struct Assignment {
    kind: Kind,
    /// The number of this connection among those of its kind, from 0.
    index: usize,
    /// Number of connections of this kind in all threads.
    connections: usize,
}

/// The work of one thread.
struct ThreadTask {
    assignments: Vec<Assignment>,
    server: Server,
    traffic: Arc<Traffic>,
    batch: u64,
    rate: Option<f64>,
    start: watch::Receiver<Option<Window>>,
    opened: mpsc::UnboundedSender<Result<(), Failure>>,
    stop: CancellationToken,
    totals: Arc<RunningTotals>,
}

impl WorkerThreads {
    /// Starts the threads, which open their connections.
    pub(super) fn spawn(options: &Options, server: &Server, traffic: &Arc<Traffic>, stop: &CancellationToken) -> Self {
        let (start, started) = watch::channel(None);
        let (opened_sender, opened) = mpsc::unbounded_channel();
        let assignments: Vec<Assignment> = options.connections().into_iter().flat_map(assignments_of).collect();
        let count = options.threads().min(assignments.len()).max(1);
        let task = |n| ThreadTask {
            assignments: assignments.iter().skip(n).step_by(count).copied().collect(),
            server: server.clone(),
            traffic: traffic.clone(),
            batch: options.batch,
            rate: options.rate,
            start: started.clone(),
            opened: opened_sender.clone(),
            stop: stop.clone(),
            totals: Arc::default(),
        };
        let tasks: Vec<ThreadTask> = (0..count).map(task).collect();
        let totals = tasks.iter().map(|task| task.totals.clone()).collect();
        let threads = tasks.into_iter().map(|task| spawn_blocking(|| task.run())).collect();
        Self { threads, start, opened, totals }
    }

    /// Waits until another connection is open.
    pub(super) async fn connection_opened(&mut self) -> Result<(), Error> {
        self.opened.recv().await.unwrap_or(Ok(())).map_err(Error::Open)
    }

    /// Starts all connections.
    pub(super) fn start(&self, window: Window) {
        self.start.send_replace(Some(window));
    }

    /// The running totals of each thread.
    pub(super) fn totals(&self) -> Vec<Arc<RunningTotals>> {
        self.totals.clone()
    }

    /// Waits for all threads, and returns the sum of their statistics.
    pub(super) async fn stats(&mut self) -> Result<StatsByKind, Error> {
        let mut sum = [(); Kind::ALL.len()].map(|()| RequestStats::new());
        for thread in &mut self.threads {
            let stats = thread.await.map_err(io::Error::from)??;
            for (sum, stats) in sum.iter_mut().zip(&stats) {
                sum.merge(stats);
            }
        }
        Ok(sum)
    }
}

impl ThreadTask {
    fn run(self) -> Result<StatsByKind, Error> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, self.run_connections())
    }

    async fn run_connections(mut self) -> Result<StatsByKind, Error> {
        let connections = stream::iter(&self.assignments).map(|assignment| self.open(*assignment));
        let opening = connections.buffer_unordered(OPENED_AT_ONCE_MAX).try_collect();
        let connections: Vec<_> = self.stop.run_until_cancelled(opening).await.ok_or(Error::Interrupted)??;
        let window = tokio::select! {
            window = self.start.wait_for(Option::is_some) => window.ok().and_then(|window| *window),
            () = self.stop.cancelled() => None,
        };
        // The sender is dropped without a start if the run was given up.
        let window = window.ok_or(Error::Interrupted)?;
        let thread = Rc::new(ThreadState {
            traffic: self.traffic,
            batch: self.batch,
            window,
            stop: self.stop.clone(),
            timer: PreciseTimer::new()?,
            stats: [(); Kind::ALL.len()].map(|()| RequestStats::new()).into(),
            totals: self.totals,
        });
        let mut loops = JoinSet::new();
        for (Assignment { kind, index, connections }, connection) in connections {
            let pace = Pace::new(self.rate, connections, index, &window);
            loops.spawn_local(ConnectionLoop::new(kind, index, connection, pace, &thread).run());
        }
        tokio::select! {
            _ = loops.join_all() => {}
            error = thread.timer.run() => error?,
            // A post that is still on its way would create its queue again after the queue is deleted.
            () = async { self.stop.cancelled().await; sleep(LAST_REQUESTS_MAX).await } => {}
        }
        let stats = thread.stats.borrow().clone();
        Ok(stats)
    }

    async fn open(&self, assignment: Assignment) -> Result<(Assignment, Connection), Error> {
        let mut connection = Connection::to(&self.server);
        let opened = connection.open().await;
        // The receiver is dropped if the run is given up.
        let _sent = self.opened.send(opened);
        opened.map_err(Error::Open)?;
        Ok((assignment, connection))
    }
}

fn assignments_of((kind, connections): (Kind, usize)) -> impl Iterator<Item = Assignment> {
    (0..connections).map(move |index| Assignment { kind, index, connections })
}
