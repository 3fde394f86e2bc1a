//! The life of each message that anybody got to know.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::lease::Lease;
use super::{Rule, Violation};
use crate::exclusive::history::{Act, Claimed, Draft, History, Outcome, Seen, Span, Term};
use crate::support::chronicle::clock::StoreClock;

const SECOND: i64 = 1_000_000;

pub(super) struct Life {
    pub(super) id: Uuid,
    pub(super) posted_from: u64,
    /// From this moment on it was there for certain.
    pub(super) there_by: u64,
    /// The earliest and the latest end of its life, by the store's clock.
    ends: (i64, i64),
    /// Who got it, in the order of asking; none for a pop.
    pub(super) deliveries: Vec<(Span, Option<Uuid>)>,
    /// Deletions and pops; false for one of unknown outcome.
    removals: Vec<(Span, bool)>,
    /// From this moment on it may have been gone.
    pub(super) leaves_from: u64,
    /// From this moment on it was certainly gone.
    pub(super) gone_by: u64,
}

pub(super) type Lives = BTreeMap<Uuid, Life>;

pub(super) fn lives(history: &History, leases: &HashMap<Uuid, Lease>, clock: &StoreClock) -> Result<Lives, Violation> {
    let mut lives = posted(history, clock)?;
    read_deliveries(history, &mut lives, clock)?;
    for turn in &history.turns {
        if let Act::Delete(id) = turn.act
            && turn.outcome != Outcome::Refused
            && let Some(life) = lives.get_mut(&id)
        {
            life.removals.push((turn.span, turn.outcome == Outcome::Done));
        }
    }
    for life in lives.values_mut() {
        life.deliveries.sort_by_key(|(span, _)| span.invoked);
        if let Some((rule, what)) = life.live(history, leases, clock) {
            return Err(Violation::new(history, rule, format!("{} {what}", life.id), &[life.id]));
        }
    }
    Ok(lives)
}

fn posted(history: &History, clock: &StoreClock) -> Result<Lives, Violation> {
    let mut lives = Lives::new();
    for post in &history.posts {
        for (draft, id) in post.drafts.iter().zip(post.ids.iter().flatten()) {
            if lives.insert(*id, Life::new(*id, post.span, draft, post.span.ended, clock)).is_some() {
                return Err(Violation::new(history, Rule::Invented, format!("{id} was given twice"), &[*id]));
            }
        }
    }
    Ok(lives)
}

fn read_deliveries(history: &History, lives: &mut Lives, clock: &StoreClock) -> Result<(), Violation> {
    let mut unanswered: HashMap<u64, (Span, Draft)> = HashMap::new();
    for post in history.posts.iter().filter(|post| post.ids.is_none()) {
        unanswered.extend(post.drafts.iter().map(|draft| (draft.tag, (post.span, *draft))));
    }
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
                lives.insert(*id, Life::new(*id, post, &draft, span.ended, clock));
            }
            let life = lives.get_mut(id).expect("it has just been put there");
            life.there_by = life.there_by.min(span.ended);
            life.deliveries.push((span, by));
            if by.is_none() {
                life.removals.push((span, true));
            }
        }
    }
    Ok(())
}

impl Life {
    fn new(id: Uuid, post: Span, draft: &Draft, there_by: u64, clock: &StoreClock) -> Self {
        let (earliest, latest) = clock.between(post.invoked, post.ended);
        let ttl_us = i64::from(draft.ttl_s) * SECOND;
        Self {
            id,
            posted_from: post.invoked,
            there_by,
            // It ends on a whole second.
            ends: (earliest + ttl_us, latest + ttl_us + SECOND),
            deliveries: Vec::new(),
            removals: Vec::new(),
            leaves_from: 0,
            gone_by: 0,
        }
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
    fn live(&mut self, history: &History, leases: &HashMap<Uuid, Lease>, clock: &StoreClock) -> Option<(Rule, String)> {
        let deleted_by = self.removals.iter().filter(|(_, known)| *known).map(|(span, _)| span.ended).min();
        let deleted_by = deleted_by.unwrap_or(u64::MAX);
        let mut terms: Vec<(Span, Option<(Term, bool)>)> = Vec::new();
        for (span, by) in &self.deliveries {
            match by.and_then(|by| leases.get(&by)) {
                Some(lease) => {
                    terms.extend(lease.terms.iter().map(|(span, term, known)| (*span, Some((*term, *known)))));
                }
                None => terms.push((*span, None)),
            }
        }
        terms.sort_by_key(|(span, _)| span.invoked);
        for (span, term) in terms {
            if self.deliveries.iter().any(|(delivered, _)| *delivered == span) {
                if deleted_by < span.invoked {
                    return Some((Rule::Deleted, format!("was deleted, and given out {span}")));
                }
                let latest = self.ends.1.max(unknown_end(history, span.ended, clock));
                if clock.must_reach(latest) < span.invoked {
                    return Some((Rule::Ended, format!("had expired, and was given out {span}")));
                }
            }
            if let Some((term, known)) = term {
                // What a claim of which nobody knows has prolonged, this one may have left as it was.
                let latest_end = self.ends.1.max(unknown_end(history, span.ended, clock));
                self.prolong(clock.between(span.invoked, span.ended), latest_end, term, known);
            }
        }
        let removed_from = self.removals.iter().map(|(span, _)| span.invoked).min().unwrap_or(u64::MAX);
        self.leaves_from = removed_from.min(clock.may_reach(self.ends.0));
        let latest = self.ends.1.max(unknown_end(history, u64::MAX, clock));
        self.gone_by = deleted_by.min(clock.must_reach(latest));
        None
    }

    fn prolong(&mut self, (earliest, latest): (i64, i64), latest_end: i64, term: Term, known: bool) {
        let (ttl_us, grace_us) = (i64::from(term.ttl_s) * SECOND, i64::from(term.grace_s) * SECOND);
        let surely = latest_end < earliest + ttl_us;
        let surely_not = self.ends.0 >= latest + ttl_us;
        if surely_not {
            return;
        }
        if known {
            self.ends.0 = self.ends.0.max(earliest + ttl_us + if surely { grace_us } else { 0 });
        }
        self.ends.1 = self.ends.1.max(latest + ttl_us + grace_us + SECOND);
    }
}

/// To when claims of which nobody knows may have prolonged any life.
fn unknown_end(history: &History, by: u64, clock: &StoreClock) -> i64 {
    let unknown =
        history.claims.iter().filter(|claim| matches!(claim.outcome, Claimed::Unknown) && claim.span.invoked < by);
    let end = unknown.map(|claim| {
        let term_us = i64::from(claim.term.ttl_s + claim.term.grace_s) * SECOND;
        clock.between(claim.span.invoked, claim.span.ended).1 + term_us + SECOND
    });
    end.max().unwrap_or(i64::MIN)
}
