//! The periods in which a claim was certainly live, or possibly live.

use std::collections::HashMap;

use uuid::Uuid;

use super::{Rule, Violation};
use crate::exclusive_claims::history::{Action, Claim, ClaimUse, Claimed, History, Outcome, Seen, Span, Term};
use support::timeline::clock::StoreClock;

#[derive(Debug)]
pub(super) struct Lease {
    /// Its creation and its renewals; `false` for one of unknown outcome.
    pub(super) terms: Vec<(Span, Term, bool)>,
    /// Periods in which it was certainly live.
    pub(super) certain: Vec<(u64, u64)>,
    /// The first time at which it had certainly ended.
    pub(super) over_by: u64,
    /// The first time at which a renewal of unknown outcome may have shortened it.
    cut: u64,
    /// The first time at which all its messages may have left it, which ends it.
    emptied_from: u64,
}

pub(super) fn leases(history: &History, clock: &StoreClock) -> Result<HashMap<Uuid, Lease>, Violation> {
    let mut leases: HashMap<Uuid, Lease> = HashMap::new();
    for claim in &history.claims {
        if let Claimed::Got(id, _) = &claim.outcome
            && leases.insert(*id, Lease::new(claim, clock)).is_some()
        {
            return Err(Violation::new(history, Rule::Invented, format!("claim {id} was created twice"), &[*id]));
        }
    }
    let mut claim_uses: Vec<&ClaimUse> = history.claim_uses.iter().collect();
    claim_uses.sort_by_key(|claim_use| claim_use.span.invoked);
    let mut left: HashMap<(Uuid, Uuid), u64> = HashMap::new();
    for claim_use in &claim_uses {
        if let (Some(claim), Action::Delete(id) | Action::Return(id, _)) = (claim_use.claim, claim_use.action)
            && claim_use.outcome != Outcome::Refused
        {
            left.entry((claim, id)).or_insert(claim_use.span.invoked);
        }
    }
    for claim in &history.claims {
        if let Claimed::Got(id, _) = &claim.outcome {
            let left_from = |message: &Seen| left.get(&(*id, message.id)).copied().unwrap_or(u64::MAX);
            let emptied_from = claim.messages().iter().map(left_from).max().unwrap_or(0);
            leases.entry(*id).and_modify(|lease| lease.emptied_from = emptied_from);
        }
    }
    for claim_use in claim_uses {
        let Some(lease) = claim_use.claim.and_then(|claim| leases.get_mut(&claim)) else { continue };
        if let Some((rule, what)) = lease.apply(claim_use, clock) {
            return Err(Violation::new(
                history,
                rule,
                format!("{what}: {claim_use:?}"),
                &claim_use.claim.into_iter().collect::<Vec<_>>(),
            ));
        }
    }
    Ok(leases)
}

/// Returns the earliest and the latest end of a lease that began within the span.
fn ends(span: Span, term: Term, clock: &StoreClock) -> (u64, u64) {
    let (earliest, latest) = clock.between(span.invoked, span.ended);
    let ttl_us = i64::from(term.ttl_s) * 1_000_000;
    (clock.may_reach(earliest + ttl_us), clock.must_reach(latest + ttl_us))
}

/// Returns claims that may have held unreported messages, and how many. These are claims without a
/// response, and claims that may have expired before their response, which leaves out messages that
/// had ended by then.
pub(super) fn uncertain<'a>(history: &'a History, clock: &StoreClock) -> impl Iterator<Item = (&'a Claim, usize)> {
    let may_be_over = |claim: &Claim| {
        let Span { invoked, ended } = claim.span;
        clock.may_advance(invoked, i64::from(claim.term.ttl_s) * 1_000_000) <= ended
    };
    let uncertain = move |claim: &&Claim| match claim.outcome {
        Claimed::Unknown => true,
        Claimed::Paused => false,
        Claimed::Got(..) | Claimed::Nothing => may_be_over(claim),
    };
    history.claims.iter().filter(uncertain).map(|claim| (claim, claim.limit - claim.messages().len()))
}

/// Returns the latest end of a lease that began within the span.
pub(super) fn latest_end(span: Span, term: Term, clock: &StoreClock) -> u64 {
    ends(span, term, clock).1
}

impl Lease {
    fn new(claim: &Claim, clock: &StoreClock) -> Self {
        let (earliest, over_by) = ends(claim.span, claim.term, clock);
        Self {
            terms: vec![(claim.span, claim.term, true)],
            certain: vec![(claim.span.ended, earliest)],
            over_by,
            cut: u64::MAX,
            emptied_from: u64::MAX,
        }
    }

    pub(super) fn is_live_throughout(&self, from: u64, to: u64) -> bool {
        to < self.emptied_from && self.certain.iter().any(|(begin, end)| *begin <= from && to <= *end)
    }

    fn apply(&mut self, claim_use: &ClaimUse, clock: &StoreClock) -> Option<(Rule, &'static str)> {
        let Span { invoked, ended } = claim_use.span;
        match (claim_use.action, claim_use.outcome) {
            (Action::Renew(_) | Action::Return(..), Outcome::Done) if self.over_by < invoked => {
                return Some((Rule::Revived, "a claim that was over worked"));
            }
            (Action::Renew(_) | Action::Return(..), Outcome::Refused) if self.is_live_throughout(invoked, ended) => {
                return Some((Rule::Refused, "a live claim did not work"));
            }
            (Action::Renew(term), Outcome::Done) => {
                let (earliest, over_by) = ends(claim_use.span, term, clock);
                let earliest = earliest.min(self.cut);
                self.end_by(earliest);
                match self.certain.last_mut() {
                    Some((_, end)) if *end >= ended => *end = earliest,
                    _ => self.certain.push((ended, earliest)),
                }
                self.over_by = if self.cut == u64::MAX { over_by } else { over_by.max(self.over_by) };
                self.terms.push((claim_use.span, term, true));
            }
            (Action::Renew(term), Outcome::Unknown) => {
                let (earliest, over_by) = ends(claim_use.span, term, clock);
                self.cut = self.cut.min(earliest.max(invoked));
                self.end_by(self.cut);
                self.over_by = self.over_by.max(over_by);
                self.terms.push((claim_use.span, term, false));
            }
            (Action::Renew(_) | Action::Return(..), Outcome::Refused) | (Action::Release, Outcome::Done) => {
                self.end_by(invoked);
                self.over_by = self.over_by.min(ended);
            }
            (Action::Release, _) => self.end_by(invoked),
            (Action::Delete(_) | Action::Return(..), _) => {}
        }
        None
    }

    fn end_by(&mut self, moment: u64) {
        if let Some((_, end)) = self.certain.last_mut() {
            *end = moment.min(*end);
        }
    }
}
