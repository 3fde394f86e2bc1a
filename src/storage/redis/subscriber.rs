//! What other processes tell: a channel for each watched queue, which is named after the queue's first key, at the server that has the
//! queue.
//!
//! Notifications are lost while there is no connection to that server. So one task subscribes again to queues whose subscription was on
//! an earlier connection, or at a server that does not have the queue any more, and then everybody looks who waits there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::EventInterface;
use fred::types::Message;
use futures::future::join_all;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::failure::{no_server, not_connected};
use super::keys::QueueKeys;
use super::listener::Listener;
use super::servers::{Server, Servers};
use crate::domain::{QueueId, Rank};
use crate::storage::Error;
use crate::storage::watch::Watchers;

/// How long attempts to subscribe go on; the last may outlast it by a second.
const PATIENCE: Duration = Duration::from_millis(900);
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);
/// How many queues of a server are subscribed to again at a time.
const SUBSCRIBED_AT_ONCE: usize = 64;
/// How often subscriptions that failed are tried again.
const TRIED_AGAIN_EVERY: Duration = Duration::from_secs(1);

/// All subscriptions of this process. Clones are the same.
#[derive(Clone)]
pub(super) struct Subscriber {
    servers: Servers,
    channels: Arc<Mutex<HashMap<String, Channel>>>,
    watchers: Watchers,
    /// Notified after each connection of a listener.
    connected: Arc<Notify>,
    start: Arc<Once>,
}

/// The channel of a queue that is watched.
struct Channel {
    queue: QueueId,
    /// The server at which it was last subscribed to, and on which connection.
    subscription: Option<(Weak<Server>, u64)>,
}

impl Subscriber {
    /// Connects to nothing before somebody waits.
    pub(super) fn new(servers: Servers) -> Self {
        let (channels, watchers, connected) = (Arc::default(), Watchers::default(), Arc::default());
        Self { servers, channels, watchers, connected, start: Arc::new(Once::new()) }
    }

    pub(super) fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Has the watchers told of what is published about the queue, from when this returns.
    pub(super) async fn subscribe(&self, queue: &QueueId) -> Result<(), Error> {
        self.start.call_once(|| {
            tokio::spawn(self.clone().keep_subscribed());
        });
        let name = QueueKeys::of(queue).queue();
        self.channels().entry(name.clone()).or_insert_with(|| Channel { queue: queue.clone(), subscription: None });
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
        let subscription = self.channels().remove(&name).and_then(|channel| channel.subscription);
        if let Some(server) = subscription.and_then(|(server, _)| server.upgrade()) {
            self.listener(&server).unsubscribe(&name).await;
        }
    }

    async fn try_to_subscribe(&self, name: &str) -> Result<(), FredError> {
        let server = self.servers.of(self.servers.slot(name)).ok_or_else(no_server)?;
        if server.lines.cut_off_for() > PATIENCE {
            // Others have waited for it in vain.
            self.servers.may_have_changed();
            return Err(not_connected());
        }
        let listener = self.listener(&server);
        let connection = listener.subscribe(name).await.inspect_err(|_| self.servers.may_have_changed())?;
        let is_wanted = match self.channels().get_mut(name) {
            Some(channel) => {
                channel.subscription = Some((Arc::downgrade(&server), connection));
                true
            }
            None => false,
        };
        if !is_wanted {
            listener.unsubscribe(name).await;
        }
        Ok(())
    }

    fn listener<'a>(&self, server: &'a Arc<Server>) -> &'a Listener {
        server.listener.get_or_init(|| {
            let this = self.clone();
            Listener::open(&server.config, self.connected.clone(), |client| async move { this.hear(&client).await })
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

    /// Subscribes again where a subscription is over.
    async fn keep_subscribed(self) {
        let mut changes = self.servers.changes();
        loop {
            tokio::select! {
                _either_way = changes.changed() => {}
                () = self.connected.notified() => {}
                () = sleep(TRIED_AGAIN_EVERY) => {}
            }
            join_all(self.over().into_iter().map(|channels| self.subscribe_again(channels))).await;
        }
    }

    /// The channels whose subscription is over, by the server that has their queue.
    fn over(&self) -> Vec<Vec<(String, QueueId)>> {
        let mut by_server: HashMap<*const Server, Vec<(String, QueueId)>> = HashMap::new();
        for (name, channel) in &*self.channels() {
            let server = self.servers.of(self.servers.slot(name));
            if let (Some((at, connection)), Some(server)) = (&channel.subscription, server)
                && !is_current(at, *connection, &server)
            {
                by_server.entry(Arc::as_ptr(&server)).or_default().push((name.clone(), channel.queue.clone()));
            }
        }
        by_server.into_values().collect()
    }

    /// Subscribes again to queues of one server until an attempt fails, and has everybody look who waits for them.
    async fn subscribe_again(&self, channels: Vec<(String, QueueId)>) {
        for some in channels.chunks(SUBSCRIBED_AT_ONCE) {
            let outcomes = join_all(some.iter().map(async |(name, queue)| {
                self.try_to_subscribe(name).await.inspect(|()| self.watchers.tell_all(queue))
            }));
            if let Some(error) = outcomes.await.into_iter().find_map(Result::err) {
                warn!(%error, queues = channels.len(), "not subscribed again yet; waiters look now and then");
                return;
            }
        }
    }
}

/// Whether a subscription is on the connection that there is to the server that has the queue.
fn is_current(at: &Weak<Server>, connection: u64, server: &Arc<Server>) -> bool {
    at.ptr_eq(&Arc::downgrade(server))
        && server.listener.get().is_some_and(|listener| listener.connection() == connection)
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
