//! Those who work on a queue, and what each of them records.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sukkal::domain::QueueId;
use tokio::time::timeout;
use uuid::Uuid;

use super::board::Board;
use super::history::{Act, Claim, Claimed, Draft, Outcome, Pop, Post, Seen, Term, Turn};
use super::wire::{QUEUE, Wire};
use crate::support::chronicle::ClockMove;
use crate::support::chronicle::choices::Choices;
use crate::support::ground::Ground;

pub(super) const WORKERS: usize = 32;
pub(super) const PRODUCERS: usize = 4;
pub(super) const DRAINERS: usize = 4;
/// Longer than any claim that a worker makes.
/// The shortest and the longest claims.
const LEASE_S_MIN: u32 = 60;
pub(super) const LEASE_S_MAX: u32 = 120;
/// Less than a claim lasts: one that is over before its answer is rare then, and only such a claim leaves the checker in doubt.
const STEP_US_MAX: u64 = 50_000_000;

const LIMIT_MAX: u64 = 20;
/// A message with a long life ends after the test, one with a short life may end before its claim does.
const LONG_TTL_S: u32 = 1_209_600;
const DRAIN: Term = Term { ttl_s: 43_200, grace_s: 60 };
const CLAIMS_PER_MOVE: u64 = 60;
/// The shards of a queue that is divided anew, and how many claims that is apart.
const DIVISIONS: [u16; 4] = [64, 8, 64, 1];
const CLAIMS_PER_DIVISION_MAX: u64 = 50;
/// As long as most leases and some moves of the clock.
const DELAY_S_MAX: u32 = 60;
const GHOSTS_MAX: usize = 8;
/// More than it takes: each claim gets messages, or makes dead letters of some.
const DRAIN_CLAIMS_MAX: usize = 500;
/// Nobody waits longer for others: everything here is driven by claims.
const PAUSE_MAX: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) wire: Arc<Wire>,
    pub(super) board: Arc<Board>,
}

#[derive(Clone, Copy)]
pub(super) enum Role {
    Producer = 1,
    Worker,
    ClockMover,
    Auditor,
    Drainer,
    Divider,
}

/// What one worker has done.
#[derive(Default)]
pub(super) struct Work {
    pub(super) claims: Vec<Claim>,
    pub(super) turns: Vec<Turn>,
    pub(super) pops: Vec<Pop>,
}

/// A worker, and the claims that it has not ended itself: some will be over when it comes back to them.
struct Worker {
    scene: Scene,
    choices: Choices,
    ghosts: Vec<(Uuid, Vec<Seen>)>,
    work: Work,
}

impl Scene {
    pub(super) async fn produce(self, number: usize) -> Vec<Post> {
        let mut choices = self.choices(Role::Producer, number);
        let mut posts = Vec::new();
        loop {
            let size = choices.within(1..=LIMIT_MAX);
            let Some(first) = self.board.draw(size).await else { return posts };
            let drafts: Vec<Draft> = (first..first + size).map(|tag| draft(tag, &mut choices)).collect();

            let _turn = self.board.turn().await;
            let invoked = self.board.now();
            let outcome = self.wire.post(&mut choices, &drafts).await;
            let (span, ids) = self.board.record(invoked, outcome);
            self.board.tell(|news| {
                news.posts += 1;
                news.outstanding += size.cast_signed();
            });
            posts.push(Post { span, drafts, ids });
        }
    }

    pub(super) async fn work(self, number: usize) -> Work {
        let choices = self.choices(Role::Worker, number);
        let mut worker = Worker { scene: self, choices, ghosts: Vec::new(), work: Work::default() };
        while !worker.scene.board.news().borrow().over {
            worker.job().await;
        }
        worker.work
    }

    /// Moves the queue's clock ahead, so that claims run out while they are used.
    pub(super) async fn move_clock(self, store: Ground, queue: QueueId, start: ClockMove) -> Vec<ClockMove> {
        let mut choices = self.choices(Role::ClockMover, 0);
        let mut moves = vec![start];
        let mut due = 0;
        loop {
            due += choices.within(CLAIMS_PER_MOVE / 2..=CLAIMS_PER_MOVE * 3 / 2);
            let goes_on = self.board.wait_until(|news| news.claims >= due).await;
            if !goes_on {
                // The last move ends all claims, so there must not come another.
                self.board.wait_for_rest().await;
            }
            let ahead = match choices.within(0..=3) {
                _ if !goes_on => u64::from(LEASE_S_MAX) * 1_000_000 * 2,
                0 => choices.within(20_000_000..=STEP_US_MAX),
                _ => choices.within(500_000..=9_000_000),
            };
            let _turn = self.board.turn().await;
            let before = moves.last().map_or(0, |step| step.offset_us);
            let offset_us = before + i64::try_from(ahead).expect("it is small");
            moves.push(self.set_clock(&store, &queue, offset_us).await);
            self.board.tell(|news| news.moves += 1);
            if !goes_on {
                return moves;
            }
        }
    }

    /// Divides the queue into more shards and fewer, and into none, until all is over.
    pub(super) async fn divide_anew(self) {
        let mut choices = self.choices(Role::Divider, 0);
        let mut due = 0;
        loop {
            due += choices.within(1..=CLAIMS_PER_DIVISION_MAX);
            if !self.board.wait_until(|news| news.claims >= due).await {
                return;
            }
            let shards = *choices.among(&DIVISIONS).expect("there are some");
            let _turn = self.board.turn().await;
            let outcome = self.wire.divide(&mut choices, shards).await;
            self.board.record(self.board.now(), outcome);
        }
    }

    /// Sets how far the queue's clock is ahead of the real one.
    pub(super) async fn set_clock(&self, store: &Ground, queue: &QueueId, offset_us: i64) -> ClockMove {
        let invoked = self.board.now();
        store.set_clock(queue, offset_us).await;
        ClockMove { invoked, answered: self.board.now(), offset_us }
    }

    /// Claims all there is, for longer than the test takes.
    pub(super) async fn drain(self, number: usize) -> Work {
        let choices = self.choices(Role::Drainer, number);
        let mut worker = Worker { scene: self, choices, ghosts: Vec::new(), work: Work::default() };
        let mut had = HashSet::new();
        for _ in 0..DRAIN_CLAIMS_MAX {
            match worker.claim(20, DRAIN).await {
                // What comes twice would come for ever; the checker sees it too.
                Claimed::Got(_, messages) if messages.iter().all(|seen| had.insert(seen.id)) => {}
                Claimed::Unknown => {}
                Claimed::Got(..) => break,
                // It may have got nothing but messages that died.
                Claimed::Nothing => {
                    let counted = worker.scene.wire.count(&mut worker.choices, QUEUE).await;
                    if matches!(counted, Ok([_, _, 0])) {
                        break;
                    }
                }
            }
        }
        worker.work
    }

    pub(super) fn choices(&self, role: Role, number: usize) -> Choices {
        Choices::of(self.seed, role as u64, number)
    }
}

impl Worker {
    /// One pop, or one claim and what becomes of it.
    async fn job(&mut self) {
        if self.choices.one_in(4) {
            self.haunt().await;
        }
        let limit = usize::try_from(self.choices.within(1..=LIMIT_MAX)).expect("it is small");
        let before = *self.scene.board.news().borrow();
        if self.choices.one_in(12) {
            self.pop(limit).await;
            return;
        }
        let term = self.term();
        match self.claim(limit, term).await {
            Claimed::Got(claim, messages) => self.work_on(claim, messages).await,
            Claimed::Nothing => {
                let changed = |posts, moves| posts > before.posts || moves > before.moves;
                let _changed =
                    timeout(PAUSE_MAX, self.scene.board.wait_until(|news| changed(news.posts, news.moves))).await;
            }
            Claimed::Unknown => {}
        }
    }

    async fn work_on(&mut self, claim: Uuid, messages: Vec<Seen>) {
        let mut left = messages.clone();
        loop {
            let done = match self.choices.within(0..=13) {
                0 => Some(self.act(Some(claim), Act::Release).await),
                // It dies, and may come back as a ghost.
                1 => None,
                2 | 3 => {
                    let term = self.term();
                    Some(self.act(Some(claim), Act::Renew(term)).await)
                }
                4 => {
                    let moves = self.scene.board.news().borrow().moves;
                    let _moved = timeout(PAUSE_MAX, self.scene.board.wait_until(|news| news.moves > moves)).await;
                    Some(Outcome::Done)
                }
                // What belongs to another, or to nobody.
                5 => {
                    let foreign = self.choices.among(&self.ghosts).and_then(|(_, messages)| messages.first()).copied();
                    if let Some(Seen { id, .. }) = foreign {
                        let act = if self.choices.one_in(2) { Act::Delete(id) } else { Act::Return(id, 0) };
                        self.act(Some(claim), act).await;
                    }
                    Some(Outcome::Done)
                }
                6 | 7 => match self.choices.among(&messages).copied() {
                    Some(Seen { id, .. }) => {
                        let delay_s = self.delay_s();
                        Some(self.act(Some(claim), Act::Return(id, delay_s)).await)
                    }
                    None => return,
                },
                _ => match left.pop() {
                    Some(Seen { id, .. }) => Some(self.act(Some(claim), Act::Delete(id)).await),
                    None => return,
                },
            };
            match done {
                Some(Outcome::Done) if !self.is_released(claim) => {}
                _ => {
                    self.ghosts.push((claim, messages));
                    if self.ghosts.len() > GHOSTS_MAX {
                        self.ghosts.remove(0);
                    }
                    return;
                }
            }
        }
    }

    /// Comes back to an old claim, or to a message without a claim.
    async fn haunt(&mut self) {
        let Some((claim, messages)) = self.choices.among(&self.ghosts).cloned() else { return };
        let message = self.choices.among(&messages).expect("no claim is empty").id;
        match self.choices.within(0..=4) {
            0 => {
                let term = self.term();
                self.act(Some(claim), Act::Renew(term)).await
            }
            1 => {
                let delay_s = self.delay_s();
                self.act(Some(claim), Act::Return(message, delay_s)).await
            }
            2 => self.act(None, Act::Delete(message)).await,
            _ => self.act(Some(claim), Act::Delete(message)).await,
        };
    }

    async fn claim(&mut self, limit: usize, term: Term) -> Claimed {
        let _turn = self.scene.board.turn().await;
        let invoked = self.scene.board.now();
        let outcome = self.scene.wire.claim(&mut self.choices, limit, term).await;
        let (span, outcome) = self.scene.board.record(invoked, outcome);
        let outcome = outcome.unwrap_or(Claimed::Unknown);
        self.work.claims.push(Claim { span, limit, term, outcome: outcome.clone() });
        self.scene.board.tell(|news| news.claims += 1);
        outcome
    }

    async fn pop(&mut self, limit: usize) {
        let _turn = self.scene.board.turn().await;
        let invoked = self.scene.board.now();
        let outcome = self.scene.wire.pop(&mut self.choices, limit).await;
        let (span, messages) = self.scene.board.record(invoked, outcome);
        let count = i64::try_from(messages.as_ref().map_or(0, Vec::len)).expect("it is small");
        self.scene.board.tell(|news| news.outstanding -= count);
        self.work.pops.push(Pop { span, limit, messages });
    }

    async fn act(&mut self, claim: Option<Uuid>, act: Act) -> Outcome {
        let _turn = self.scene.board.turn().await;
        let invoked = self.scene.board.now();
        let outcome = self.scene.wire.turn(&mut self.choices, claim, act).await;
        let (span, outcome) = self.scene.board.record(invoked, outcome);
        let outcome = outcome.unwrap_or(Outcome::Unknown);
        if matches!((act, outcome), (Act::Delete(_), Outcome::Done)) {
            self.scene.board.tell(|news| news.outstanding -= 1);
        }
        self.work.turns.push(Turn { span, claim, act, outcome });
        outcome
    }

    fn is_released(&self, claim: Uuid) -> bool {
        let last = self.work.turns.last();
        last.is_some_and(|turn| turn.claim == Some(claim) && matches!(turn.act, Act::Release))
    }

    fn delay_s(&mut self) -> u32 {
        if self.choices.one_in(2) { 0 } else { term_s(&mut self.choices, 1, DELAY_S_MAX) }
    }

    fn term(&mut self) -> Term {
        let ttl_s = term_s(&mut self.choices, LEASE_S_MIN, LEASE_S_MAX);
        Term { ttl_s, grace_s: term_s(&mut self.choices, 60, 200) }
    }
}

fn draft(tag: u64, choices: &mut Choices) -> Draft {
    let ttl_s = if choices.one_in(4) { term_s(choices, 60, 180) } else { LONG_TTL_S };
    let delay_s = match choices.within(0..=5) {
        0 | 1 => Some(0),
        2 => None,
        _ => Some(term_s(choices, 1, DELAY_S_MAX)),
    };
    Draft { tag, ttl_s, delay_s }
}

fn term_s(choices: &mut Choices, least: u32, most: u32) -> u32 {
    u32::try_from(choices.within(least.into()..=most.into())).expect("it is small")
}
