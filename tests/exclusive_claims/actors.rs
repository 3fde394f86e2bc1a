//! The actors that use a queue, and the records that each of them makes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sukkal_domain::QueueId;
use tokio::sync::RwLock;
use tokio::time::timeout;
use uuid::Uuid;

use super::coordinator::Coordinator;
use super::history::{Action, Claim, ClaimUse, Claimed, Draft, Outcome, Pop, Post, Seen, Switch, Term};
use super::wire::Wire;
use support::random::Random;
use support::test_bed::TestBed;
use support::timeline::ClockMove;

pub(super) const WORKERS: usize = 32;
pub(super) const PRODUCERS: usize = 4;
pub(super) const DRAINERS: usize = 4;
/// Bounds of the ttl of a worker's claims, in seconds.
const LEASE_S_MIN: u32 = 60;
pub(super) const LEASE_S_MAX: u32 = 120;
/// Largest step of the clock, in microseconds. Two of them are shorter than a claim, so that claims
/// rarely expire before their response, and pops before their messages are deleted. Only such
/// claims leave the checker uncertain.
const STEP_US_MAX: u64 = 25_000_000;

const LIMIT_MAX: u64 = 20;
/// A message with a long life expires after the test. One with a short life may expire before its
/// claim does.
const LONG_TTL_S: u32 = 1_209_600;
const DRAIN: Term = Term { ttl_s: 43_200, grace_s: 60 };
const CLAIMS_PER_MOVE: u64 = 60;
/// The numbers of shards that the queue gets, and the largest number of claims between two changes.
const SHARD_COUNTS: [u16; 4] = [64, 8, 64, 1];
const CLAIMS_PER_CHANGE_MAX: u64 = 50;
/// Largest number of claims between two pauses of the queue, and during a pause.
const CLAIMS_BETWEEN_PAUSES_MAX: u64 = 200;
const CLAIMS_PER_PAUSE_MAX: u64 = 40;
/// As long as most claims and some moves of the clock, in seconds.
const DELAY_S_MAX: u32 = 60;
const ABANDONED_MAX: usize = 8;
/// More claims than the end needs: each claim gets messages or makes some of them dead letters.
const DRAIN_CLAIMS_MAX: usize = 500;
/// Longest wait for other actors. It is short because claims drive everything here.
const PAUSE_MAX: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(super) struct TestContext {
    pub(super) seed: u64,
    pub(super) wire: Arc<Wire>,
    pub(super) coordinator: Arc<Coordinator>,
    /// Is locked for writing while a store is down.
    pub(super) calm: Arc<RwLock<()>>,
}

#[derive(Clone, Copy)]
pub(super) enum Role {
    Producer = 1,
    Worker,
    ClockMover,
    Auditor,
    Drainer,
    Divider,
    Pauser,
}

/// The records of one worker.
#[derive(Default)]
pub(super) struct Work {
    pub(super) claims: Vec<Claim>,
    pub(super) claim_uses: Vec<ClaimUse>,
    pub(super) pops: Vec<Pop>,
}

/// A worker, and the claims that it has abandoned. Some have expired when it uses them again.
struct Worker {
    context: TestContext,
    random: Random,
    abandoned: Vec<(Uuid, Vec<Seen>)>,
    work: Work,
}

impl TestContext {
    pub(super) async fn produce(self, number: usize) -> Vec<Post> {
        let mut random = self.random(Role::Producer, number);
        let mut posts = Vec::new();
        loop {
            let size = random.within(1..=LIMIT_MAX);
            let Some(first) = self.coordinator.reserve_tags(size).await else { return posts };
            let drafts: Vec<Draft> = (first..first + size).map(|tag| draft(tag, &mut random)).collect();

            let _operation = self.coordinator.begin_operation().await;
            let invoked = self.coordinator.now();
            let outcome = self.wire.post(&mut random, &drafts).await;
            let (span, ids) = self.coordinator.record(invoked, outcome);
            self.coordinator.update(|progress| {
                progress.posts += 1;
                progress.outstanding += size.cast_signed();
            });
            posts.push(Post { span, drafts, ids });
        }
    }

    pub(super) async fn work(self, number: usize) -> Work {
        let random = self.random(Role::Worker, number);
        let mut worker = Worker { context: self, random, abandoned: Vec::new(), work: Work::default() };
        while !worker.context.coordinator.progress().borrow().over {
            worker.run_step().await;
        }
        worker.work
    }

    /// Moves the queue's clock forward, so that claims expire while they are used.
    pub(super) async fn move_clock(self, store: TestBed, queue: QueueId, start: ClockMove) -> Vec<ClockMove> {
        let mut random = self.random(Role::ClockMover, 0);
        let mut moves = vec![start];
        let mut due = 0;
        loop {
            due += random.within(CLAIMS_PER_MOVE / 2..=CLAIMS_PER_MOVE * 3 / 2);
            let goes_on = self.coordinator.wait_until(|progress| progress.claims >= due).await;
            if !goes_on {
                // The last move expires all claims, and pops whose messages are not deleted yet. So
                // no further claim may follow, and no pop may be incomplete.
                self.coordinator.wait_until_settled().await;
            }
            let ahead = match random.within(0..=3) {
                _ if !goes_on => u64::from(LEASE_S_MAX) * 1_000_000 * 2,
                0 => random.within(20_000_000..=STEP_US_MAX),
                _ => random.within(500_000..=9_000_000),
            };
            let _operation = self.coordinator.begin_operation().await;
            let before = moves.last().map_or(0, |step| step.offset_us);
            let offset_us = before + i64::try_from(ahead).expect("it is small");
            moves.push(self.set_clock(&store, &queue, offset_us).await);
            self.coordinator.update(|progress| progress.moves += 1);
            if !goes_on {
                return moves;
            }
        }
    }

    /// Pauses and resumes the queue until the test is over. Then the queue is not paused.
    pub(super) async fn pause(self) -> Vec<Switch> {
        let mut random = self.random(Role::Pauser, 0);
        let mut switches = Vec::new();
        while self.wait_for_claims(&mut random, CLAIMS_BETWEEN_PAUSES_MAX).await {
            switches.push(self.switch(&mut random, true).await);
            self.wait_for_claims(&mut random, CLAIMS_PER_PAUSE_MAX).await;
            while switches.last().is_some_and(|last| last.pauses || !last.is_known) {
                switches.push(self.switch(&mut random, false).await);
            }
        }
        switches
    }

    /// Waits for some claims. Returns `false` when the test is over.
    async fn wait_for_claims(&self, random: &mut Random, most: u64) -> bool {
        let due = self.coordinator.progress().borrow().claims + random.within(1..=most);
        self.coordinator.wait_until(|progress| progress.claims >= due).await
    }

    async fn switch(&self, random: &mut Random, pauses: bool) -> Switch {
        let _operation = self.coordinator.begin_operation().await;
        let invoked = self.coordinator.now();
        let outcome = self.wire.switch(random, pauses).await;
        let (span, outcome) = self.coordinator.record(invoked, outcome);
        Switch { span, pauses, is_known: outcome.is_some() }
    }

    /// Changes the number of shards of the queue up and down, and to none, until the test is over.
    pub(super) async fn change_shards(self) {
        let mut random = self.random(Role::Divider, 0);
        let mut due = 0;
        loop {
            due += random.within(1..=CLAIMS_PER_CHANGE_MAX);
            if !self.coordinator.wait_until(|progress| progress.claims >= due).await {
                return;
            }
            let shards = *random.choose(&SHARD_COUNTS).expect("there are shard counts");
            let _operation = self.coordinator.begin_operation().await;
            let outcome = self.wire.set_shards(&mut random, shards).await;
            self.coordinator.record(self.coordinator.now(), outcome);
        }
    }

    /// Sets how far the queue's clock is ahead of the real one, in microseconds.
    pub(super) async fn set_clock(&self, store: &TestBed, queue: &QueueId, offset_us: i64) -> ClockMove {
        let invoked = self.coordinator.now();
        store.set_clock(queue, offset_us).await;
        ClockMove { invoked, answered: self.coordinator.now(), offset_us }
    }

    /// Claims all messages, for longer than the test takes.
    pub(super) async fn drain(self, number: usize) -> Work {
        let random = self.random(Role::Drainer, number);
        let mut worker = Worker { context: self, random, abandoned: Vec::new(), work: Work::default() };
        let mut had = HashSet::new();
        for _ in 0..DRAIN_CLAIMS_MAX {
            match worker.claim(20, DRAIN).await {
                // A message that comes twice would come forever. The checker detects this too.
                Claimed::Got(_, messages) if messages.iter().all(|seen| had.insert(seen.id)) => {}
                Claimed::Unknown | Claimed::Paused => {}
                Claimed::Got(..) => break,
                // The claim may have found only messages that became dead letters.
                Claimed::Nothing => {
                    let counted = worker.context.wire.count(&mut worker.random, &worker.context.wire.queue).await;
                    if matches!(counted, Ok([_, _, 0])) {
                        break;
                    }
                }
            }
        }
        worker.work
    }

    pub(super) fn random(&self, role: Role, number: usize) -> Random {
        Random::new(self.seed, role as u64, number)
    }
}

impl Worker {
    /// Runs one pop, or one claim with the actions on it.
    async fn run_step(&mut self) {
        if self.random.one_in(4) {
            self.use_abandoned_claim().await;
        }
        let limit = usize::try_from(self.random.within(1..=LIMIT_MAX)).expect("it is small");
        let before = *self.context.coordinator.progress().borrow();
        if self.random.one_in(12) {
            self.pop(limit).await;
            return;
        }
        let term = self.term();
        match self.claim(limit, term).await {
            Claimed::Got(claim, messages) => self.work_on(claim, messages).await,
            Claimed::Nothing | Claimed::Paused => {
                let changed = |posts, moves| posts > before.posts || moves > before.moves;
                let _changed = timeout(
                    PAUSE_MAX,
                    self.context.coordinator.wait_until(|progress| changed(progress.posts, progress.moves)),
                )
                .await;
            }
            Claimed::Unknown => {}
        }
    }

    async fn work_on(&mut self, claim: Uuid, messages: Vec<Seen>) {
        let mut left = messages.clone();
        loop {
            let done = match self.random.within(0..=13) {
                0 => Some(self.action(Some(claim), Action::Release).await),
                // The worker abandons the claim, and may use it again later.
                1 => None,
                2 | 3 => {
                    let term = self.term();
                    Some(self.action(Some(claim), Action::Renew(term)).await)
                }
                4 => {
                    let moves = self.context.coordinator.progress().borrow().moves;
                    let _moved =
                        timeout(PAUSE_MAX, self.context.coordinator.wait_until(|progress| progress.moves > moves))
                            .await;
                    Some(Outcome::Done)
                }
                // A message of another claim, or one that is not claimed.
                5 => {
                    let foreign =
                        self.random.choose(&self.abandoned).and_then(|(_, messages)| messages.first()).copied();
                    if let Some(Seen { id, .. }) = foreign {
                        let action = if self.random.one_in(2) { Action::Delete(id) } else { Action::Return(id, 0) };
                        self.action(Some(claim), action).await;
                    }
                    Some(Outcome::Done)
                }
                6 | 7 => match self.random.choose(&messages).copied() {
                    Some(Seen { id, .. }) => {
                        let delay_s = self.delay_s();
                        Some(self.action(Some(claim), Action::Return(id, delay_s)).await)
                    }
                    None => return,
                },
                _ => match left.pop() {
                    Some(Seen { id, .. }) => Some(self.action(Some(claim), Action::Delete(id)).await),
                    None => return,
                },
            };
            match done {
                Some(Outcome::Done) if !self.is_released(claim) => {}
                _ => {
                    self.abandoned.push((claim, messages));
                    if self.abandoned.len() > ABANDONED_MAX {
                        self.abandoned.remove(0);
                    }
                    return;
                }
            }
        }
    }

    /// Uses an abandoned claim, or a message without a claim.
    async fn use_abandoned_claim(&mut self) {
        let Some((claim, messages)) = self.random.choose(&self.abandoned).cloned() else { return };
        let message = self.random.choose(&messages).expect("no claim is empty").id;
        match self.random.within(0..=4) {
            0 => {
                let term = self.term();
                self.action(Some(claim), Action::Renew(term)).await
            }
            1 => {
                let delay_s = self.delay_s();
                self.action(Some(claim), Action::Return(message, delay_s)).await
            }
            2 => self.action(None, Action::Delete(message)).await,
            _ => self.action(Some(claim), Action::Delete(message)).await,
        };
    }

    async fn claim(&mut self, limit: usize, term: Term) -> Claimed {
        let _operation = self.context.coordinator.begin_operation().await;
        let invoked = self.context.coordinator.now();
        let outcome = self.context.wire.claim(&mut self.random, limit, term).await;
        let (span, outcome) = self.context.coordinator.record(invoked, outcome);
        let outcome = outcome.unwrap_or(Claimed::Unknown);
        self.work.claims.push(Claim { span, limit, term, outcome: outcome.clone() });
        if !matches!(outcome, Claimed::Unknown) {
            self.context.coordinator.update(|progress| progress.claims += 1);
        }
        outcome
    }

    async fn pop(&mut self, limit: usize) {
        let _operation = self.context.coordinator.begin_operation().await;
        let invoked = self.context.coordinator.now();
        let outcome = self.context.wire.pop(&mut self.random, limit).await;
        let (span, outcome) = self.context.coordinator.record(invoked, outcome);
        let (messages, is_paused) = outcome.unzip();
        let count = i64::try_from(messages.as_ref().map_or(0, Vec::len)).expect("it is small");
        self.context.coordinator.update(|progress| progress.outstanding -= count);
        self.work.pops.push(Pop { span, limit, messages, is_paused: is_paused == Some(true) });
    }

    async fn action(&mut self, claim: Option<Uuid>, action: Action) -> Outcome {
        let _operation = self.context.coordinator.begin_operation().await;
        let invoked = self.context.coordinator.now();
        let outcome = self.context.wire.use_claim(&mut self.random, claim, action).await;
        let (span, outcome) = self.context.coordinator.record(invoked, outcome);
        let outcome = outcome.unwrap_or(Outcome::Unknown);
        if matches!((action, outcome), (Action::Delete(_), Outcome::Done)) {
            self.context.coordinator.update(|progress| progress.outstanding -= 1);
        }
        self.work.claim_uses.push(ClaimUse { span, claim, action, outcome });
        outcome
    }

    fn is_released(&self, claim: Uuid) -> bool {
        let last = self.work.claim_uses.last();
        last.is_some_and(|claim_use| claim_use.claim == Some(claim) && matches!(claim_use.action, Action::Release))
    }

    fn delay_s(&mut self) -> u32 {
        if self.random.one_in(2) { 0 } else { term_s(&mut self.random, 1, DELAY_S_MAX) }
    }

    fn term(&mut self) -> Term {
        let ttl_s = term_s(&mut self.random, LEASE_S_MIN, LEASE_S_MAX);
        Term { ttl_s, grace_s: term_s(&mut self.random, 60, 200) }
    }
}

fn draft(tag: u64, random: &mut Random) -> Draft {
    let ttl_s = if random.one_in(4) { term_s(random, 60, 180) } else { LONG_TTL_S };
    let delay_s = match random.within(0..=5) {
        0 | 1 => Some(0),
        2 => None,
        _ => Some(term_s(random, 1, DELAY_S_MAX)),
    };
    Draft { tag, ttl_s, delay_s }
}

fn term_s(random: &mut Random, least: u32, most: u32) -> u32 {
    u32::try_from(random.within(least.into()..=most.into())).expect("it is small")
}
