//! A TCP proxy that fails on command: silent, cut, refused, or a reply lost after the command ran.
//!
//! It runs on a thread of its own, so it forwards even while a test blocks or has paused tokio's
//! clock. When a method returns, its effect is there.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::ports;

const CHUNK_BYTES: usize = 16 * 1024;

/// A proxy on a free port of 127.0.0.1; closes everything on drop.
pub(crate) struct Proxy {
    address: SocketAddr,
    relay: Relay,
    connections: Arc<Mutex<JoinSet<io::Result<()>>>>,
    /// `None` while connections are refused.
    door: Mutex<Option<Door>>,
    runtime: Option<Runtime>,
}

/// The listening socket, and the task that accepts from a second handle of it.
struct Door {
    socket: StdListener,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    /// Forwards connections to `target`, which need not listen yet.
    pub(crate) fn start(target: SocketAddr) -> Self {
        let socket = ports::listen();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let proxy = Self {
            address: socket.local_addr().expect("a bound socket has an address"),
            relay: Relay { target, forwarding: watch::Sender::new(true), replies_to_drop: Arc::default() },
            connections: Arc::default(),
            door: Mutex::new(None),
            runtime: Some(runtime.expect("a thread can be started")),
        };
        *proxy.door() = Some(proxy.open_door(socket));
        proxy
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.address
    }

    /// `SCHEME://127.0.0.1:PORT`.
    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }

    /// Forwards nothing any more, not even that an end has closed: connections stay open, new ones
    /// are accepted, and what arrives is held back.
    pub(crate) fn black_hole(&self) {
        self.relay.forwarding.send_replace(false);
    }

    /// Ends `black_hole`, forwarding what was held back, and `refuse`. Call `cut` before, if the
    /// connections that fell silent shall not live on.
    pub(crate) fn restore(&self) {
        let mut door = self.door();
        if door.is_none() {
            let socket = StdListener::bind(self.address).expect("the port is still free");
            *door = Some(self.open_door(socket));
        }
        self.relay.forwarding.send_replace(true);
    }

    /// Closes every connection at both ends, also those not accepted yet. New ones are welcome.
    pub(crate) fn cut(&self) {
        let mut connections = {
            let door = self.door();
            let mut connections = lock(&self.connections);
            if let Some(door) = &*door {
                while door.socket.accept().is_ok() {}
            }
            std::mem::take(&mut *connections)
        };
        self.run(async move { connections.shutdown().await });
    }

    /// Swallows the next `count` replies, of whichever connection, and closes the connection of
    /// each: the command was carried out, but the client cannot know.
    ///
    /// A reply is what the server sends at once. A client's greetings and pings count as well, and
    /// the replies of a pipeline may count as one.
    pub(crate) fn drop_replies(&self, count: usize) {
        self.relay.replies_to_drop.store(count, Ordering::SeqCst);
    }

    /// How many of `drop_replies` are still to come; a test should see it at 0 in the end.
    pub(crate) fn replies_to_drop(&self) -> usize {
        self.relay.replies_to_drop.load(Ordering::SeqCst)
    }

    /// Stops listening, until `restore`. Open connections go on: `cut` them if they shall not.
    pub(crate) fn refuse(&self) {
        if let Some(Door { socket, acceptor }) = self.door().take() {
            drop(socket);
            acceptor.abort();
            // It was aborted, unless the runtime ended it.
            self.run(async move { drop(acceptor.await) });
        }
    }

    fn open_door(&self, socket: StdListener) -> Door {
        socket.set_nonblocking(true).expect("a socket can be set non-blocking");
        let listener = socket.try_clone().expect("a socket can be shared");
        let relay = self.relay.clone();
        let connections = Arc::clone(&self.connections);
        let acceptor = self.runtime().spawn(async move {
            let listener = TcpListener::from_std(listener).expect("tokio takes the socket");
            // Accepted and noted under one lock: `cut` misses no connection in between.
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
        Door { socket, acceptor }
    }

    /// Runs a future on the proxy's thread and waits for it. The caller may be async itself, where
    /// `block_on` is not allowed.
    fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        let (done, end) = mpsc::channel();
        self.runtime().spawn(async move {
            future.await;
            done.send(()).expect("the caller waits");
        });
        end.recv().expect("the future ends");
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("there until the drop")
    }

    fn door(&self) -> MutexGuard<'_, Option<Door>> {
        lock(&self.door)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // A plain drop would wait, and panics in an async test.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What every connection needs to know.
#[derive(Clone)]
struct Relay {
    target: SocketAddr,
    forwarding: watch::Sender<bool>,
    replies_to_drop: Arc<AtomicUsize>,
}

impl Relay {
    /// Serves one connection. Returning drops both sockets and so closes them.
    async fn run(self, client: TcpStream) -> io::Result<()> {
        self.until_forwarding().await;
        let server = TcpStream::connect(self.target).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::try_join!(
            self.pump(from_client, to_server, || false),
            self.pump(from_server, to_client, || self.takes_one_to_drop()),
        )?;
        Ok(())
    }

    async fn pump(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        loses: impl Fn() -> bool,
    ) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = from.read(&mut chunk).await;
            // Only then the `?`: in a black hole an error is no more visible than data.
            self.until_forwarding().await;
            match read? {
                0 => return to.shutdown().await,
                _ if loses() => return Err(io::ErrorKind::ConnectionAborted.into()),
                length => to.write_all(&chunk[..length]).await?,
            }
        }
    }

    async fn until_forwarding(&self) {
        let mut forwarding = self.forwarding.subscribe();
        forwarding.wait_for(|&yes| yes).await.expect("this relay holds the sender");
    }

    fn takes_one_to_drop(&self) -> bool {
        let taken = self.replies_to_drop.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
        taken.is_ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
