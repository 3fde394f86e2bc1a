//! Receives notifications from other processes: one channel for each watched queue, named after the
//! queue's first key, at the server that has the queue.
//!
//! Notifications are lost while there is no connection to that server. So a task renews each
//! subscription that was made on an earlier connection, or at a server that no longer has the
//! queue. Then it notifies all waiters of the queue.

use std::collections::HashMap;
use std::sync::{Arc, Once, Weak};
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::EventInterface;
use fred::types::Message;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::failure::{no_server_known, not_connected};
use super::listener::Listener;
use super::servers::{Server, Servers};
use crate::Error;
use crate::redis::keys::QueueKeys;
use crate::watch::Watchers;
use sukkal_domain::{QueueId, Rank};

/// How long a subscription is attempted. The last attempt may outlast it by a second.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_millis(900);
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);
/// Number of queues of a server that are subscribed to again at a time.
const SUBSCRIPTIONS_PER_BATCH: usize = 64;
/// Time between two attempts to renew subscriptions that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// All subscriptions of this process. Clones share them.
#[derive(Clone)]
pub(in crate::redis) struct Subscriber {
    servers: Servers,
    channels: Arc<Mutex<HashMap<String, Channel>>>,
    watchers: Watchers,
    /// Notified after each connection of a listener.
    connected: Arc<Notify>,
    start_renewal: Arc<Once>,
}

/// The channel of a watched queue.
struct Channel {
    queue: QueueId,
    /// The server of the last subscription, and the number of its connection.
    subscription: Option<(Weak<Server>, u64)>,
}

impl Subscriber {
    /// Connects to no server until a client waits.
    pub(in crate::redis) fn new(servers: Servers, watchers: Watchers) -> Self {
        let (channels, connected) = (Arc::default(), Arc::default());
        Self { servers, channels, watchers, connected, start_renewal: Arc::new(Once::new()) }
    }

    pub(in crate::redis) fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Notifies the watchers of everything that is published about the queue after this returns.
    pub(in crate::redis) async fn subscribe(&self, queue: &QueueId) -> Result<(), Error> {
        self.start_renewal.call_once(|| {
            self.servers.spawn(self.clone().renew_subscriptions());
        });
        let name = QueueKeys::of(queue).queue();
        self.channels
            .lock()
            .entry(name.clone())
            .or_insert_with(|| Channel { queue: queue.clone(), subscription: None });
        let deadline = Instant::now() + SUBSCRIBE_TIMEOUT;
        loop {
            match self.try_to_subscribe(&name).await {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= deadline => {
                    return Err(Error::Unavailable(format!("subscribe: {error}")));
                }
                // The connection is usually being made.
                Err(_) => sleep(PAUSE_BETWEEN_ATTEMPTS).await,
            }
        }
    }

    pub(in crate::redis) async fn unsubscribe(&self, queue: &QueueId) {
        let name = QueueKeys::of(queue).queue();
        let subscription = self.channels.lock().remove(&name).and_then(|channel| channel.subscription);
        if let Some(server) = subscription.and_then(|(server, _)| server.upgrade()) {
            self.listener(&server).unsubscribe(&name).await;
        }
    }

    async fn try_to_subscribe(&self, name: &str) -> Result<(), FredError> {
        let server = self.servers.of_slot(self.servers.slot(name)).ok_or_else(no_server_known)?;
        if server.pool.disconnected_for() > SUBSCRIBE_TIMEOUT {
            // Earlier commands have already waited for this server as long as they may.
            self.servers.refresh_soon();
            return Err(not_connected());
        }
        let listener = self.listener(&server);
        let connection = listener.subscribe(name).await.inspect_err(|_| self.servers.refresh_soon())?;
        let is_wanted = match self.channels.lock().get_mut(name) {
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
            Listener::open(&server.config, self.connected.clone(), |client| async move { this.receive(&client).await })
        })
    }

    /// Passes notifications on to the watchers.
    async fn receive(&self, client: &Client) {
        let mut messages = client.message_rx();
        loop {
            match messages.recv().await {
                Ok(message) => self.deliver(&message),
                Err(RecvError::Lagged(missed)) => {
                    warn!(missed, "notifications arrived too fast and some were missed; all waiters are notified");
                    let queues: Vec<QueueId> =
                        self.channels.lock().values().map(|channel| channel.queue.clone()).collect();
                    for queue in &queues {
                        self.watchers.notify_all(queue);
                    }
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn deliver(&self, message: &Message) {
        let queue = self.channels.lock().get(&*message.channel).map(|channel| channel.queue.clone());
        let notification = message.value.as_str().and_then(|payload| read_notification(&payload));
        if let (Some(queue), Some((available, older))) = (queue, notification) {
            self.watchers.notify(&queue, available, older);
        }
    }

    /// Renews subscriptions that have ended.
    async fn renew_subscriptions(self) {
        let mut changes = self.servers.changes();
        loop {
            tokio::select! {
                _either_way = changes.changed() => {}
                () = self.connected.notified() => {}
                () = sleep(RETRY_INTERVAL) => {}
            }
            join_all(self.ended_subscriptions().into_iter().map(|channels| self.resubscribe(channels))).await;
        }
    }

    /// Returns the channels whose subscription has ended, by the server that has their queue.
    fn ended_subscriptions(&self) -> Vec<Vec<(String, QueueId)>> {
        let mut by_server: HashMap<*const Server, Vec<(String, QueueId)>> = HashMap::new();
        for (name, channel) in &*self.channels.lock() {
            let server = self.servers.of_slot(self.servers.slot(name));
            if let (Some((subscribed_server, connection)), Some(server)) = (&channel.subscription, server)
                && !is_current(subscribed_server, *connection, &server)
            {
                by_server.entry(Arc::as_ptr(&server)).or_default().push((name.clone(), channel.queue.clone()));
            }
        }
        by_server.into_values().collect()
    }

    /// Subscribes again to queues of one server until an attempt fails, and notifies all their
    /// waiters.
    async fn resubscribe(&self, channels: Vec<(String, QueueId)>) {
        for batch in channels.chunks(SUBSCRIPTIONS_PER_BATCH) {
            let outcomes = join_all(batch.iter().map(async |(name, queue)| {
                self.try_to_subscribe(name).await.inspect(|()| self.watchers.notify_all(queue))
            }));
            if let Some(error) = outcomes.await.into_iter().find_map(Result::err) {
                warn!(%error, queues = channels.len(), "cannot renew subscriptions yet; until then waiters query at intervals");
                return;
            }
        }
    }
}

/// Returns whether a subscription is on the current connection to the server that has the queue.
fn is_current(subscribed_server: &Weak<Server>, connection: u64, server: &Arc<Server>) -> bool {
    subscribed_server.ptr_eq(&Arc::downgrade(server))
        && server.listener.get().is_some_and(|listener| listener.connection_number() == connection)
}

/// Reads a notification (`COUNT` or `COUNT RANK`): how many messages became available, and the
/// lowest rank of those that are not after all other messages.
fn read_notification(payload: &str) -> Option<(u64, Option<Rank>)> {
    let (available, rank) = match payload.split_once(' ') {
        Some((available, rank)) => (available, Some(rank.parse().ok().and_then(Rank::new)?)),
        None => (payload, None),
    };
    Some((available.parse().ok()?, rank))
}
