//! Signals that work may be due for the deliveries of a queue (`storage/deliveries.rs`). Scripts
//! publish them to all processes on one channel: see `scripts/shared/delivery_signal.lua`.
//!
//! If the delivery lease of the queue is live, only its holder needs the signal. Otherwise one
//! process should act at once. Processes know each other by heartbeats on the same channel, and
//! each computes which of them is chosen for the queue (rendezvous hashing).
//!
//! If a process is lost, its leases expire at most [`DELIVERY_LEASE_DURATION`] later. Then one of
//! the other processes visits all due queues, because the next visit of the janitor may be much
//! later. A process does this after its start, too: it may be the successor of a lost one.

use std::collections::HashMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};
use tracing::debug;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::connection::{Connection, Version};
use super::keys::{self, SIGNAL_CHANNEL};
use crate::DeliverySignal;
use crate::deliveries::{DELIVERY_LEASE_DURATION, SIGNALS_MAX};
use sukkal_domain::QueueId;

/// Time between two heartbeats of a process.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Time after its last heartbeat for which a process counts as live.
const HEARTBEAT_LIFETIME: Duration = Duration::from_secs(3);
/// Begins what a process publishes after its heartbeats while the store has an earlier layout.
/// Processes of earlier releases ignore it.
const UPGRADED: &str = "layout-4 ";
/// Names the visit of due queues where processes compute which of them is chosen. No hash tag is
/// empty.
const VISIT: &str = "";
/// Begins a heartbeat, and separates the parts of a payload. No hash tag contains it.
const SEPARATOR: char = ' ';

/// The signals that this process receives. Clones share them.
#[derive(Clone)]
pub(super) struct Signals(Arc<SharedSignals>);

struct SharedSignals {
    /// Id of this process.
    id: Uuid,
    sender: broadcast::Sender<DeliverySignal>,
    /// Other processes.
    peers: Mutex<HashMap<Uuid, Peer>>,
    /// The holders that took the delivery lease of a queue through this store and have not ended
    /// it.
    holders: Mutex<HashMap<QueueId, Uuid>>,
    start: Once,
    connection: Mutex<Connected>,
}

/// What this process knows of another one.
struct Peer {
    /// When its last heartbeat was received.
    heard: Instant,
    /// Whether it can use the layout of this release.
    is_upgraded: bool,
}

impl Peer {
    fn is_live(&self) -> bool {
        self.heard.elapsed() <= HEARTBEAT_LIFETIME
    }
}

/// What this process knows of its connection to the store and of lost processes.
struct Connected {
    /// When this process has received its last heartbeat.
    heard_at: Instant,
    /// From when it takes leases that lost holders have not ended.
    replaces_from: Instant,
    /// When all leases of lost holders will have expired.
    visit_at: Option<Instant>,
}

impl Connected {
    /// Returns the state of a process that starts now.
    fn new() -> Self {
        let now = Instant::now();
        Self { heard_at: now, replaces_from: now, visit_at: Some(now + DELIVERY_LEASE_DURATION) }
    }
}

impl Signals {
    /// Receives nothing until there is a receiver.
    pub(super) fn new(id: Uuid) -> Self {
        let (sender, _) = broadcast::channel(SIGNALS_MAX);
        let ((peers, holders), connection) = (Default::default(), Mutex::new(Connected::new()));
        Self(Arc::new(SharedSignals { id, sender, peers, holders, start: Once::new(), connection }))
    }

    /// Returns a receiver of all signals from now on. The first call starts to subscribe. `visit`
    /// visits the due queues after the loss of a process.
    pub(super) fn receiver(
        &self,
        connection: &Connection,
        visit: impl Fn() + Send + 'static,
    ) -> broadcast::Receiver<DeliverySignal> {
        self.0.start.call_once(|| {
            *self.0.connection.lock() = Connected::new();
            let (this, database) = (self.clone(), connection.servers.database());
            let receive = move |payload: &[u8]| this.receive(payload, database);
            connection.follow(SIGNAL_CHANNEL, receive);
            connection.servers.spawn(self.clone().send_heartbeats(connection.clone(), visit));
        });
        self.0.sender.subscribe()
    }

    /// Signals that work is due in a queue to the receivers of this process, which should act at
    /// once.
    pub(super) fn send_own(&self, queue: &QueueId) {
        self.send(DeliverySignal { queue: queue.clone(), is_own: true });
    }

    /// Records that this holder has the delivery lease of a queue.
    pub(super) fn note_holder(&self, queue: &QueueId, holder: Uuid) {
        self.0.holders.lock().insert(queue.clone(), holder);
    }

    /// Records that no holder of this process has the delivery lease of a queue.
    pub(super) fn forget_holder(&self, queue: &QueueId) {
        self.0.holders.lock().remove(queue);
    }

    /// Returns whether this process takes leases that lost holders have not ended. After an outage
    /// of the store, it gives them time to renew their leases first.
    pub(super) fn replaces_lost_holders(&self) -> bool {
        let connection = self.0.connection.lock();
        let is_connected =
            connection.heard_at.elapsed() <= HEARTBEAT_LIFETIME && Instant::now() >= connection.replaces_from;
        // Without signals, nothing is known of outages.
        is_connected || !self.0.start.is_completed()
    }

    fn receive(&self, payload: &[u8], database: u8) {
        let separator = SEPARATOR as u8;
        let (tag, rest) = match payload.iter().position(|byte| *byte == separator) {
            Some(at) => (&payload[..at], Some(&payload[at + 1..])),
            None => (payload, None),
        };
        match (tag, rest) {
            (b"", heartbeat) => self.note_heartbeat(heartbeat.unwrap_or_default(), database),
            (tag, holder) => {
                let tag = str::from_utf8(tag).unwrap_or_default();
                if let Some(queue) = keys::queue_of_hash_tag(tag) {
                    self.pass_on(queue, tag, holder);
                }
            }
        }
    }

    /// Passes a signal on, unless another process has the delivery lease.
    fn pass_on(&self, queue: QueueId, tag: &str, holder: Option<&[u8]>) {
        let is_own = match holder {
            None => self.is_chosen(tag),
            Some(holder) if self.0.holders.lock().get(&queue).is_some_and(|own| own.as_bytes() == holder) => true,
            Some(_other_process) => return,
        };
        self.send(DeliverySignal { queue, is_own });
    }

    fn send(&self, signal: DeliverySignal) {
        let _no_receiver = self.0.sender.send(signal);
    }

    /// Records the heartbeat of a process that uses the same database.
    fn note_heartbeat(&self, heartbeat: &[u8], database: u8) {
        let text = str::from_utf8(heartbeat).unwrap_or_default();
        let Some((its_database, id)) = text.split_once(SEPARATOR) else { return };
        if let Some(id) = text.strip_prefix(UPGRADED).and_then(|id| id.parse::<Uuid>().ok()) {
            self.0.peers.lock().entry(id).and_modify(|peer| peer.is_upgraded = true);
            return;
        }
        let Ok(id) = id.parse::<Uuid>() else { return };
        if id == self.0.id {
            self.note_own_heartbeat();
        } else if its_database.parse() == Ok(database) {
            let (mut peers, heard) = (self.0.peers.lock(), Instant::now());
            peers.entry(id).or_insert(Peer { heard, is_upgraded: false }).heard = heard;
        }
    }

    /// Returns the number of live processes that cannot use the layout of this release; `None` if
    /// this process does not receive its own heartbeats.
    pub(super) fn processes_of_earlier_releases(&self) -> Option<usize> {
        let peers = self.0.peers.lock();
        let earlier = peers.values().filter(|peer| peer.is_live() && !peer.is_upgraded).count();
        (self.0.connection.lock().heard_at.elapsed() <= HEARTBEAT_LIFETIME).then_some(earlier)
    }

    fn note_own_heartbeat(&self) {
        let (mut connection, now) = (self.0.connection.lock(), Instant::now());
        if connection.heard_at.elapsed() > HEARTBEAT_LIFETIME {
            connection.replaces_from = now + DELIVERY_LEASE_DURATION;
            connection.visit_at = Some(connection.replaces_from);
        }
        connection.heard_at = now;
    }

    /// Forgets the processes that are lost. Returns the time until the due queues are to be
    /// visited.
    fn forget_lost(&self) -> Option<Duration> {
        let mut lost_at = None;
        self.0.peers.lock().retain(|_, peer| {
            lost_at = lost_at.max(Some(peer.heard).filter(|_| !peer.is_live()));
            peer.is_live()
        });
        let mut connection = self.0.connection.lock();
        if let Some(lost_at) = lost_at {
            // It may have renewed a lease until its next heartbeat was due.
            let expired_at = lost_at + HEARTBEAT_INTERVAL + DELIVERY_LEASE_DURATION;
            connection.visit_at = connection.visit_at.max(Some(expired_at));
        }
        connection.visit_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Returns whether this process is the one of all live processes that should act.
    fn is_chosen(&self, tag: &str) -> bool {
        let weight = |id: &Uuid| (xxh3_64(&[id.as_bytes(), tag.as_bytes()].concat()), *id);
        let own = weight(&self.0.id);
        let peers = self.0.peers.lock();
        peers.iter().filter(|(_, peer)| peer.is_live()).all(|(id, _)| weight(id) < own)
    }

    /// Returns whether the due queues are to be visited now, once.
    fn take_visit(&self) -> bool {
        self.0.connection.lock().visit_at.take_if(|at| *at <= Instant::now()).is_some()
    }

    /// Publishes a heartbeat of this process again and again, and notices the loss of other ones.
    async fn send_heartbeats(self, connection: Connection, visit: impl Fn() + Send) {
        let heartbeat = format!("{SEPARATOR}{}{SEPARATOR}{}", connection.servers.database(), self.0.id);
        let upgraded = format!("{SEPARATOR}{UPGRADED}{}", self.0.id);
        loop {
            let mut outcome = connection.publish(SIGNAL_CHANNEL, &heartbeat).await;
            if matches!(connection.layout_version().await, Ok(Version::Three)) {
                outcome = outcome.and(connection.publish(SIGNAL_CHANNEL, &upgraded).await);
            }
            if let Err(error) = outcome {
                debug!(%error, "cannot tell the other processes that this one is live");
            }
            let visit_after = self.forget_lost();
            sleep(HEARTBEAT_INTERVAL.min(visit_after.unwrap_or(HEARTBEAT_INTERVAL))).await;
            if self.take_visit() && self.is_chosen(VISIT) {
                visit();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "p/q";

    fn signals() -> (Signals, broadcast::Receiver<DeliverySignal>) {
        let signals = Signals::new(Uuid::new_v4());
        let receiver = signals.0.sender.subscribe();
        (signals, receiver)
    }

    fn queue() -> QueueId {
        keys::queue_of_hash_tag(TAG).unwrap()
    }

    fn heartbeat(database: u8, of: &Signals) -> Vec<u8> {
        format!(" {database} {}", of.0.id).into()
    }

    #[tokio::test]
    async fn one_of_all_live_processes_is_chosen() {
        let processes: Vec<_> = (0..5).map(|_| signals().0).collect();
        for one in &processes {
            for other in &processes {
                one.receive(&heartbeat(0, other), 0);
            }
        }

        for tag in (0..20).map(|number| format!("p/q{number}")) {
            assert_eq!(processes.iter().filter(|process| process.is_chosen(&tag)).count(), 1, "{tag}");
        }
    }

    #[tokio::test]
    async fn a_process_that_uses_another_database_is_never_chosen() {
        let (process, _receiver) = signals();
        for _ in 0..20 {
            process.receive(&heartbeat(1, &signals().0), 0);
        }

        assert!(process.is_chosen(TAG));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_without_heartbeats_counts_as_gone() {
        let (process, _receiver) = signals();
        for _ in 0..20 {
            process.receive(&heartbeat(0, &signals().0), 0);
        }
        tokio::time::advance(HEARTBEAT_LIFETIME + Duration::from_millis(1)).await;

        assert!(process.is_chosen(TAG));
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_outage_a_process_lets_holders_renew_their_leases_first() {
        let (process, _receiver) = signals();
        process.0.start.call_once(|| {});
        let own = heartbeat(0, &process);
        let hear_for = async |seconds| {
            for _ in 0..seconds {
                process.receive(&own, 0);
                tokio::time::advance(HEARTBEAT_INTERVAL).await;
            }
        };
        let lease_s = DELIVERY_LEASE_DURATION.as_secs();
        hear_for(1).await;
        assert!(process.replaces_lost_holders());

        tokio::time::advance(HEARTBEAT_LIFETIME).await;
        assert!(!process.replaces_lost_holders(), "the store does not answer");
        hear_for(lease_s - 1).await;
        assert!(!process.replaces_lost_holders());
        assert!(!process.take_visit());
        hear_for(1).await;
        assert!(process.replaces_lost_holders());
        assert!(process.take_visit() && !process.take_visit());
    }

    #[tokio::test(start_paused = true)]
    async fn due_queues_are_visited_when_the_leases_of_a_lost_process_have_expired() {
        let (process, _receiver) = signals();
        assert_eq!(process.forget_lost(), Some(DELIVERY_LEASE_DURATION), "there may be leases of a former process");
        tokio::time::advance(DELIVERY_LEASE_DURATION).await;
        assert!(process.take_visit());
        process.receive(&heartbeat(0, &signals().0), 0);
        assert_eq!(process.forget_lost(), None);

        let lost = HEARTBEAT_LIFETIME + Duration::from_millis(1);
        tokio::time::advance(lost).await;

        assert_eq!(process.forget_lost(), Some((HEARTBEAT_INTERVAL + DELIVERY_LEASE_DURATION).saturating_sub(lost)));
    }

    #[tokio::test]
    async fn a_signal_with_a_live_lease_is_for_its_holder_only() {
        let (process, mut receiver) = signals();
        let holder = Uuid::new_v4();
        let payload = [TAG.as_bytes(), b" ", holder.as_bytes()].concat();

        process.receive(&payload, 0);
        process.note_holder(&queue(), holder);
        process.receive(&payload, 0);
        process.forget_holder(&queue());
        process.receive(&payload, 0);

        assert_eq!(receiver.try_recv(), Ok(DeliverySignal { queue: queue(), is_own: true }));
        assert!(receiver.try_recv().is_err());
    }

    #[tokio::test]
    async fn payloads_of_other_releases_are_ignored() {
        let (process, mut receiver) = signals();
        for payload in [&b""[..], b" ", b" x", b" 0 x", b"\xff", b"no queue"] {
            process.receive(payload, 0);
        }

        assert!(receiver.try_recv().is_err());
    }
}
