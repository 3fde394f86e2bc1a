//! What other processes tell: a channel for each watched queue, which is named after the queue's first key, at the server that has the
//! queue.
//!
//! Notifications are lost while there is no connection to that server, so when there is one again each queue is subscribed to
//! anew and everybody who waits looks; so they do when a queue has moved to another server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::Message;
use futures::future::join_all;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::failure::no_server;
use super::keys::QueueKeys;
use super::listener::Listener;
use super::servers::{Server, Servers};
use crate::domain::{QueueId, Rank};
use crate::storage::Error;
use crate::storage::watch::Watchers;

/// How long attempts to subscribe go on.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);
/// How many queues are subscribed to anew at a time.
const SUBSCRIBED_AT_ONCE: usize = 64;
/// How long to wait with a client that has given up.
const REST: Duration = Duration::from_secs(1);

/// All subscriptions of this process. Clones are the same.
#[derive(Clone)]
pub(super) struct Subscriber {
    servers: Servers,
    channels: Arc<Mutex<HashMap<String, Channel>>>,
    watchers: Watchers,
    start: Arc<Once>,
}

/// The channel of a queue that is watched.
struct Channel {
    queue: QueueId,
    /// The server at which it was last subscribed to.
    server: Option<Weak<Server>>,
}

impl Subscriber {
    /// Connects to nothing before somebody waits.
    pub(super) fn new(servers: Servers) -> Self {
        Self { servers, channels: Arc::default(), watchers: Watchers::default(), start: Arc::new(Once::new()) }
    }

    pub(super) fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Has the watchers told of what is published about the queue, from when this returns.
    pub(super) async fn subscribe(&self, queue: &QueueId) -> Result<(), Error> {
        self.start.call_once(|| {
            tokio::spawn(self.clone().follow_moves());
        });
        let name = QueueKeys::of(queue).queue();
        self.channels().insert(name.clone(), Channel { queue: queue.clone(), server: None });
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self.try_to_subscribe(&name).await {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= give_up => {
                    return Err(Error::Unavailable(format!("subscribe: {error}")));
                }
                // As a rule the connection is being made.
                Err(_) => sleep(PAUSE_BETWEEN_ATTEMPTS).await,
            }
        }
    }

    pub(super) async fn unsubscribe(&self, queue: &QueueId) {
        let name = QueueKeys::of(queue).queue();
        let channel = self.channels().remove(&name);
        if let Some(server) = channel.and_then(|channel| channel.server?.upgrade()) {
            self.listener(&server).unsubscribe(&name).await;
        }
    }

    async fn try_to_subscribe(&self, name: &str) -> Result<(), FredError> {
        let server = self.servers.of(self.servers.slot(name)).ok_or_else(no_server)?;
        let subscribed = self.listener(&server).subscribe(name).await;
        match &subscribed {
            Ok(()) => {
                if let Some(channel) = self.channels().get_mut(name) {
                    channel.server = Some(Arc::downgrade(&server));
                }
            }
            Err(_) => self.servers.may_have_changed(),
        }
        subscribed
    }

    fn listener<'a>(&self, server: &'a Arc<Server>) -> &'a Listener {
        server.listener.get_or_init(|| {
            let (this, of) = (self.clone(), Arc::downgrade(server));
            Listener::open(&server.config, |client| async move {
                tokio::join!(this.hear(&client), this.subscribe_after_reconnections(&client, &of));
            })
        })
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<String, Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the watchers what is published.
    async fn hear(&self, client: &Client) {
        let mut messages = client.message_rx();
        loop {
            match messages.recv().await {
                Ok(message) => self.tell(&message),
                Err(RecvError::Lagged(missed)) => {
                    warn!(missed, "notifications came faster than they could be told");
                    let queues: Vec<QueueId> = self.channels().values().map(|channel| channel.queue.clone()).collect();
                    for queue in &queues {
                        self.watchers.tell_all(queue);
                    }
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn tell(&self, message: &Message) {
        let queue = self.channels().get(&*message.channel).map(|channel| channel.queue.clone());
        let told = message.value.as_str().and_then(|payload| read_notification(&payload));
        if let (Some(queue), Some((freed, older))) = (queue, told) {
            self.watchers.tell(&queue, freed, older);
        }
    }

    /// Subscribes to the queues of a server again when a connection to it has come back.
    async fn subscribe_after_reconnections(&self, client: &Client, server: &Weak<Server>) {
        let mut connections = client.reconnect_rx();
        // The first connection is none that came back.
        while client.wait_for_connect().await.is_err() {
            sleep(REST).await;
        }
        while connections.try_recv().is_ok() {}
        while !matches!(connections.recv().await, Err(RecvError::Closed)) {
            self.subscribe_again(|_name, at| at.ptr_eq(server)).await;
        }
    }

    /// Goes after queues that have moved to another server with their slots.
    async fn follow_moves(self) {
        let mut changes = self.servers.changes();
        while changes.changed().await.is_ok() {
            let has_moved = |name: &str, at: &Weak<Server>| {
                let server = self.servers.of(self.servers.slot(name));
                server.is_some_and(|server| !at.ptr_eq(&Arc::downgrade(&server)))
            };
            self.subscribe_again(has_moved).await;
        }
    }

    /// Subscribes again to the concerned ones of the queues that are subscribed to at some server, and has everybody look who waits
    /// for them.
    async fn subscribe_again(&self, is_concerned: impl Fn(&str, &Weak<Server>) -> bool) {
        let concerned: Vec<(String, QueueId)> = self
            .channels()
            .iter()
            .filter(|(name, channel)| channel.server.as_ref().is_some_and(|at| is_concerned(name, at)))
            .map(|(name, channel)| (name.clone(), channel.queue.clone()))
            .collect();
        for some in concerned.chunks(SUBSCRIBED_AT_ONCE) {
            join_all(some.iter().map(async |(name, queue)| {
                if let Err(error) = self.try_to_subscribe(name).await {
                    warn!(%error, %queue, "not subscribed again; whoever waits there looks now and then");
                }
                self.watchers.tell_all(queue);
            }))
            .await;
        }
    }
}

/// Reads a notification: how many messages became available, and the lowest rank of those among them that are not
/// behind all others (`FREED` or `FREED RANK`).
fn read_notification(payload: &str) -> Option<(u64, Option<Rank>)> {
    let (freed, rank) = match payload.split_once(' ') {
        Some((freed, rank)) => (freed, Some(rank.parse().ok().and_then(Rank::new)?)),
        None => (payload, None),
    };
    Some((freed.parse().ok()?, rank))
}
