//! Finds the master of a Sentinel group, and notices a failover even while the old master answers.
//!
//! After a failover, the old master accepts writes until a Sentinel has made it a replica. That
//! takes ten seconds, or as long as the old master is cut off from the Sentinels, and the writes
//! are lost. So each Sentinel is asked several times a second.
//!
//! Sentinels may disagree, because one that is cut off from the others still names the old master.
//! Each failover has a higher configuration epoch than all before it. So the master of the highest
//! epoch is the right one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::ClientLike;
use fred::types::config::{Config, Server as Address};
use fred::types::{ClusterHash, CustomCommand, FromValue, Value};
use parking_lot::Mutex;
use tokio::time::sleep;
use tracing::{info, warn};

use super::{LOOKUP_CONNECT_TIMEOUT, Servers};
use crate::redis::connection::pool::PooledConnection;
use crate::redis::uri::{Credentials, shown};

/// Time between two questions to a Sentinel.
const QUERY_INTERVAL: Duration = Duration::from_millis(250);
/// How long the known master must be out of reach before another one of the same epoch, or of an
/// older one, is used. Such an answer is right only if the Sentinels were set up anew.
const MASTER_GIVEN_UP_AFTER: Duration = Duration::from_secs(5);

/// What the tasks of all Sentinels of a group know.
struct Group {
    /// The name of the master in the configuration of the Sentinels.
    name: String,
    sentinels: usize,
    state: Mutex<SentinelState>,
}

#[derive(Default)]
struct SentinelState {
    master: Option<Master>,
    /// Why a Sentinel cannot be used, by its address.
    failures: BTreeMap<String, String>,
}

/// A master that a Sentinel has named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Master {
    address: Address,
    /// The configuration epoch, or a lower one.
    epoch: u64,
}

impl Servers {
    /// Starts to follow what each of the Sentinels says about the master with this name.
    pub(super) fn follow_sentinels(&self, sentinels: &[Address], name: &str, credentials: &Credentials) {
        let (name, state) = (name.to_owned(), Mutex::default());
        let group = Arc::new(Group { name, sentinels: sentinels.len(), state });
        for address in sentinels {
            let Credentials { username, password } = credentials.clone();
            let config = Config { username, password, database: None, ..self.config_of(address) };
            self.spawn(self.clone().follow_sentinel(shown(address), config, group.clone()));
        }
    }

    async fn follow_sentinel(self, address: String, config: Config, group: Arc<Group>) {
        let connection = PooledConnection::open(&config);
        loop {
            match ask(&connection, &group.name).await {
                Ok(answer) => self.note_master(&group, &address, answer),
                Err(reason) => self.note_sentinel_failure(&group, &address, &reason),
            }
            sleep(QUERY_INTERVAL).await;
        }
    }

    fn note_master(&self, group: &Group, sentinel: &str, answer: Master) {
        let mut state = group.state.lock();
        if state.failures.remove(sentinel).is_some() {
            info!(sentinel, "the Sentinel can be used");
        }
        let is_lost = || self.disconnected_for(0) > MASTER_GIVEN_UP_AFTER;
        if replaces(state.master.as_ref(), &answer, is_lost) {
            *self.0.lookup_failure.lock() = None;
            if self.use_only(answer.address.clone()) {
                info!(
                    master = shown(&answer.address),
                    epoch = answer.epoch,
                    sentinel,
                    "the Sentinels name a new master"
                );
            }
            state.master = Some(answer);
        }
    }

    fn note_sentinel_failure(&self, group: &Group, sentinel: &str, reason: &str) {
        let mut state = group.state.lock();
        let is_new = state.failures.insert(sentinel.to_owned(), reason.to_owned()).is_none();
        if state.master.is_some() {
            if is_new {
                warn!(sentinel, reason, "a Sentinel cannot be used, so a failover may be noticed late");
            }
        } else if state.failures.len() == group.sentinels
            && let Some((first, reason)) = state.failures.first_key_value()
        {
            self.note_lookup_failure(format!("no Sentinel names the master {}: {first}: {reason}", group.name));
        }
    }
}

/// Returns whether an answer replaces what is known. `is_lost` says whether the known master has
/// been out of reach for long.
fn replaces(known: Option<&Master>, answer: &Master, is_lost: impl FnOnce() -> bool) -> bool {
    known.is_none_or(|known| answer.epoch > known.epoch || (answer.address != known.address && is_lost()))
}

/// Asks a Sentinel for the master.
async fn ask(connection: &PooledConnection, name: &str) -> Result<Master, String> {
    connection.wait_for_connection(LOOKUP_CONNECT_TIMEOUT).await.map_err(|reason| with_hint(&reason))?;
    let request = |word| async move { query(connection, word, name).await.map_err(|error| with_hint(error.details())) };
    // The epoch comes first. Then the address is at least as new, even if there is a failover in
    // between.
    let details: BTreeMap<String, String> = read(request("MASTER").await?)?;
    let epoch = details.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    let (host, port): (String, u16) = read(request("GET-MASTER-ADDR-BY-NAME").await?)?;
    let epoch = epoch.ok_or("its reply has no config-epoch")?;
    Ok(Master { address: Address::new(host, port), epoch })
}

async fn query(connection: &PooledConnection, word: &'static str, name: &str) -> Result<Value, FredError> {
    let command = CustomCommand::new_static("SENTINEL", ClusterHash::Random, false);
    let words = vec![Value::from(word), Value::from(name)];
    connection.attempt(|client: Client| async move { client.custom(command, words).await }).await
}

fn read<T: FromValue>(reply: Value) -> Result<T, String> {
    reply.convert().map_err(|error| format!("its reply cannot be read: {error}"))
}

/// Adds what the operator can do about the reason.
fn with_hint(reason: &str) -> String {
    let hint = if reason.contains("unknown command 'SENTINEL'") {
        "this is not a Sentinel; for a single server use redis://"
    } else if reason.contains("No such master") {
        "the name after the hosts must be that of a master in the configuration of the Sentinels"
    } else if ["NOAUTH", "WRONGPASS", "ERR AUTH"].iter().any(|word| reason.starts_with(word)) {
        "Sentinels get the user and password of the URI, unless it ends with ?sentinel_password=PASSWORD, or with \
         ?sentinel_password= for none"
    } else {
        return reason.to_owned();
    };
    format!("{reason}: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master(host: &str, epoch: u64) -> Master {
        Master { address: Address::new(host, 6_379), epoch }
    }

    #[test]
    fn the_master_of_the_highest_epoch_is_used() {
        let known = master("old", 4);
        let replaces_known = |answer, is_lost| replaces(Some(&known), &answer, || is_lost);

        assert!(replaces(None, &known, || false));
        assert!(replaces_known(master("new", 5), false));
        // Answers of a Sentinel that has not heard of the last failover.
        assert!(!replaces_known(master("new", 4), false));
        assert!(!replaces_known(master("older", 3), false));
        // The Sentinels were set up anew.
        assert!(replaces_known(master("newer", 0), true));
        assert!(!replaces_known(master("old", 0), true));
    }
}
