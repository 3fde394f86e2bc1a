//! A connection to one server on which nothing but notifications arrives, by a channel for each queue that is watched.
//!
//! That it has died without a word is noticed by its not answering.

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

use super::line::{client, keep_connected};

/// So many notifications may wait to be told; if there are more, everybody looks.
const NOTIFICATIONS_WAITING_MAX: usize = 1_024;
/// How long one command may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How often the server is asked whether it lives.
const PULSE: Duration = Duration::from_secs(1);
/// From this version on channels can be of one server of a cluster.
const SHARDED_SINCE: u64 = 7;

/// The connection. It ends when this is dropped.
pub(super) struct Listener {
    client: Client,
    /// The number of connections so far.
    connections: watch::Receiver<u64>,
    _tasks: AbortOnDropHandle<()>,
}

impl Listener {
    /// Begins to connect. Each connection is announced. What is heard is for `hear`, which runs for as long as this exists.
    pub(super) fn open<F>(config: &Config, announced: Arc<Notify>, hear: impl FnOnce(Client) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // So that other commands than subscriptions go over a connection that has some.
        let config = Config { version: RespVersion::RESP3, ..config.clone() };
        let performance =
            PerformanceConfig { broadcast_channel_capacity: NOTIFICATIONS_WAITING_MAX, ..Default::default() };
        let client = client(&config, performance);
        let (counter, connections) = watch::channel(0);
        let connected = move || {
            counter.send_modify(|connections| *connections += 1);
            announced.notify_one();
        };
        let (connected, pulse, hear) = (
            keep_connected(client.clone(), connected, |_reason| {}),
            feel_the_pulse(client.clone()),
            hear(client.clone()),
        );
        let tasks = tokio::spawn(async move {
            tokio::join!(hear, connected, pulse);
        });
        Self { client, connections, _tasks: AbortOnDropHandle::new(tasks) }
    }

    /// Which connection there is, or was last. Subscriptions are of one connection.
    pub(super) fn connection(&self) -> u64 {
        *self.connections.borrow()
    }

    /// Notifications of this channel are heard from when this returns, on the connection that it returns.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<u64, FredError> {
        let elapsed = || FredError::new(ErrorKind::Timeout, "no answer in time");
        let subscribed = async {
            self.client.wait_for_connect().await?;
            let connection = *self.connections.clone().wait_for(|number| *number > 0).await.map_err(|_| elapsed())?;
            if self.is_sharded() {
                self.client.ssubscribe(channel.to_owned()).await?;
            } else {
                self.client.subscribe(channel.to_owned()).await?;
                // A subscription is not answered; what is asked behind it on the same connection is.
                ask(&self.client).await?;
            }
            Ok(connection)
        };
        timeout(ATTEMPT, subscribed).await.unwrap_or_else(|_| Err(elapsed()))
    }

    pub(super) async fn unsubscribe(&self, channel: &str) {
        let unsubscribed = if self.is_sharded() {
            timeout(ATTEMPT, self.client.sunsubscribe(channel.to_owned())).await
        } else {
            timeout(ATTEMPT, self.client.unsubscribe(channel.to_owned())).await
        };
        debug!(?unsubscribed, channel, "nobody waits here any more");
    }

    /// Whether the server has channels that belong to a slot; the scripts that publish decide alike.
    fn is_sharded(&self) -> bool {
        self.client.server_version().is_some_and(|version| version.major >= SHARDED_SINCE)
    }
}

/// Replaces a connection that does not answer.
async fn feel_the_pulse(client: Client) {
    loop {
        sleep(PULSE).await;
        // `fred` itself gives a command up earlier.
        let is_silent = |error: &FredError| *error.kind() == ErrorKind::Timeout;
        if client.is_connected() && ask(&client).await.is_err_and(|error| is_silent(&error)) {
            warn!("a connection for notifications is silent and is replaced");
            let _next_pulse_tells = client.force_reconnection().await;
        }
    }
}

async fn ask(client: &Client) -> Result<(), FredError> {
    let ping = CustomCommand::new_static("PING", ClusterHash::Random, false);
    client.custom::<Value, Value>(ping, Vec::new()).await.map(|_pong| ())
}
