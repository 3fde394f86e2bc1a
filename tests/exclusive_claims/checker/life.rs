//! The life of each known message.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::hold::Hold;
use super::lease::{self, Lease};
use super::{Rule, Violation};
use crate::exclusive_claims::history::{
    Action, Claim, ClaimUse, Claimed, Draft, History, Outcome, Rules, Seen, Span, Term,
};
use support::timeline::clock::StoreClock;

const SECOND: i64 = 1_000_000;
/// Largest delay of a message without a delay that is posted where a delayed one becomes due, in
/// microseconds. It waits behind the delayed one.
const QUEUED_US: u64 = 10_000;

pub(super) struct Life {
    pub(super) id: Uuid,
    pub(super) tag: u64,
    pub(super) ttl_s: u32,
    pub(super) posted_from: u64,
    /// The first time at which it was certainly present.
    pub(super) present_by: u64,
    /// The first times at which it may have been due, and at which it certainly was.
    pub(super) due: (u64, u64),
    /// The earliest and the latest end of its life, by the store's clock.
    ends: (i64, i64),
    /// Its deliveries, in the order of the requests.
    pub(super) deliveries: Vec<Delivery>,
    /// Deletions and pops; `false` for one of unknown outcome.
    removals: Vec<(Span, bool)>,
    /// The period in which it became a dead letter, if it did.
    pub(super) moved_to_dead_letters: Option<(u64, u64)>,
    /// The first time at which it may have been gone.
    pub(super) leaves_from: u64,
    /// The first time at which it was certainly gone.
    pub(super) gone_by: u64,
}

pub(super) struct Delivery {
    pub(super) span: Span,
    /// The claim that held it, or `None` for a pop.
    pub(super) held: Option<(Uuid, Hold)>,
}

pub(super) type Lives = BTreeMap<Uuid, Life>;

pub(super) fn lives(history: &History, leases: &HashMap<Uuid, Lease>, clock: &StoreClock) -> Result<Lives, Violation> {
    let mut lives = posted(history, clock)?;
    read_deliveries(history, leases, &mut lives, clock)?;
    for claim_use in &history.claim_uses {
        if let Action::Delete(id) = claim_use.action
            && claim_use.outcome != Outcome::Refused
            && let Some(life) = lives.get_mut(&id)
        {
            life.removals.push((claim_use.span, claim_use.outcome == Outcome::Done));
        }
    }
    let unknown = unknown_ends(history, clock);
    for life in lives.values_mut() {
        life.deliveries.sort_by_key(|delivery| delivery.span.invoked);
        if let Some((rule, what)) = life.apply_claims(history.rules, &unknown, clock) {
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
            let life = lives.get_mut(id).expect("it has just been inserted");
            if life.tag != *tag {
                return Err(Violation::new(history, Rule::Altered, format!("{id} has the tag {tag}"), &[*id]));
            }
            life.present_by = life.present_by.min(span.ended);
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

/// Returns the messages of posts without a response, by tag.
pub(super) fn unanswered(history: &History) -> HashMap<u64, (Span, Draft)> {
    let posts = history.posts.iter().filter(|post| post.ids.is_none());
    posts.flat_map(|post| post.drafts.iter().map(|draft| (draft.tag, (post.span, *draft)))).collect()
}

/// Returns the attempts to return messages, in order, by message and claim.
fn returns(history: &History) -> HashMap<(Uuid, Uuid), Vec<&ClaimUse>> {
    let mut returns: HashMap<(Uuid, Uuid), Vec<&ClaimUse>> = HashMap::new();
    for claim_use in &history.claim_uses {
        if let (Some(claim), Action::Return(id, _)) = (claim_use.claim, claim_use.action) {
            returns.entry((claim, id)).or_default().push(claim_use);
        }
    }
    for claim_uses in returns.values_mut() {
        claim_uses.sort_by_key(|claim_use| claim_use.span.invoked);
    }
    returns
}

impl Life {
    pub(super) fn new(id: Uuid, post: Span, draft: &Draft, present_by: u64, rules: Rules, clock: &StoreClock) -> Self {
        let (earliest, latest) = clock.between(post.invoked, post.ended);
        let ttl_us = i64::from(draft.ttl_s) * SECOND;
        let delay_us = i64::from(draft.delay_s.unwrap_or(rules.delay_s)) * SECOND;
        let due = if delay_us == 0 {
            (0, present_by.saturating_add(QUEUED_US))
        } else {
            // The message may be behind another one that waits too, for a second at most.
            (clock.may_reach(earliest + delay_us), clock.must_reach(latest + delay_us + SECOND).max(present_by))
        };
        Self {
            id,
            tag: draft.tag,
            ttl_s: draft.ttl_s,
            posted_from: post.invoked,
            present_by,
            due,
            // The message expires on a whole second.
            ends: (earliest + ttl_us, latest + ttl_us + SECOND),
            deliveries: Vec::new(),
            removals: Vec::new(),
            moved_to_dead_letters: None,
            leaves_from: u64::MAX,
            gone_by: u64::MAX,
        }
    }

    /// Returns the periods in which claims held it.
    pub(super) fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.deliveries.iter().filter_map(|delivery| Some(&delivery.held.as_ref()?.1))
    }

    pub(super) fn hold_of(&self, claim: Uuid) -> Option<&Hold> {
        self.deliveries
            .iter()
            .find_map(|delivery| delivery.held.as_ref().filter(|(by, _)| *by == claim).map(|(_, hold)| hold))
    }

    /// Returns the first time at which it may have been available after its last delivery.
    pub(super) fn may_be_free_from(&self) -> u64 {
        match self.deliveries.last() {
            Some(Delivery { held: Some((_, hold)), .. }) => hold.may_end(),
            Some(_popped) => u64::MAX,
            None => self.due.0,
        }
    }

    /// Records that it became a dead letter within this period, whose start may be too early.
    pub(super) fn set_moved_to_dead_letters(&mut self, from: u64, by: u64) {
        let from = from.max(self.may_be_free_from());
        self.moved_to_dead_letters = Some((from, by));
        self.leaves_from = self.leaves_from.min(from);
        self.gone_by = self.gone_by.min(by);
    }

    /// Returns whether a removal other than that of the span may have happened by then.
    pub(super) fn may_be_removed(&self, but: Option<Span>, by: u64) -> bool {
        self.removals.iter().any(|(span, _)| Some(*span) != but && span.invoked <= by)
    }

    /// Returns whether it may have expired by then.
    pub(super) fn may_have_expired(&self, by: u64, clock: &StoreClock) -> bool {
        clock.may_reach(self.ends.0) <= by
    }

    /// Follows its life from claim to claim. Each of them may have extended it.
    fn apply_claims(&mut self, rules: Rules, unknown: &[(u64, i64)], clock: &StoreClock) -> Option<(Rule, String)> {
        if let Some(early) = self.deliveries.iter().find(|delivery| delivery.span.ended < self.due.0) {
            return Some((Rule::Early, format!("was not due, but was delivered {}", early.span)));
        }
        if self.deliveries.len() > rules.count_max as usize {
            return Some((Rule::TooOften, format!("was delivered {} times", self.deliveries.len())));
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
        // Each claim with the earliest and the latest end to which it extended the life.
        let mut extended: Vec<(Span, (i64, i64))> = Vec::new();
        for (index, (span, term)) in terms.iter().enumerate() {
            // Renewals that overlap may have happened in any order.
            let overlapping = terms[index + 1..].iter().filter(|(other, _)| other.invoked <= span.ended);
            let overlapping = overlapping.filter_map(|(other, term)| {
                Some(last_end(clock.between(other.invoked, other.ended).1, term.as_ref()?.0))
            });
            let latest = extended.iter().map(|(_, ends)| ends.1).chain(overlapping);
            // If an unknown claim has already extended the life, this claim may have left it
            // unchanged.
            let latest = latest.fold(self.ends.1.max(unknown_end(unknown, span.ended)), i64::max);
            if self.deliveries.iter().any(|delivery| delivery.span == *span) {
                if deleted_by < span.invoked {
                    return Some((Rule::Deleted, format!("was deleted, but was delivered {span}")));
                }
                if clock.must_reach(latest) < span.invoked {
                    return Some((Rule::Ended, format!("had expired, but was delivered {span}")));
                }
            }
            if let Some((term, known)) = term {
                let before = extended.iter().filter(|(other, _)| other.ended < span.invoked);
                let earliest = before.map(|(_, ends)| ends.0).fold(self.ends.0, i64::max);
                let time = clock.between(span.invoked, span.ended);
                extended.push((*span, extend(time, (earliest, latest), *term, *known)));
            }
        }
        for (_, (earliest, latest)) in extended {
            self.ends = (self.ends.0.max(earliest), self.ends.1.max(latest));
        }
        let removed_from = self.removals.iter().map(|(span, _)| span.invoked).min().unwrap_or(u64::MAX);
        self.leaves_from = removed_from.min(clock.may_reach(self.ends.0));
        let latest = self.ends.1.max(unknown_end(unknown, u64::MAX));
        self.gone_by = deleted_by.min(clock.must_reach(latest));
        None
    }
}

/// Returns the earliest and the latest end of a life after a claim that began at this time.
fn extend((earliest, latest): (i64, i64), ends: (i64, i64), term: Term, known: bool) -> (i64, i64) {
    let (ttl_us, grace_us) = (i64::from(term.ttl_s) * SECOND, i64::from(term.grace_s) * SECOND);
    let surely = ends.1 < earliest + ttl_us;
    let surely_not = ends.0 >= latest + ttl_us;
    if surely_not {
        return (i64::MIN, i64::MIN);
    }
    let least = if known { earliest + ttl_us + if surely { grace_us } else { 0 } } else { i64::MIN };
    (least, last_end(latest, term))
}

/// Returns the latest end that a claim gives a message, if the claim began at the latest at this
/// time.
fn last_end(latest: i64, term: Term) -> i64 {
    latest + i64::from(term.ttl_s + term.grace_s) * SECOND + SECOND
}

/// Returns the times of claims that may have held unreported messages, and the end to which each
/// may have extended any life.
fn unknown_ends(history: &History, clock: &StoreClock) -> Vec<(u64, i64)> {
    let end = |claim: &Claim| last_end(clock.between(claim.span.invoked, claim.span.ended).1, claim.term);
    lease::uncertain(history, clock).map(|(claim, _)| (claim.span.invoked, end(claim))).collect()
}

fn unknown_end(unknown: &[(u64, i64)], by: u64) -> i64 {
    let ends = unknown.iter().filter(|(invoked, _)| *invoked < by).map(|(_, end)| *end);
    ends.max().unwrap_or(i64::MIN)
}
