//! One round: a queue, from its creation with 64 shards until all messages ever posted to it are
//! taken.

use std::collections::HashSet;
use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use serde_json::json;
use sukkal::auth::{Caller, Client};
use sukkal::broker::Broker;
use sukkal::broker::claims::{ClaimRequest, Preference, TermDraft};
use sukkal::broker::messages::{Delay, Draft, PostRequest, TenantDraft};
use sukkal_domain::{
    Body, Claim, ClientIdRule, Creation, Holding, MessageId, Metadata, ProjectId, QueueId, Shard, Taken, Tenant,
};
use sukkal_storage::{Driver, UpdateOutcome};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use support::random::Random;
use support::test_bed::Service;

/// The numbers of shards that the queue gets, in order. One shard makes it a plain queue.
const SHARD_COUNTS: [u16; 8] = [8, 64, 1, 64, 8, 64, 1, 3];
const PRODUCERS: usize = 3;
const CONSUMERS: usize = 4;
const TENANTS: u64 = 6;
/// Producers pause while the backlog is larger, so that shards become empty occasionally.
const BACKLOG_MAX: i64 = 600;
const PAUSE_US_MAX: u64 = 4_000;
const CHANGE_PAUSE_US_MAX: u64 = 80_000;
/// Much longer than the delay of any delayed or returned message.
const ROUND_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than the delay of any returned message.
const RETURN_TIMEOUT: Duration = Duration::from_secs(5);

/// Counts of the events of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) divisions: usize,
    pub(super) posted: usize,
    pub(super) popped: usize,
    pub(super) acknowledged: usize,
    pub(super) given_back: usize,
    pub(super) snapshots: usize,
    /// Snapshots in which more than one shard had messages.
    pub(super) sharded: usize,
}

/// The state that all actors share.
#[derive(Clone)]
pub(super) struct Round {
    services: [Service; 2],
    seed: u64,
    number: usize,
    queue: QueueId,
    caller: Caller,
    over: Arc<AtomicBool>,
    backlog: Arc<AtomicI64>,
}

#[derive(Clone, Copy)]
enum Role {
    Producer = 0x51,
    Taker,
    Divider,
    Counter,
    Drainer,
}

impl Round {
    pub(super) fn new(services: [Service; 2], seed: u64, number: usize) -> Self {
        let project = ProjectId::new("resizing").unwrap();
        let queue = QueueId::new(project.clone(), format!("round-{number}").parse().unwrap()).unwrap();
        let id = ClientIdRule::Text(1..=9).parse("round").unwrap();
        let caller = Caller::Client(Client { project, id, roles: Vec::new(), identity: None });
        Self { services, seed, number, queue, caller, over: Arc::default(), backlog: Arc::default() }
    }

    pub(super) async fn run(self) -> Tally {
        let created = self.services[0].1.create_queue(&self.queue, &metadata_with_shards(64)).await.unwrap();
        assert_eq!(created, Creation::Created);

        let posts: JoinSet<_> = (0..PRODUCERS).map(|number| self.clone().produce(number)).collect();
        let takers: JoinSet<_> = (0..CONSUMERS).map(|number| self.clone().take(number)).collect();
        let counter = tokio::spawn(self.clone().count());
        self.change_shards().await;
        self.over.store(true, Ordering::Relaxed);
        let posted = posts.join_all().await.concat();
        let mut taken = Vec::new();
        let mut tally = counter.await.unwrap();
        for (ids, own) in takers.join_all().await {
            taken.extend(ids);
            tally = tally + own;
        }
        self.check_details().await;
        taken.extend(self.drain().await);

        let once: HashSet<MessageId> = taken.iter().copied().collect();
        assert_eq!(once.len(), taken.len(), "{}: a message was had twice", self.description());
        let lost = posted.iter().filter(|id| !once.contains(id)).count();
        assert_eq!((lost, once.len()), (0, posted.len()), "{}: lost, and taken of those posted", self.description());
        self.services[1].1.delete_queue(&self.queue).await.unwrap();
        tally + Tally { divisions: SHARD_COUNTS.len(), posted: posted.len(), ..Tally::default() }
    }

    async fn produce(self, number: usize) -> Vec<MessageId> {
        let mut random = self.random(Role::Producer, number);
        let mut posted = Vec::new();
        while !self.is_over() {
            if self.backlog.load(Ordering::Relaxed) < BACKLOG_MAX {
                // Each request has one tenant or several.
                let first = random.within(0..=TENANTS - 1);
                let several = random.one_in(3);
                let drafts: Vec<Draft> = (0..random.within(1..=20))
                    .map(|draft| {
                        let tenant = if several { (first + draft) % TENANTS } else { first };
                        let delay = Delay::Seconds(i64::from(random.one_in(10)));
                        let tenant = TenantDraft::Named(Tenant::new(&format!("tenant {tenant}")).unwrap());
                        Draft { ttl_s: None, delay, tenant, body: body() }
                    })
                    .collect();
                self.backlog.fetch_add(i64::try_from(drafts.len()).unwrap(), Ordering::Relaxed);
                let request =
                    PostRequest { drafts, bytes: 0, idempotency: None, trace: None, origin: None, durability: None };
                let broker = self.broker(&mut random);
                posted.extend(broker.post_messages(&self.caller, self.queue.clone(), request).await.unwrap().value.ids);
            }
            pause(&mut random, PAUSE_US_MAX).await;
        }
        posted
    }

    /// Takes messages. Returns the ids of those it deleted, and the counts.
    async fn take(self, number: usize) -> (Vec<MessageId>, Tally) {
        let mut random = self.random(Role::Taker, number);
        let (mut taken, mut tally) = (Vec::new(), Tally::default());
        while !self.is_over() {
            let before = taken.len();
            let limit = i64::try_from(random.within(1..=20)).unwrap();
            if random.one_in(4) {
                let broker = self.broker(&mut random);
                let popped = broker.pop_messages(&self.caller, self.queue.clone(), limit, None).await.unwrap();
                if let Taken::Messages(popped) = popped {
                    popped.return_guard.disarm();
                    tally.popped += popped.value.len();
                    taken.extend(popped.value.iter().map(|message| message.id));
                }
            } else if let Some(claim) = self.claim(&mut random, limit, None).await {
                let kept = self.work_on(&claim, &mut random).await;
                tally.acknowledged += kept.len();
                tally.given_back += claim.messages.len() - kept.len();
                taken.extend(kept);
            }
            self.backlog.fetch_sub(i64::try_from(taken.len() - before).unwrap(), Ordering::Relaxed);
            pause(&mut random, PAUSE_US_MAX).await;
        }
        (taken, tally)
    }

    /// Deletes the claimed messages, or returns all or one of them. Returns the ids of the deleted
    /// ones.
    async fn work_on(&self, claim: &Claim, random: &mut Random) -> Vec<MessageId> {
        let mut ids: Vec<MessageId> = claim.messages.iter().map(|message| message.id).collect();
        let name = claim.id.to_string();
        match random.within(0..=5) {
            0 => {
                self.broker(random).release_claim(&self.caller, self.queue.clone(), &name).await.unwrap();
                return Vec::new();
            }
            1 => {
                let id = ids.pop().expect("no claim is empty");
                let delay_s = i64::from(random.one_in(2));
                let broker = self.broker(random);
                broker
                    .return_message(&self.caller, self.queue.clone(), &name, &id.to_string(), Some(delay_s))
                    .await
                    .unwrap();
            }
            _ => {}
        }
        let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
        if !names.is_empty() {
            self.broker(random).delete_messages(&self.caller, self.queue.clone(), &names, &[name]).await.unwrap();
        }
        ids
    }

    /// Claims messages, occasionally with a preference.
    async fn claim(&self, random: &mut Random, limit: i64, wait_s: Option<i64>) -> Option<Claim> {
        let prefer = match random.within(0..=5) {
            0 => Some(Preference::Shard(Shard::new(u16::try_from(random.within(0..=63)).unwrap()).unwrap())),
            1 => {
                let tenant = format!("tenant {}", random.within(0..=TENANTS - 1));
                Some(Preference::Tenant(Tenant::new(&tenant).unwrap()))
            }
            _ => None,
        };
        let request = ClaimRequest { limit: Some(limit), term: TermDraft::default(), wait_s, prefer };
        let taken =
            self.broker(random).create_claim(&self.caller, self.queue.clone(), request).await.unwrap().messages()?;
        taken.return_guard.disarm();
        Some(taken.value)
    }

    async fn change_shards(&self) {
        let mut random = self.random(Role::Divider, 0);
        for shards in SHARD_COUNTS {
            pause(&mut random, CHANGE_PAUSE_US_MAX).await;
            let store = self.store(&mut random);
            let revision = store.get_queue(&self.queue).await.unwrap().expect("it is there").revision;
            assert_eq!(
                store.update_queue(&self.queue, revision, &metadata_with_shards(shards)).await,
                Ok(UpdateOutcome::Done)
            );
        }
        pause(&mut random, CHANGE_PAUSE_US_MAX).await;
    }

    /// Compares the contents of the shards with the totals, repeatedly.
    async fn count(self) -> Tally {
        let mut random = self.random(Role::Counter, 0);
        let mut tally = Tally::default();
        while !self.is_over() {
            tally.sharded += usize::from(self.check_snapshot(&mut random).await > 1);
            tally.snapshots += 1;
            pause(&mut random, PAUSE_US_MAX).await;
        }
        tally
    }

    /// Returns how many shards have messages.
    async fn check_snapshot(&self, random: &mut Random) -> usize {
        let stats = self.broker(random).get_stats(&self.caller, &self.queue, true).await.unwrap();
        let details = stats.details.expect("they were asked for");
        details.shards.len()
    }

    /// Checks that the shards have all messages. No other actor changes the queue now, because the
    /// stats count some shards at a time. But the delay of a returned message, which counts as
    /// claimed, may end while they count; then they are right the next time.
    async fn check_details(&self) {
        let mut random = self.random(Role::Counter, 0);
        let until = Instant::now() + RETURN_TIMEOUT;
        loop {
            let stats = self.broker(&mut random).get_stats(&self.caller, &self.queue, true).await.unwrap();
            let details = stats.details.as_ref().expect("they were asked for");
            let parts = || details.shards.iter().map(|(_, holding)| holding).chain([&details.unsharded]);
            let total: u64 =
                parts().map(|Holding { available, delayed, claimed, .. }| available + delayed + claimed).sum();
            let claimed: u64 = parts().map(|holding| holding.claimed).sum();
            if (total, claimed) == (stats.total, stats.claimed) {
                return;
            }
            let is_late = Instant::now() > until;
            assert!(!is_late, "{}: {total}, {claimed} of them claimed, but {stats:?}", self.description());
        }
    }

    /// Takes all remaining messages, and checks that claims end with none left behind.
    async fn drain(&self) -> Vec<MessageId> {
        let mut random = self.random(Role::Drainer, 0);
        let until = Instant::now() + ROUND_TIMEOUT;
        let mut drained = Vec::new();
        loop {
            if let Some(claim) = self.claim(&mut random, 20, Some(1)).await {
                let names: Vec<String> = claim.messages.iter().map(|message| message.id.to_string()).collect();
                let claims = [claim.id.to_string()];
                self.broker(&mut random)
                    .delete_messages(&self.caller, self.queue.clone(), &names, &claims)
                    .await
                    .unwrap();
                drained.extend(claim.messages.iter().map(|message| message.id));
                continue;
            }
            let left = self.broker(&mut random).get_stats(&self.caller, &self.queue, true).await.unwrap();
            if left.total == 0 {
                assert_eq!(
                    self.check_snapshot(&mut random).await,
                    0,
                    "{}: nothing is in some shards",
                    self.description()
                );
                return drained;
            }
            assert!(Instant::now() < until, "{}: remaining messages are not delivered: {left:?}", self.description());
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn description(&self) -> String {
        format!("round {}, seed {}", self.number, self.seed)
    }

    fn random(&self, role: Role, number: usize) -> Random {
        Random::new(self.seed, role as u64, self.number * 100 + number)
    }

    fn broker(&self, random: &mut Random) -> Broker {
        random.choose(&self.services).expect("there are two messages").0.clone()
    }

    fn store(&self, random: &mut Random) -> Arc<dyn Driver> {
        random.choose(&self.services).expect("there are two messages").1.clone()
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            divisions: self.divisions + other.divisions,
            posted: self.posted + other.posted,
            popped: self.popped + other.popped,
            acknowledged: self.acknowledged + other.acknowledged,
            given_back: self.given_back + other.given_back,
            snapshots: self.snapshots + other.snapshots,
            sharded: self.sharded + other.sharded,
        }
    }
}

/// Returns the metadata of a queue with this number of shards, in which messages may be delayed.
fn metadata_with_shards(shards: u16) -> Metadata {
    match json!({ "_shards": shards, "_default_message_delay": 1 }) {
        serde_json::Value::Object(keys) => Metadata::from_store((&keys).into()),
        other => panic!("metadata is an object: {other}"),
    }
}

fn body() -> Body {
    Body::from_msgpack(rmp_serde::to_vec(&json!("work")).unwrap().into())
}

async fn pause(random: &mut Random, most_us: u64) {
    sleep(Duration::from_micros(random.within(0..=most_us))).await;
}
