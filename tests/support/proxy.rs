//! A TCP proxy that simulates faults: silence, closed or refused connections, or a reply that is
//! lost after the command ran.
//!
//! It runs on its own thread, so it forwards even while a test blocks or has paused tokio's clock.
//! When a method returns, the fault is in effect.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::waiting::{POLL_TIMEOUT, block_until};
use super::{lock, ports};

const CHUNK_BYTES: usize = 16 * 1024;

/// A proxy on a free port of 127.0.0.1. It closes all connections on drop.
pub struct Proxy {
    address: SocketAddr,
    relay: Relay,
    connections: Arc<Mutex<JoinSet<io::Result<()>>>>,
    /// `None` while connections are refused.
    listening: Mutex<Option<Listening>>,
    runtime: Option<Runtime>,
}

/// The listening socket, and the task that accepts connections from a second handle of it.
struct Listening {
    socket: StdListener,
    accept_task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy that forwards connections to `target`, which need not listen yet.
    pub fn start(target: SocketAddr) -> Self {
        let socket = ports::listen();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let proxy = Self {
            address: socket.local_addr().expect("a bound socket has an address"),
            relay: Relay {
                target: Arc::new(Mutex::new(target)),
                forwarding: watch::Sender::new(true),
                forwarding_replies: watch::Sender::new(true),
                replies_to_drop: Arc::default(),
            },
            connections: Arc::default(),
            listening: Mutex::new(None),
            runtime: Some(runtime.expect("a thread can be started")),
        };
        *proxy.listening() = Some(proxy.start_listening(socket));
        proxy
    }

    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns `SCHEME://127.0.0.1:PORT`.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }

    /// Forwards new connections to another server. Open connections continue.
    pub fn lead_to(&self, target: SocketAddr) {
        *lock(&self.relay.target) = target;
    }

    /// Stops forwarding everything, even the closing of a connection. Connections stay open, new
    /// ones are accepted, and received data is held back.
    pub fn black_hole(&self) {
        self.relay.forwarding.send_replace(false);
    }

    /// Holds back what the servers send. The commands arrive.
    pub fn hold_replies(&self) {
        self.relay.forwarding_replies.send_replace(false);
    }

    /// Ends `black_hole`, `hold_replies` and `refuse`, and forwards the data that was held back.
    /// Call `cut` first if the silent connections should be closed.
    pub fn restore(&self) {
        let mut listening = self.listening();
        if listening.is_none() {
            // Another process may try the port at this moment.
            let mut socket = None;
            block_until("the port is free again", || {
                socket = StdListener::bind(self.address).ok();
                socket.is_some()
            });
            *listening = socket.map(|socket| self.start_listening(socket));
        }
        self.relay.forwarding.send_replace(true);
        self.relay.forwarding_replies.send_replace(true);
    }

    /// Closes every connection at both ends, including those that are not accepted yet. New
    /// connections are accepted.
    pub fn cut(&self) {
        let mut connections = {
            let listening = self.listening();
            let mut connections = lock(&self.connections);
            if let Some(listening) = &*listening {
                while listening.socket.accept().is_ok() {}
            }
            std::mem::take(&mut *connections)
        };
        self.run(async move { connections.shutdown().await });
    }

    /// Discards the next `count` replies of any connections, and closes each of these connections.
    /// The commands were executed, but the clients cannot know.
    ///
    /// A reply is the data that the server sends at once. Replies to a client's handshake and pings
    /// count as well, and the replies of a pipeline may count as one.
    pub fn drop_replies(&self, count: usize) {
        self.relay.replies_to_drop.store(count, Ordering::SeqCst);
    }

    /// Returns how many replies `drop_replies` still has to discard. A test should see 0 at its
    /// end.
    pub fn replies_to_drop(&self) -> usize {
        self.relay.replies_to_drop.load(Ordering::SeqCst)
    }

    /// Refuses connections until `restore`. Open connections continue; use `cut` to close them.
    pub fn refuse(&self) {
        if let Some(Listening { socket, accept_task }) = self.listening().take() {
            drop(socket);
            accept_task.abort();
            // The task was aborted, unless the runtime has ended it.
            self.run(async move { drop(accept_task.await) });
        }
    }

    fn start_listening(&self, socket: StdListener) -> Listening {
        socket.set_nonblocking(true).expect("a socket can be set non-blocking");
        let listener = socket.try_clone().expect("a socket can be shared");
        let relay = self.relay.clone();
        let connections = Arc::clone(&self.connections);
        let accept_task = self.runtime().spawn(async move {
            let listener = TcpListener::from_std(listener).expect("tokio takes the socket");
            // Connections are accepted and registered under one lock, so that `cut` misses none.
            poll_fn(|context| {
                let mut connections = lock(&connections);
                while connections.try_join_next().is_some() {}
                while let Ok((client, _)) = ready!(listener.poll_accept(context)) {
                    connections.spawn(relay.clone().run(client));
                }
                Poll::Ready(())
            })
            .await;
        });
        Listening { socket, accept_task }
    }

    /// Runs a future on the proxy's thread and waits for it. The caller may be async itself, where
    /// `block_on` is not allowed.
    fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        let (done, end) = mpsc::channel();
        self.runtime().spawn(async move {
            future.await;
            done.send(()).expect("the caller waits");
        });
        end.recv_timeout(POLL_TIMEOUT).expect("the connections of the proxy close in time");
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it exists until the drop")
    }

    fn listening(&self) -> MutexGuard<'_, Option<Listening>> {
        lock(&self.listening)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // A plain drop would block, which panics in an async test.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The state that all connections share.
#[derive(Clone)]
struct Relay {
    target: Arc<Mutex<SocketAddr>>,
    forwarding: watch::Sender<bool>,
    forwarding_replies: watch::Sender<bool>,
    replies_to_drop: Arc<AtomicUsize>,
}

impl Relay {
    /// Serves one connection. Returning drops both sockets, which closes them.
    async fn run(self, client: TcpStream) -> io::Result<()> {
        self.until_forwarding().await;
        let target = *lock(&self.target);
        let server = TcpStream::connect(target).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::try_join!(
            self.pump(from_client, to_server, &self.forwarding, || false),
            self.pump(from_server, to_client, &self.forwarding_replies, || self.takes_one_to_drop()),
        )?;
        Ok(())
    }

    async fn pump(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        forwarding: &watch::Sender<bool>,
        loses: impl Fn() -> bool,
    ) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = from.read(&mut chunk).await;
            // The `?` comes after this, because a black hole hides errors as well as data.
            self.until_forwarding().await;
            until_true(forwarding).await;
            match read? {
                0 => return to.shutdown().await,
                _ if loses() => return Err(io::ErrorKind::ConnectionAborted.into()),
                length => to.write_all(&chunk[..length]).await?,
            }
        }
    }

    async fn until_forwarding(&self) {
        until_true(&self.forwarding).await;
    }

    fn takes_one_to_drop(&self) -> bool {
        let taken = self.replies_to_drop.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
        taken.is_ok()
    }
}

async fn until_true(forwarding: &watch::Sender<bool>) {
    forwarding.subscribe().wait_for(|&yes| yes).await.expect("the relay holds the sender");
}
