//! A connection to one server that receives only notifications, such as those on the channel of
//! each watched queue.
//!
//! A periodic `PING` detects a dead connection.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::{ClientLike, PubsubInterface};
use fred::types::config::{Config, PerformanceConfig};
use fred::types::{ClusterHash, CustomCommand, RespVersion, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use super::pool::{client, keep_connected};

/// Maximum number of notifications that wait to be delivered. If there are more, all waiters are
/// notified.
const NOTIFICATION_BUFFER_MAX: usize = 1_024;
/// Maximum duration of one command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two health checks of the connection.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The connection. It is closed when this is dropped.
pub(super) struct Listener {
    client: Client,
    /// Number of connections made so far.
    connections: watch::Receiver<u64>,
    _tasks: AbortOnDropHandle<()>,
}

impl Listener {
    /// Starts to connect. Each connection is announced through `connected_notify`. The future that
    /// `receive` returns handles the notifications; it runs until this is dropped.
    pub(super) fn open<F>(config: &Config, connected_notify: Arc<Notify>, receive: impl FnOnce(Client) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // RESP3 allows other commands on a connection that has subscriptions.
        let config = Config { version: RespVersion::RESP3, ..config.clone() };
        let performance =
            PerformanceConfig { broadcast_channel_capacity: NOTIFICATION_BUFFER_MAX, ..Default::default() };
        let client = client(&config, performance);
        let (counter, connections) = watch::channel(0);
        let connected = move || {
            counter.send_modify(|connections| *connections += 1);
            connected_notify.notify_one();
        };
        let (connected, health_check, receive) = (
            keep_connected(client.clone(), connected, |_reason| {}),
            check_health(client.clone()),
            receive(client.clone()),
        );
        let tasks = tokio::spawn(async move {
            tokio::join!(receive, connected, health_check);
        });
        Self { client, connections, _tasks: AbortOnDropHandle::new(tasks) }
    }

    /// Returns the number of the current connection, or of the last one. A subscription ends with
    /// its connection.
    pub(super) fn connection_number(&self) -> u64 {
        *self.connections.borrow()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.is_connected()
    }

    /// Subscribes to the channel of a queue. Notifications that are published after this returns
    /// are received.
    ///
    /// Returns the number of the connection that has the subscription.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<u64, FredError> {
        self.try_to_subscribe(channel, true).await
    }

    /// Subscribes to a channel that does not belong to a slot. Otherwise like `subscribe`.
    pub(super) async fn subscribe_everywhere(&self, channel: &str) -> Result<u64, FredError> {
        self.try_to_subscribe(channel, false).await
    }

    async fn try_to_subscribe(&self, channel: &str, belongs_to_slot: bool) -> Result<u64, FredError> {
        let elapsed = || FredError::new(ErrorKind::Timeout, "no answer in time");
        let subscribed = async {
            self.client.wait_for_connect().await?;
            let connection_number =
                *self.connections.clone().wait_for(|number| *number > 0).await.map_err(|_| elapsed())?;
            if belongs_to_slot {
                self.client.ssubscribe(channel.to_owned()).await?;
            } else {
                self.client.subscribe(channel.to_owned()).await?;
                // A subscription has no reply in `fred`. The reply to a later command on the same
                // connection shows that it is in effect.
                ping(&self.client).await?;
            }
            Ok(connection_number)
        };
        timeout(COMMAND_TIMEOUT, subscribed).await.unwrap_or_else(|_| Err(elapsed()))
    }

    pub(super) async fn unsubscribe(&self, channel: &str) {
        let unsubscribed = timeout(COMMAND_TIMEOUT, self.client.sunsubscribe(channel.to_owned())).await;
        debug!(?unsubscribed, channel, "unsubscribed from a queue that no client waits for");
    }
}

/// Replaces the connection whenever a `PING` gets no reply.
async fn check_health(client: Client) {
    loop {
        sleep(HEALTH_CHECK_INTERVAL).await;
        // `fred` gives a command up earlier than this.
        let is_silent = |error: &FredError| *error.kind() == ErrorKind::Timeout;
        if client.is_connected() && ping(&client).await.is_err_and(|error| is_silent(&error)) {
            warn!("a connection for notifications does not answer and is replaced");
            let _next_check_sees_the_outcome = client.force_reconnection().await;
        }
    }
}

async fn ping(client: &Client) -> Result<(), FredError> {
    let ping = CustomCommand::new_static("PING", ClusterHash::Random, false);
    client.custom::<Value, Value>(ping, Vec::new()).await.map(|_pong| ())
}
