//! What other processes tell: one connection to each node on which nothing but news arrives, by a channel for
//! each watched queue, which is named after the queue's first key.
//!
//! News that were told while the connection was gone are lost, so when there is one again each queue is subscribed to
//! anew and everybody who waits looks. That a connection has died without a word is noticed by its not answering.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::{ClientLike, ClusterInterface, EventInterface, PubsubInterface};
use fred::types::cluster::ClusterRouting;
use fred::types::{ClusterHash, CustomCommand, Message, RespVersion, Value};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use super::connection::manner;
use super::keys::QueueKeys;
use super::uri::RedisUri;
use crate::domain::{QueueId, Rank};
use crate::storage::Error;
use crate::storage::watch::Watchers;

/// So many news may wait to be told; if there are more, everybody looks.
const NEWS_WAITING_MAX: usize = 8_192;
/// How long one command may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How long attempts to subscribe go on.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);
/// How long a client rests that has given up.
const REST: Duration = Duration::from_secs(1);
/// How often the other side is asked whether it lives.
const PULSE: Duration = Duration::from_secs(1);
/// After so many of these the map of a cluster is read again.
const MAP_READ_EVERY: u32 = 3;
/// From this version on channels can be of one node of a cluster.
const SHARDED_SINCE: u64 = 7;

/// The connection for news. Clones are the same.
#[derive(Clone)]
pub(super) struct Subscriber {
    client: Client,
    channels: Arc<Mutex<HashMap<String, QueueId>>>,
    watchers: Watchers,
    start: Arc<Once>,
}

impl Subscriber {
    /// A connection that is made when it is needed.
    pub(super) fn open(uri: &RedisUri) -> Self {
        let mut config = uri.config();
        // So that other commands than subscriptions go over a connection that has some.
        config.version = RespVersion::RESP3;
        let mut manner = manner();
        manner.performance.broadcast_channel_capacity = NEWS_WAITING_MAX;
        let client = Client::new(config, Some(manner.performance), Some(manner.connection), Some(manner.reconnect));
        Self { client, channels: Arc::default(), watchers: Watchers::default(), start: Arc::new(Once::new()) }
    }

    /// Begins to connect, when the first one waits.
    fn connect(&self) {
        self.start.call_once(|| {
            tokio::spawn(self.clone().hear());
            tokio::spawn(self.clone().begin_anew());
            tokio::spawn(self.clone().feel_the_pulse());
            let (driven, mut connecting) = (self.client.clone(), self.client.connect());
            tokio::spawn(async move {
                loop {
                    let end = connecting.await;
                    warn!(?end, "the connection for news was given up; it is tried again");
                    sleep(REST).await;
                    connecting = driven.connect();
                }
            });
        });
    }

    pub(super) fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Has the watchers told of what is published about the queue, from when this returns.
    pub(super) async fn subscribe(&self, queue: &QueueId) -> Result<(), Error> {
        self.connect();
        let channel = channel(queue);
        self.channels().insert(channel.clone(), queue.clone());
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self.try_to_subscribe(&channel).await {
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
        let channel = channel(queue);
        self.channels().remove(&channel);
        let unsubscribed = if self.is_sharded() {
            timeout(ATTEMPT, self.client.sunsubscribe(channel)).await
        } else {
            timeout(ATTEMPT, self.client.unsubscribe(channel)).await
        };
        debug!(?unsubscribed, %queue, "nobody waits here any more");
    }

    async fn try_to_subscribe(&self, channel: &str) -> Result<(), FredError> {
        let elapsed = || FredError::new(fred::error::ErrorKind::Timeout, "no answer in time");
        let subscribed = async {
            self.client.wait_for_connect().await?;
            if self.is_sharded() {
                return self.client.ssubscribe(channel.to_owned()).await;
            }
            self.client.subscribe(channel.to_owned()).await?;
            // A subscription is not answered; what is asked behind it on the same connection is.
            self.ask(legacy_slot(&self.client)).await
        };
        timeout(ATTEMPT, subscribed).await.unwrap_or_else(|_| Err(elapsed()))
    }

    async fn ask(&self, slot: ClusterHash) -> Result<(), FredError> {
        let ping = CustomCommand::new_static("PING", slot, false);
        self.client.custom::<Value, Value>(ping, Vec::new()).await.map(|_pong| ())
    }

    /// Whether the server has channels that belong to a slot; the scripts that publish decide alike.
    fn is_sharded(&self) -> bool {
        self.client.server_version().is_some_and(|version| version.major >= SHARDED_SINCE)
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<String, QueueId>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the watchers what is published.
    async fn hear(self) {
        let mut messages = self.client.message_rx();
        loop {
            match messages.recv().await {
                Ok(message) => self.tell(&message),
                Err(RecvError::Lagged(missed)) => {
                    warn!(missed, "news came faster than they could be told");
                    self.tell_all();
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn tell(&self, message: &Message) {
        let queue = self.channels().get(&*message.channel).cloned();
        let told = message.value.as_str().and_then(|payload| read_notification(&payload));
        if let (Some(queue), Some((freed, older))) = (queue, told) {
            self.watchers.tell(&queue, freed, older);
        }
    }

    fn tell_all(&self) {
        let queues: Vec<QueueId> = self.channels().values().cloned().collect();
        for queue in &queues {
            self.watchers.tell_all(queue);
        }
    }

    /// Subscribes to every queue again when a connection has come back, and has everybody look.
    async fn begin_anew(self) {
        let mut connections = self.client.reconnect_rx();
        let mut moves = self.client.cluster_change_rx();
        // The first connections are none that came back.
        while self.client.wait_for_connect().await.is_err() {
            sleep(REST).await;
        }
        while connections.try_recv().is_ok() || moves.try_recv().is_ok() {}
        loop {
            let is_over = tokio::select! {
                connected = connections.recv() => matches!(connected, Err(RecvError::Closed)),
                change = moves.recv() => matches!(change, Err(RecvError::Closed)),
            };
            if is_over {
                return;
            }
            let channels: Vec<(String, QueueId)> =
                self.channels().iter().map(|(channel, queue)| (channel.clone(), queue.clone())).collect();
            for (channel, queue) in channels {
                if let Err(error) = self.try_to_subscribe(&channel).await {
                    warn!(%error, %queue, "not subscribed again; whoever waits there looks now and then");
                }
                self.watchers.tell_all(&queue);
            }
        }
    }

    /// Replaces a connection that does not answer, and notices when parts of a cluster have moved.
    async fn feel_the_pulse(self) {
        for beat in 1_u32.. {
            sleep(PULSE).await;
            if self.channels().is_empty() || !self.client.is_connected() {
                continue;
            }
            for slot in self.one_of_each_node() {
                if timeout(ATTEMPT, self.ask(slot)).await.is_err() {
                    warn!("the connection for news is silent and is replaced");
                    let _next_pulse_tells = self.client.force_reconnection().await;
                    break;
                }
            }
            if self.client.is_clustered() && beat % MAP_READ_EVERY == 0 {
                self.follow_the_map().await;
            }
        }
    }

    /// Goes after channels that have moved with their slots, of which nobody is told.
    async fn follow_the_map(&self) {
        let question = CustomCommand::new_static("CLUSTER", ClusterHash::Random, false);
        let answer = self.client.custom::<Value, Value>(question, vec![Value::from("SLOTS")]);
        let Ok(Ok(Value::Array(ranges))) = timeout(ATTEMPT, answer).await else {
            return;
        };
        let is: Option<HashSet<_>> = ranges.into_iter().map(read_range).collect();
        let known = self.client.cached_cluster_state();
        let known = known.iter().flat_map(ClusterRouting::slots);
        let known = known.map(|range| (range.start, range.end, range.id.to_string())).collect();
        if is.is_some_and(|is| is != known) {
            // Which tells `begin_anew`.
            let followed = timeout(ATTEMPT, self.client.sync_cluster()).await;
            debug!(?followed, "the cluster has changed");
        }
    }

    fn one_of_each_node(&self) -> Vec<ClusterHash> {
        match self.client.cached_cluster_state() {
            Some(state) if self.client.is_clustered() => {
                let first_of_each: HashMap<_, _> =
                    state.slots().iter().map(|range| (range.primary.clone(), range.start)).collect();
                first_of_each.into_values().map(ClusterHash::Custom).collect()
            }
            _ => vec![ClusterHash::Random],
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

/// The first and last slot of a range, and the id of the node that has them.
fn read_range(range: Value) -> Option<(u16, u16, String)> {
    let mut parts = range.into_array().into_iter();
    let bounds = [parts.next()?, parts.next()?].map(|bound| bound.as_u64().and_then(|bound| u16::try_from(bound).ok()));
    let id = parts.next()?.into_array().into_iter().nth(2)?.into_string()?;
    Some((bounds[0]?, bounds[1]?, id))
}

/// Where fred sends subscriptions to channels of no slot.
fn legacy_slot(client: &Client) -> ClusterHash {
    ClusterHash::Custom(fred::util::redis_keyslot(client.id().as_bytes()))
}

fn channel(queue: &QueueId) -> String {
    QueueKeys::of(queue).queue()
}
