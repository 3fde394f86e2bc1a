//! The threads of a run, with the connections of each: opened first, then all started at the same moment.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet, LocalSet, spawn_blocking};
use tokio_util::sync::CancellationToken;

use super::Error;
use super::alarm::Alarm;
use super::connection::{Connection, Failure};
use super::options::Options;
use super::pacing::Pace;
use super::tally::{Kind, Tally, Window};
use super::traffic::Traffic;
use super::worker::{Desk, Live, Worker};

/// Connections that a thread opens at the same time: what a service's backlog surely holds.
const OPENING: usize = 32;

/// All threads of a run.
pub(super) struct Crew {
    threads: Vec<JoinHandle<Result<Tallies, Error>>>,
    start: watch::Sender<Option<Window>>,
    /// A message for each connection that has been opened, or cannot be.
    opened: mpsc::UnboundedReceiver<Result<(), Failure>>,
    live: Vec<Arc<Live>>,
}

/// One for each kind of request.
pub(super) type Tallies = [Tally; Kind::ALL.len()];

/// One connection's work.
#[derive(Clone, Copy)]
struct Post {
    kind: Kind,
    index: usize,
    connections: usize,
}

/// What a thread is given.
struct Orders {
    posts: Vec<Post>,
    address: SocketAddr,
    traffic: Arc<Traffic>,
    batch: u64,
    rate: Option<f64>,
    start: watch::Receiver<Option<Window>>,
    opened: mpsc::UnboundedSender<Result<(), Failure>>,
    stop: CancellationToken,
    live: Arc<Live>,
}

impl Crew {
    /// Starts the threads, which open their connections.
    pub(super) fn assemble(
        options: &Options,
        address: SocketAddr,
        traffic: &Arc<Traffic>,
        stop: &CancellationToken,
    ) -> Self {
        let (start, waits) = watch::channel(None);
        let (reports, opened) = mpsc::unbounded_channel();
        let posts: Vec<Post> = options.connections().into_iter().flat_map(posts).collect();
        let count = options.threads().min(posts.len()).max(1);
        let orders = |n| Orders {
            posts: posts.iter().skip(n).step_by(count).copied().collect(),
            address,
            traffic: traffic.clone(),
            batch: options.batch,
            rate: options.rate,
            start: waits.clone(),
            opened: reports.clone(),
            stop: stop.clone(),
            live: Arc::default(),
        };
        let orders: Vec<Orders> = (0..count).map(orders).collect();
        let live = orders.iter().map(|orders| orders.live.clone()).collect();
        let threads = orders.into_iter().map(|orders| spawn_blocking(|| orders.obey())).collect();
        Self { threads, start, opened, live }
    }

    /// Waits until a further connection is open.
    pub(super) async fn opened_one(&mut self) -> Result<(), Error> {
        self.opened.recv().await.unwrap_or(Ok(())).map_err(Error::Open)
    }

    /// Starts all connections.
    pub(super) fn start(&self, window: Window) {
        self.start.send_replace(Some(window));
    }

    /// What can be seen of the run while it goes on.
    pub(super) fn live(&self) -> Vec<Arc<Live>> {
        self.live.clone()
    }

    /// Waits for all threads, and adds up what they have counted.
    pub(super) async fn tallies(&mut self) -> Result<Tallies, Error> {
        let mut sum = [(); Kind::ALL.len()].map(|()| Tally::new());
        for thread in &mut self.threads {
            let tallies = thread.await.map_err(io::Error::from)??;
            for (sum, tally) in sum.iter_mut().zip(&tallies) {
                sum.add(tally);
            }
        }
        Ok(sum)
    }
}

impl Orders {
    fn obey(self) -> Result<Tallies, Error> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, self.work())
    }

    async fn work(mut self) -> Result<Tallies, Error> {
        let connections = stream::iter(&self.posts).map(|post| self.open(*post));
        let opening = connections.buffer_unordered(OPENING).try_collect();
        let connections: Vec<_> = self.stop.run_until_cancelled(opening).await.ok_or(Error::Interrupted)??;
        let window = tokio::select! {
            window = self.start.wait_for(Option::is_some) => window.ok().and_then(|window| *window),
            () = self.stop.cancelled() => None,
        };
        // Nobody starts what has been given up meanwhile.
        let window = window.ok_or(Error::Interrupted)?;
        let desk = Rc::new(Desk {
            traffic: self.traffic,
            batch: self.batch,
            window,
            alarm: Alarm::new()?,
            tallies: [(); Kind::ALL.len()].map(|()| Tally::new()).into(),
            live: self.live,
        });
        let mut workers = JoinSet::new();
        for (post, connection) in connections {
            let pace = Pace::new(self.rate, post.connections, post.index, &window);
            workers.spawn_local(Worker::new(post.kind, post.index, connection, pace, &desk).work());
        }
        tokio::select! {
            _ = workers.join_all() => {}
            broken = desk.alarm.keep() => broken?,
            () = self.stop.cancelled() => {}
        }
        let tallies = desk.tallies.borrow().clone();
        Ok(tallies)
    }

    async fn open(&self, post: Post) -> Result<(Post, Connection), Error> {
        let mut connection = Connection::to(self.address);
        let opened = connection.open().await;
        // Nobody listens any more only when the run is given up.
        let _counted = self.opened.send(opened);
        opened.map_err(Error::Open)?;
        Ok((post, connection))
    }
}

fn posts((kind, connections): (Kind, usize)) -> impl Iterator<Item = Post> {
    (0..connections).map(move |index| Post { kind, index, connections })
}
