//! Checks once whether a server, cluster or Sentinel group can be used.

use std::future::pending;
use std::time::Duration;

use fred::error::Error as FredError;
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::config::{Config, PerformanceConfig};
use fred::types::{ClusterHash, CustomCommand, Value};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::pool::client;
use super::sentinel_probe::explain;

/// Maximum duration of a check.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Connects and sends a `PING`. Returns the first failure.
pub(in crate::storage::redis) async fn check(config: &Config) -> Result<(), String> {
    let client = client(config, PerformanceConfig::default());
    let mut failures = client.error_rx();
    let _connecting = AbortOnDropHandle::new(client.connect());
    let ping = async {
        client.wait_for_connect().await?;
        let command = CustomCommand::new_static("PING", ClusterHash::Random, false);
        client.custom::<Value, Value>(command, Vec::new()).await
    };
    let failure = async {
        match failures.recv().await {
            Ok((failure, _server)) => explain(config, failure).await,
            Err(_closed) => pending().await,
        }
    };
    let outcome = Box::pin(async {
        tokio::select! {
            biased;
            failure = failure => Err(failure),
            reply = ping => reply.map(|_pong| ()),
        }
    });
    match timeout(TIMEOUT, outcome).await {
        Ok(outcome) => outcome.map_err(|failure: FredError| failure.details().to_owned()),
        Err(_elapsed) => Err("there is no answer".to_owned()),
    }
}
