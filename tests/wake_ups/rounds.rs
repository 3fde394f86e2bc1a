//! One round: waiters begin to wait, as many messages become available, and each waiter gets one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sukkal::auth::{Caller, Client};
use sukkal::broker::claims::ClaimRequest;
use sukkal::broker::messages::{Delay, Draft, MessageQuery, PostRequest, Since, TenantDraft};
use sukkal::broker::{self, Broker};
use sukkal_domain::{
    Body, Claim, ClaimId, ClientId, ClientIdRule, Metadata, NewClaim, NewMessage, ProjectId, QueueId, Revision,
};
use sukkal_storage::Driver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use support::calls::{new_claim, plain_post};
use support::random::Random;
use support::test_bed::Service;

/// No waiter waits this long unless a notification was lost. It is shorter than the interval at
/// which the store queries again by itself.
pub(super) const ROUND_TIMEOUT: Duration = Duration::from_secs(20);
pub(super) const WAIT_S: i64 = 30;
const PARTIES_MAX: u64 = 8;
/// Longest time until each event of a round begins, in microseconds.
const SPREAD_US: u64 = 3_000;

/// The role for the random choices of this test.
const ROLE: u64 = 0x3a17;

/// The events of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Claims and pops wait, and as many messages are posted.
    Consumers,
    /// Lists wait, and one message is posted.
    Readers,
    /// Consumers wait for delayed messages.
    Delays,
    /// Consumers wait for the messages of a claim that expires.
    Expiries,
    /// Consumers wait for messages that are returned, immediately or with a delay.
    Releases,
    /// Consumers wait while the queue is paused and messages are posted, until it is resumed.
    Pauses,
    /// Consumers wait for messages, some of which become dead letters, and for the dead letters.
    DeadLetters,
}

/// Sequential rounds on one queue.
pub(super) struct TestQueue {
    number: usize,
    random: Random,
    services: [Service; 2],
    queue: QueueId,
    caller: Caller,
    rounds: u64,
    /// Whether no round has used the queue before.
    is_new: bool,
}

/// The store was not available for an operation of a round, which therefore proves nothing. A slow
/// machine causes that too.
#[derive(Debug)]
pub(super) struct Unavailable;

impl From<broker::Error> for Unavailable {
    fn from(error: broker::Error) -> Self {
        match error {
            broker::Error::Store(error) => error.into(),
            other => panic!("{other:?}"),
        }
    }
}

impl From<sukkal_storage::Error> for Unavailable {
    fn from(error: sukkal_storage::Error) -> Self {
        assert!(
            matches!(error, sukkal_storage::Error::Unavailable(_) | sukkal_storage::Error::Overloaded),
            "{error:?}"
        );
        Self
    }
}

impl TestQueue {
    /// Returns the client of all posts and claims.
    pub(super) fn client(&self) -> &ClientId {
        &self.caller.as_client().unwrap().id
    }

    pub(super) fn new(number: usize, seed: u64, services: [Service; 2]) -> Self {
        let project = ProjectId::new("wakeups").unwrap();
        let queue = queue_of(&project, &format!("lane-{number}"));
        let id = ClientIdRule::Text(1..=9).parse("lane").unwrap();
        let caller = Caller::Client(Client { project, id, roles: Vec::new(), identity: None });
        Self { number, random: Random::new(seed, ROLE, number), services, queue, caller, rounds: 0, is_new: true }
    }

    /// Runs a round. Returns the number of waiters and the duration; `None` if the round proves
    /// nothing. Then the next one uses another queue.
    pub(super) async fn round(&mut self, kinds: &[Kind]) -> Option<(usize, Duration)> {
        let kind = kinds[self.below(kinds.len() as u64)];
        self.rounds += 1;
        let start = Instant::now();
        let parties = 1 + self.below(PARTIES_MAX);
        let waits = self.try_round(kind, parties).await;
        self.is_new = waits.is_err();
        if self.is_new {
            self.queue = queue_of(self.queue.project(), &format!("lane-{}-{}", self.number, self.rounds));
        }
        waits.ok().map(|waits| (waits, start.elapsed()))
    }

    async fn try_round(&mut self, kind: Kind, parties: usize) -> Result<usize, Unavailable> {
        if kind == Kind::DeadLetters {
            self.dead_letter_round(parties).await?;
            return Ok(2 * parties);
        }
        if kind == Kind::Pauses {
            self.store().pause_queue(&self.queue).await?;
        }
        let prepared = self.prepare(kind, parties).await?;
        let mut waiters = JoinSet::new();
        for _ in 0..parties {
            self.start_waiting(kind, &mut waiters);
        }
        self.make_available(kind, parties, prepared).await?;
        if kind == Kind::Pauses {
            if let Some(ended) = waiters.try_join_next() {
                ended.unwrap()?;
                panic!("a paused queue handed out a message, {}", self.description());
            }
            self.store().resume_queue(&self.queue).await?;
        }

        let all = async {
            while let Some(has_something) = waiters.join_next().await {
                assert!(has_something.unwrap()?, "{kind:?}: nothing came, {}", self.description());
            }
            Ok::<_, Unavailable>(())
        };
        let in_time = timeout(ROUND_TIMEOUT, all).await;
        let waits = || format!("{kind:?}: a waiter waits although a message is available, {}", self.description());
        in_time.unwrap_or_else(|_| panic!("{}", waits()))?;
        if kind == Kind::Readers {
            self.store().purge_queue(&self.queue).await?;
        }
        Ok(parties)
    }

    pub(super) fn description(&self) -> String {
        format!("queue {} round {}", self.number, self.rounds)
    }

    fn start_waiting(&mut self, kind: Kind, waiters: &mut JoinSet<Result<bool, Unavailable>>) {
        let (broker, after) = (self.services[self.below(2)].0.clone(), self.moment());
        let (caller, queue, pops) = (self.caller.clone(), self.queue.clone(), self.below(2) == 0);
        waiters.spawn(async move {
            sleep(after).await;
            if kind == Kind::Readers {
                let query = MessageQuery {
                    wait_s: Some(WAIT_S),
                    echo: true,
                    since: Some(Since::Time(0)),
                    ..Default::default()
                };
                let listed = broker.list_messages(&caller, &queue, &query).await?;
                return Ok(!listed.page.messages.is_empty());
            }
            Ok(take(&broker, &caller, queue, pops, WAIT_S).await?.is_some())
        });
    }

    /// Creates the state before the waits: a claim on as many messages as there will be waiters.
    async fn prepare(&mut self, kind: Kind, parties: usize) -> Result<Option<Claim>, Unavailable> {
        let ttl_s = match kind {
            Kind::Expiries => 1,
            Kind::Releases => 600,
            Kind::Consumers | Kind::Readers | Kind::Delays | Kind::Pauses | Kind::DeadLetters => return Ok(None),
        };
        self.post(&self.queue.clone(), vec![body(); parties]).await?;
        let new = NewClaim { client: self.client().clone(), ..new_claim(parties, ttl_s) };
        let claim = self
            .store()
            .create_claim(&self.queue, ClaimId::random(), &new)
            .await?
            .messages()
            .expect("they are available");
        assert_eq!(claim.messages.len(), parties);
        Ok(Some(claim))
    }

    async fn make_available(&mut self, kind: Kind, parties: usize, claim: Option<Claim>) -> Result<(), Unavailable> {
        match kind {
            Kind::Readers => {
                sleep(self.moment()).await;
                self.post(&self.queue.clone(), vec![body(); 1]).await?;
            }
            Kind::Consumers | Kind::Pauses => {
                let mut left = parties;
                while left > 0 {
                    sleep(self.moment() / 2).await;
                    let count = 1 + self.below(left as u64);
                    self.post(&self.queue.clone(), vec![body(); count]).await?;
                    left -= count;
                }
            }
            Kind::Delays => {
                let message = NewMessage { ttl_s: 600, delay_s: 1, body: body(), assignment: None };
                let store = self.store();
                let seen = self.revision().await?;
                for _ in 0..parties {
                    sleep(self.moment()).await;
                    let messages = std::slice::from_ref(&message);
                    let post = plain_post(seen, self.client(), messages);
                    store.post_messages(&self.queue, &post).await?;
                }
            }
            Kind::Expiries | Kind::DeadLetters => {}
            Kind::Releases => {
                let claim = claim.expect("it was made");
                let store = self.store();
                for message in &claim.messages {
                    sleep(self.moment()).await;
                    match self.below(3) {
                        0 => break,
                        delay_s => {
                            let delay_s = u32::try_from(delay_s).unwrap() - 1;
                            store.return_message(&self.queue, claim.id, message.id, delay_s).await?;
                        }
                    }
                }
                store.release_claim(&self.queue, claim.id).await?;
            }
        }
        Ok(())
    }

    async fn revision(&mut self) -> Result<Revision, Unavailable> {
        let store = self.store();
        store.create_queue(&self.queue, &Metadata::default()).await?;
        Ok(store.get_queue(&self.queue).await?.expect("it is there").revision)
    }

    /// Posts messages with these bodies.
    pub(super) async fn post(&mut self, queue: &QueueId, bodies: Vec<Body>) -> Result<(), Unavailable> {
        let draft = |body| Draft { ttl_s: None, delay: Delay::Unset, tenant: TenantDraft::Unset, body };
        let request = PostRequest {
            drafts: bodies.into_iter().map(draft).collect(),
            bytes: 0,
            idempotency: None,
            trace: None,
            origin: None,
            durability: None,
        };
        self.broker().post_messages(&self.caller(), queue.clone(), request).await?;
        Ok(())
    }

    pub(super) fn broker(&mut self) -> Broker {
        let side = self.below(2);
        self.services[side].0.clone()
    }

    pub(super) fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// Returns the id of another queue, named after this one.
    pub(super) fn queue_named(&self, kind: &str) -> QueueId {
        queue_of(self.queue.project(), &format!("{}-{kind}", self.queue.name()))
    }

    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(super) fn store(&mut self) -> Arc<dyn Driver> {
        let side = self.below(2);
        self.services[side].1.clone()
    }

    pub(super) fn moment(&mut self) -> Duration {
        Duration::from_micros(self.below(SPREAD_US) as u64)
    }

    pub(super) fn below(&mut self, bound: u64) -> usize {
        usize::try_from(self.random.within(0..=bound - 1)).unwrap()
    }
}

/// Takes one message and deletes it. Returns its body, or `None` if nothing came.
pub(super) async fn take(
    broker: &Broker,
    caller: &Caller,
    queue: QueueId,
    pops: bool,
    wait_s: i64,
) -> Result<Option<Body>, Unavailable> {
    if pops {
        let Some(mut taken) = broker.pop_messages(caller, queue, 1, Some(wait_s)).await?.messages() else {
            return Ok(None);
        };
        taken.return_guard.disarm();
        return Ok(taken.value.pop().map(|popped| popped.body));
    }
    let wanted = ClaimRequest { limit: Some(1), wait_s: Some(wait_s), ..ClaimRequest::default() };
    let Some(mut taken) = broker.create_claim(caller, queue.clone(), wanted).await?.messages() else {
        return Ok(None);
    };
    taken.return_guard.disarm();
    let message = taken.value.messages.remove(0);
    broker.delete_messages(caller, queue, &[message.id.to_string()], &[]).await?;
    Ok(Some(message.body))
}

fn queue_of(project: &ProjectId, name: &str) -> QueueId {
    QueueId::new(project.clone(), name.parse().unwrap()).unwrap()
}

fn body() -> Body {
    Body::from_msgpack(rmp_serde::to_vec(&json!("message")).unwrap().into())
}
