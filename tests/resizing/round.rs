//! One round: a queue from its creation with 64 shards until all that was ever posted to it is taken.

use std::collections::HashSet;
use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use serde_json::json;
use sukkal::auth::Caller;
use sukkal::broker::Broker;
use sukkal::broker::claims::{ClaimRequest, Preference, TermDraft};
use sukkal::broker::messages::{Delay, Draft, PostRequest, TenantDraft};
use sukkal::domain::{Body, Claim, ClientIdRule, MessageId, Metadata, ProjectId, QueueId, Shard, Tenant};
use sukkal::storage::{Creation, Driver, Holding, Update};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::Service;
use crate::support::chronicle::choices::Choices;

/// The shards of the queue, one division after the other. One shard makes it a plain queue.
const DIVISIONS: [u16; 8] = [8, 64, 1, 64, 8, 64, 1, 3];
const PRODUCERS: usize = 3;
const TAKERS: usize = 4;
const TENANTS: u64 = 6;
/// Producers pause while there is so much, so that shards are emptied now and then.
const BACKLOG_MAX: i64 = 600;
const PAUSE_US_MAX: u64 = 4_000;
const DIVISION_US_MAX: u64 = 80_000;
/// Whatever is given back or delayed is free again long before.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much went on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) divisions: usize,
    pub(super) posted: usize,
    pub(super) popped: usize,
    pub(super) acknowledged: usize,
    pub(super) given_back: usize,
    pub(super) snapshots: usize,
    /// Snapshots in which more than one shard held something.
    pub(super) sharded: usize,
}

/// What all who take part share.
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
        let client = ClientIdRule::Text(1..=9).parse("round").unwrap();
        let caller = Caller { project, client, roles: Vec::new() };
        Self { services, seed, number, queue, caller, over: Arc::default(), backlog: Arc::default() }
    }

    pub(super) async fn run(self) -> Tally {
        let created = self.services[0].1.create_queue(&self.queue, &divided_into(64)).await.unwrap();
        assert_eq!(created, Creation::Created);

        let posts: JoinSet<_> = (0..PRODUCERS).map(|number| self.clone().produce(number)).collect();
        let takers: JoinSet<_> = (0..TAKERS).map(|number| self.clone().take(number)).collect();
        let counter = tokio::spawn(self.clone().count());
        self.divide().await;
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
        assert_eq!(once.len(), taken.len(), "{}: a message was had twice", self.place());
        let lost = posted.iter().filter(|id| !once.contains(id)).count();
        assert_eq!((lost, once.len()), (0, posted.len()), "{}: lost, and taken of those posted", self.place());
        self.services[1].1.delete_queue(&self.queue).await.unwrap();
        tally + Tally { divisions: DIVISIONS.len(), posted: posted.len(), ..Tally::default() }
    }

    async fn produce(self, number: usize) -> Vec<MessageId> {
        let mut choices = self.choices(Role::Producer, number);
        let mut posted = Vec::new();
        while !self.is_over() {
            if self.backlog.load(Ordering::Relaxed) < BACKLOG_MAX {
                // Each request has a tenant of its own, or several.
                let first = choices.within(0..=TENANTS - 1);
                let several = choices.one_in(3);
                let drafts: Vec<Draft> = (0..choices.within(1..=20))
                    .map(|draft| {
                        let tenant = if several { (first + draft) % TENANTS } else { first };
                        let delay = Delay::Seconds(i64::from(choices.one_in(10)));
                        let tenant = TenantDraft::Named(Tenant::new(&format!("tenant {tenant}")).unwrap());
                        Draft { ttl_s: None, delay, tenant, body: body() }
                    })
                    .collect();
                self.backlog.fetch_add(i64::try_from(drafts.len()).unwrap(), Ordering::Relaxed);
                let request = PostRequest { drafts, bytes: 0, once: None };
                let broker = self.broker(&mut choices);
                posted.extend(broker.post_messages(&self.caller, self.queue.clone(), request).await.unwrap().value);
            }
            pause(&mut choices, PAUSE_US_MAX).await;
        }
        posted
    }

    /// The messages taken for good, and how.
    async fn take(self, number: usize) -> (Vec<MessageId>, Tally) {
        let mut choices = self.choices(Role::Taker, number);
        let (mut taken, mut tally) = (Vec::new(), Tally::default());
        while !self.is_over() {
            let before = taken.len();
            let limit = i64::try_from(choices.within(1..=20)).unwrap();
            if choices.one_in(4) {
                let popped = self.broker(&mut choices).pop_messages(self.queue.clone(), limit, None).await.unwrap();
                popped.way_back.delivered();
                tally.popped += popped.value.len();
                taken.extend(popped.value.iter().map(|message| message.id));
            } else if let Some(claim) = self.claim(&mut choices, limit, None).await {
                let kept = self.work_on(&claim, &mut choices).await;
                tally.acknowledged += kept.len();
                tally.given_back += claim.messages.len() - kept.len();
                taken.extend(kept);
            }
            self.backlog.fetch_sub(i64::try_from(taken.len() - before).unwrap(), Ordering::Relaxed);
            pause(&mut choices, PAUSE_US_MAX).await;
        }
        (taken, tally)
    }

    /// Acknowledges what is claimed, or gives back all or one of it; the ids of what is acknowledged.
    async fn work_on(&self, claim: &Claim, choices: &mut Choices) -> Vec<MessageId> {
        let mut ids: Vec<MessageId> = claim.messages.iter().map(|message| message.id).collect();
        let name = claim.id.to_string();
        match choices.within(0..=5) {
            0 => {
                self.broker(choices).release_claim(self.queue.clone(), &name).await.unwrap();
                return Vec::new();
            }
            1 => {
                let id = ids.pop().expect("no claim is empty");
                let delay_s = i64::from(choices.one_in(2));
                let broker = self.broker(choices);
                broker.return_message(self.queue.clone(), &name, &id.to_string(), Some(delay_s)).await.unwrap();
            }
            _ => {}
        }
        let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
        if !names.is_empty() {
            self.broker(choices).delete_messages(self.queue.clone(), &names, &[name]).await.unwrap();
        }
        ids
    }

    /// A claim, now and then with a preference.
    async fn claim(&self, choices: &mut Choices, limit: i64, wait_s: Option<i64>) -> Option<Claim> {
        let prefer = match choices.within(0..=5) {
            0 => Some(Preference::Shard(Shard::new(u16::try_from(choices.within(0..=63)).unwrap()).unwrap())),
            1 => {
                let tenant = format!("tenant {}", choices.within(0..=TENANTS - 1));
                Some(Preference::Tenant(Tenant::new(&tenant).unwrap()))
            }
            _ => None,
        };
        let request = ClaimRequest { limit: Some(limit), term: TermDraft::default(), wait_s, prefer };
        let taken = self.broker(choices).create_claim(self.queue.clone(), request).await.unwrap()?;
        taken.way_back.delivered();
        Some(taken.value)
    }

    async fn divide(&self) {
        let mut choices = self.choices(Role::Divider, 0);
        for shards in DIVISIONS {
            pause(&mut choices, DIVISION_US_MAX).await;
            let store = self.store(&mut choices);
            let seen = store.get_queue(&self.queue).await.unwrap().expect("it is there").revision;
            assert_eq!(store.update_queue(&self.queue, seen, &divided_into(shards)).await, Ok(Update::Done));
        }
        pause(&mut choices, DIVISION_US_MAX).await;
    }

    /// Compares what the shards hold with what there is, again and again.
    async fn count(self) -> Tally {
        let mut choices = self.choices(Role::Counter, 0);
        let mut tally = Tally::default();
        while !self.is_over() {
            tally.sharded += usize::from(self.look(&mut choices).await > 1);
            tally.snapshots += 1;
            pause(&mut choices, PAUSE_US_MAX).await;
        }
        tally
    }

    /// How many shards hold something.
    async fn look(&self, choices: &mut Choices) -> usize {
        let stats = self.broker(choices).get_stats(&self.queue, true).await.unwrap();
        let details = stats.details.expect("they were asked for");
        details.shards.len()
    }

    /// Checks that shards have all messages, while nobody changes the queue: they are counted some at a time.
    async fn check_details(&self) {
        let mut choices = self.choices(Role::Counter, 0);
        let stats = self.broker(&mut choices).get_stats(&self.queue, true).await.unwrap();
        let details = stats.details.expect("they were asked for");
        let parts = || details.shards.iter().map(|(_, holding)| holding).chain([&details.unsharded]);
        let total: u64 = parts().map(|Holding { available, delayed, claimed, .. }| available + delayed + claimed).sum();
        let claimed: u64 = parts().map(|holding| holding.claimed).sum();
        assert_eq!((total, claimed), (stats.total, stats.claimed), "{}: {details:?}", self.place());
    }

    /// Takes all that is left: claims come to an end with nothing left behind them.
    async fn drain(&self) -> Vec<MessageId> {
        let mut choices = self.choices(Role::Drainer, 0);
        let until = Instant::now() + PATIENCE;
        let mut drained = Vec::new();
        loop {
            if let Some(claim) = self.claim(&mut choices, 20, Some(1)).await {
                let names: Vec<String> = claim.messages.iter().map(|message| message.id.to_string()).collect();
                let claims = [claim.id.to_string()];
                self.broker(&mut choices).delete_messages(self.queue.clone(), &names, &claims).await.unwrap();
                drained.extend(claim.messages.iter().map(|message| message.id));
                continue;
            }
            let left = self.broker(&mut choices).get_stats(&self.queue, true).await.unwrap();
            if left.total == 0 {
                assert_eq!(self.look(&mut choices).await, 0, "{}: nothing is in some shards", self.place());
                return drained;
            }
            assert!(Instant::now() < until, "{}: nobody gets what is left: {left:?}", self.place());
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn place(&self) -> String {
        format!("round {}, seed {}", self.number, self.seed)
    }

    fn choices(&self, role: Role, number: usize) -> Choices {
        Choices::of(self.seed, role as u64, self.number * 100 + number)
    }

    fn broker(&self, choices: &mut Choices) -> Broker {
        choices.among(&self.services).expect("there are two").0.clone()
    }

    fn store(&self, choices: &mut Choices) -> Arc<dyn Driver> {
        choices.among(&self.services).expect("there are two").1.clone()
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

/// Metadata of a queue with so many shards, in which messages may be delayed.
fn divided_into(shards: u16) -> Metadata {
    match json!({ "_shards": shards, "_default_message_delay": 1 }) {
        serde_json::Value::Object(keys) => Metadata::from_store(keys),
        other => panic!("metadata is an object: {other}"),
    }
}

fn body() -> Body {
    Body::from_msgpack(rmp_serde::to_vec(&json!("work")).unwrap().into())
}

async fn pause(choices: &mut Choices, most_us: u64) {
    sleep(Duration::from_micros(choices.within(0..=most_us))).await;
}
