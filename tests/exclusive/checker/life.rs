//! The life of each message that anybody got to know.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::hold::Hold;
use super::lease::{self, Lease};
use super::{Rule, Violation};
use crate::exclusive::history::{Act, Claim, Claimed, Draft, History, Outcome, Rules, Seen, Span, Term, Turn};
use crate::support::chronicle::clock::StoreClock;

const SECOND: i64 = 1_000_000;
/// A message without delay that is posted where a delayed one becomes due waits behind that one, for microseconds.
const QUEUED_US: u64 = 10_000;

pub(super) struct Life {
    pub(super) id: Uuid,
    pub(super) tag: u64,
    pub(super) ttl_s: u32,
    pub(super) posted_from: u64,
    /// From this moment on it was there for certain.
    pub(super) there_by: u64,
    /// From this moment on it may have been due, and from that one on it certainly was.
    pub(super) due: (u64, u64),
    /// The earliest and the latest end of its life, by the store's clock.
    ends: (i64, i64),
    /// Who got it, in the order of asking.
    pub(super) deliveries: Vec<Delivery>,
    /// Deletions and pops; false for one of unknown outcome.
    removals: Vec<(Span, bool)>,
    /// Between these moments it became a dead letter, if it did.
    pub(super) died: Option<(u64, u64)>,
    /// From this moment on it may have been gone.
    pub(super) leaves_from: u64,
    /// From this moment on it was certainly gone.
    pub(super) gone_by: u64,
}

pub(super) struct Delivery {
    pub(super) span: Span,
    /// None for a pop.
    pub(super) held: Option<(Uuid, Hold)>,
}

pub(super) type Lives = BTreeMap<Uuid, Life>;

pub(super) fn lives(history: &History, leases: &HashMap<Uuid, Lease>, clock: &StoreClock) -> Result<Lives, Violation> {
    let mut lives = posted(history, clock)?;
    read_deliveries(history, leases, &mut lives, clock)?;
    for turn in &history.turns {
        if let Act::Delete(id) = turn.act
            && turn.outcome != Outcome::Refused
            && let Some(life) = lives.get_mut(&id)
        {
            life.removals.push((turn.span, turn.outcome == Outcome::Done));
        }
    }
    let unknown = unknown_ends(history, clock);
    for life in lives.values_mut() {
        life.deliveries.sort_by_key(|delivery| delivery.span.invoked);
        if let Some((rule, what)) = life.live(history.rules, &unknown, clock) {
            return Err(Violation::new(history, rule, format!("{} {what}", life.id), &[life.id]));
        }
    }
    Ok(lives)
}

fn posted(history: &History, clock: &StoreClock) -> Result<Lives, Violation> {
    let mut lives = Lives::new();
    for post in &history.posts {
        for (draft, id) in post.drafts.iter().zip(post.ids.iter().flatten()) {
            if lives.insert(*id, Life::new(*id, post.span, draft, post.span.ended, history.rules, clock)).is_some() {
                return Err(Violation::new(history, Rule::Invented, format!("{id} was given twice"), &[*id]));
            }
        }
    }
    Ok(lives)
}

fn read_deliveries(
    history: &History,
    leases: &HashMap<Uuid, Lease>,
    lives: &mut Lives,
    clock: &StoreClock,
) -> Result<(), Violation> {
    let mut unanswered = unanswered(history);
    let returns = returns(history);
    let claims = history.claims.iter().filter_map(|claim| match &claim.outcome {
        Claimed::Got(id, messages) => Some((claim.span, Some(*id), messages.as_slice())),
        _ => None,
    });
    let pops = history.pops.iter().map(|pop| (pop.span, None, pop.messages()));
    for (span, by, messages) in claims.chain(pops) {
        for Seen { id, tag } in messages {
            if !lives.contains_key(id) {
                let Some((post, draft)) = unanswered.remove(tag) else {
                    return Err(Violation::new(history, Rule::Invented, format!("{id} was never posted"), &[*id]));
                };
                lives.insert(*id, Life::new(*id, post, &draft, span.ended, history.rules, clock));
            }
            let life = lives.get_mut(id).expect("it has just been put there");
            if life.tag != *tag {
                return Err(Violation::new(history, Rule::Altered, format!("{id} says {tag}"), &[*id]));
            }
            life.there_by = life.there_by.min(span.ended);
            let held = by.and_then(|by| {
                let returns = returns.get(&(by, *id)).map(Vec::as_slice).unwrap_or_default();
                Some((by, Hold::new(span, leases.get(&by)?, returns, clock)))
            });
            if by.is_none() {
                life.removals.push((span, true));
            }
            life.deliveries.push(Delivery { span, held });
        }
    }
    Ok(())
}

/// What was posted without an answer, by its tag.
pub(super) fn unanswered(history: &History) -> HashMap<u64, (Span, Draft)> {
    let posts = history.posts.iter().filter(|post| post.ids.is_none());
    posts.flat_map(|post| post.drafts.iter().map(|draft| (draft.tag, (post.span, *draft)))).collect()
}

/// Who tried to give which message back through which claim, in order.
fn returns(history: &History) -> HashMap<(Uuid, Uuid), Vec<&Turn>> {
    let mut returns: HashMap<(Uuid, Uuid), Vec<&Turn>> = HashMap::new();
    for turn in &history.turns {
        if let (Some(claim), Act::Return(id, _)) = (turn.claim, turn.act) {
            returns.entry((claim, id)).or_default().push(turn);
        }
    }
    for turns in returns.values_mut() {
        turns.sort_by_key(|turn| turn.span.invoked);
    }
    returns
}

impl Life {
    pub(super) fn new(id: Uuid, post: Span, draft: &Draft, there_by: u64, rules: Rules, clock: &StoreClock) -> Self {
        let (earliest, latest) = clock.between(post.invoked, post.ended);
        let ttl_us = i64::from(draft.ttl_s) * SECOND;
        let delay_us = i64::from(draft.delay_s.unwrap_or(rules.delay_s)) * SECOND;
        let due = if delay_us == 0 {
            (0, there_by.saturating_add(QUEUED_US))
        } else {
            // It may stand behind one that waits itself, which is a second at most.
            (clock.may_reach(earliest + delay_us), clock.must_reach(latest + delay_us + SECOND).max(there_by))
        };
        Self {
            id,
            tag: draft.tag,
            ttl_s: draft.ttl_s,
            posted_from: post.invoked,
            there_by,
            due,
            // It ends on a whole second.
            ends: (earliest + ttl_us, latest + ttl_us + SECOND),
            deliveries: Vec::new(),
            removals: Vec::new(),
            died: None,
            leaves_from: u64::MAX,
            gone_by: u64::MAX,
        }
    }

    /// When claims have held it.
    pub(super) fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.deliveries.iter().filter_map(|delivery| Some(&delivery.held.as_ref()?.1))
    }

    pub(super) fn hold_of(&self, claim: Uuid) -> Option<&Hold> {
        self.deliveries
            .iter()
            .find_map(|delivery| delivery.held.as_ref().filter(|(by, _)| *by == claim).map(|(_, hold)| hold))
    }

    /// The first moment at which it may have been free after it was given out last.
    pub(super) fn may_be_free_from(&self) -> u64 {
        match self.deliveries.last() {
            Some(Delivery { held: Some((_, hold)), .. }) => hold.may_end(),
            Some(_popped) => u64::MAX,
            None => self.due.0,
        }
    }

    /// It became a dead letter between these moments, of which the first may be too early.
    pub(super) fn die(&mut self, from: u64, by: u64) {
        let from = from.max(self.may_be_free_from());
        self.died = Some((from, by));
        self.leaves_from = self.leaves_from.min(from);
        self.gone_by = self.gone_by.min(by);
    }

    /// Whether another removal than that of the span may have happened by then.
    pub(super) fn may_be_removed(&self, but: Option<Span>, by: u64) -> bool {
        self.removals.iter().any(|(span, _)| Some(*span) != but && span.invoked <= by)
    }

    /// Whether its time may have come by then.
    pub(super) fn may_have_expired(&self, by: u64, clock: &StoreClock) -> bool {
        clock.may_reach(self.ends.0) <= by
    }

    /// Follows its life from claim to claim, each of which may have prolonged it.
    fn live(&mut self, rules: Rules, unknown: &[(u64, i64)], clock: &StoreClock) -> Option<(Rule, String)> {
        if let Some(early) = self.deliveries.iter().find(|delivery| delivery.span.ended < self.due.0) {
            return Some((Rule::Early, format!("was not due, and given out {}", early.span)));
        }
        if self.deliveries.len() > rules.count_max as usize {
            return Some((Rule::TooOften, format!("was given out {} times", self.deliveries.len())));
        }
        let deleted_by = self.removals.iter().filter(|(_, known)| *known).map(|(span, _)| span.ended).min();
        let deleted_by = deleted_by.unwrap_or(u64::MAX);
        let mut terms: Vec<(Span, Option<(Term, bool)>)> = Vec::new();
        for Delivery { span, held } in &self.deliveries {
            match held {
                Some((_, hold)) => {
                    terms.extend(hold.terms.iter().map(|(span, term, known)| (*span, Some((*term, *known)))));
                }
                None => terms.push((*span, None)),
            }
        }
        terms.sort_by_key(|(span, _)| span.invoked);
        // Each with what it has prolonged the life to, at least and at most.
        let mut prolonged: Vec<(Span, (i64, i64))> = Vec::new();
        for (index, (span, term)) in terms.iter().enumerate() {
            // Those that overlap may have come in any order.
            let overlapping = terms[index + 1..].iter().filter(|(other, _)| other.invoked <= span.ended);
            let overlapping = overlapping.filter_map(|(other, term)| {
                Some(last_end(clock.between(other.invoked, other.ended).1, term.as_ref()?.0))
            });
            let latest = prolonged.iter().map(|(_, ends)| ends.1).chain(overlapping);
            // What a claim of which nobody knows has prolonged, this one may have left as it was.
            let latest = latest.fold(self.ends.1.max(unknown_end(unknown, span.ended)), i64::max);
            if self.deliveries.iter().any(|delivery| delivery.span == *span) {
                if deleted_by < span.invoked {
                    return Some((Rule::Deleted, format!("was deleted, and given out {span}")));
                }
                if clock.must_reach(latest) < span.invoked {
                    return Some((Rule::Ended, format!("had expired, and was given out {span}")));
                }
            }
            if let Some((term, known)) = term {
                let before = prolonged.iter().filter(|(other, _)| other.ended < span.invoked);
                let earliest = before.map(|(_, ends)| ends.0).fold(self.ends.0, i64::max);
                let time = clock.between(span.invoked, span.ended);
                prolonged.push((*span, prolong(time, (earliest, latest), *term, *known)));
            }
        }
        for (_, (earliest, latest)) in prolonged {
            self.ends = (self.ends.0.max(earliest), self.ends.1.max(latest));
        }
        let removed_from = self.removals.iter().map(|(span, _)| span.invoked).min().unwrap_or(u64::MAX);
        self.leaves_from = removed_from.min(clock.may_reach(self.ends.0));
        let latest = self.ends.1.max(unknown_end(unknown, u64::MAX));
        self.gone_by = deleted_by.min(clock.must_reach(latest));
        None
    }
}

/// To when a claim that began to run at that time has prolonged a life, at least and at most.
fn prolong((earliest, latest): (i64, i64), ends: (i64, i64), term: Term, known: bool) -> (i64, i64) {
    let (ttl_us, grace_us) = (i64::from(term.ttl_s) * SECOND, i64::from(term.grace_s) * SECOND);
    let surely = ends.1 < earliest + ttl_us;
    let surely_not = ends.0 >= latest + ttl_us;
    if surely_not {
        return (i64::MIN, i64::MIN);
    }
    let least = if known { earliest + ttl_us + if surely { grace_us } else { 0 } } else { i64::MIN };
    (least, last_end(latest, term))
}

/// The latest end that a claim gives a message, when it began to run then at the latest.
fn last_end(latest: i64, term: Term) -> i64 {
    latest + i64::from(term.ttl_s + term.grace_s) * SECOND + SECOND
}

/// When claims were asked for that may have had messages of which nobody was told, and to when each may have prolonged any life.
fn unknown_ends(history: &History, clock: &StoreClock) -> Vec<(u64, i64)> {
    let end = |claim: &Claim| last_end(clock.between(claim.span.invoked, claim.span.ended).1, claim.term);
    lease::in_doubt(history, clock).map(|(claim, _)| (claim.span.invoked, end(claim))).collect()
}

fn unknown_end(unknown: &[(u64, i64)], by: u64) -> i64 {
    let ends = unknown.iter().filter(|(invoked, _)| *invoked < by).map(|(_, end)| *end);
    ends.max().unwrap_or(i64::MIN)
}
