//! Receives what is published on a channel that concerns all servers of a store. A server of a
//! cluster receives what is published at any other, so one connection to any of them is enough.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::EventInterface;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::listener::Listener;
use super::servers::Servers;

/// Time between two checks of the subscription.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Passes on all that is published on the channel while there is a connection. What is published
/// in between is lost. Never ends.
pub(super) async fn follow_channel(
    servers: Servers,
    channel: &'static str,
    receive: impl Fn(&[u8]) + Clone + Send + 'static,
) {
    loop {
        follow_at_a_server(&servers, channel, receive.clone()).await;
        sleep(CHECK_INTERVAL).await;
    }
}

/// The same at one server, until it leaves the cluster or does not answer. The only server of a
/// store is never given up.
async fn follow_at_a_server(servers: &Servers, channel: &'static str, receive: impl Fn(&[u8]) + Send + 'static) {
    let Some(server) = servers.of_slot(servers.connected_slot()) else {
        return;
    };
    let connected = Arc::new(Notify::new());
    let listener = Listener::open(&server.config, connected.clone(), |client| pass_on(client, channel, receive));
    // The slot map drops a server that has left the cluster.
    let server = Arc::downgrade(&server);
    let mut subscription = None;
    while server.strong_count() > 0 {
        if !listener.is_connected() || subscription != Some(listener.connection_number()) {
            subscription = match listener.subscribe_everywhere(channel).await {
                Ok(connection_number) => Some(connection_number),
                Err(error) if servers.are_clustered() => {
                    debug!(%error, channel, "cannot subscribe to a channel; another server is tried");
                    return;
                }
                Err(_) => None,
            };
        }
        tokio::select! {
            () = connected.notified() => {}
            () = sleep(CHECK_INTERVAL) => {}
        }
    }
}

async fn pass_on(client: Client, channel: &'static str, receive: impl Fn(&[u8])) {
    let mut messages = client.message_rx();
    loop {
        match messages.recv().await {
            Ok(message) => {
                if let Some(payload) = message.value.as_bytes().filter(|_| *message.channel == *channel) {
                    receive(payload);
                }
            }
            Err(RecvError::Lagged(missed)) => {
                warn!(missed, channel, "signals arrived too fast and some were missed; the janitor sends them again");
            }
            Err(RecvError::Closed) => return,
        }
    }
}
