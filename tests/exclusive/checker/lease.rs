//! When a claim was live: for certain, and perhaps.

use std::collections::HashMap;

use uuid::Uuid;

use super::{Rule, Violation};
use crate::exclusive::history::{Act, Claim, Claimed, History, Outcome, Span, Term, Turn};
use crate::support::chronicle::clock::StoreClock;

#[derive(Debug)]
pub(super) struct Lease {
    /// Its creation and its renewals; false for one whose outcome nobody knows.
    pub(super) terms: Vec<(Span, Term, bool)>,
    /// Between these moments it was live for certain.
    pub(super) certain: Vec<(u64, u64)>,
    /// From this moment on it was certainly over.
    pub(super) over_by: u64,
    /// When renewals of unknown outcome may have ended it.
    cut: u64,
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
    let mut turns: Vec<&Turn> = history.turns.iter().collect();
    turns.sort_by_key(|turn| turn.span.invoked);
    for turn in turns {
        let Some(lease) = turn.claim.and_then(|claim| leases.get_mut(&claim)) else { continue };
        if let Some((rule, what)) = lease.turn(turn, clock) {
            return Err(Violation::new(
                history,
                rule,
                format!("{what}: {turn:?}"),
                &turn.claim.into_iter().collect::<Vec<_>>(),
            ));
        }
    }
    Ok(leases)
}

/// The earliest and the latest end of a lease that began to run within the span.
fn ends(span: Span, term: Term, clock: &StoreClock) -> (u64, u64) {
    let (earliest, latest) = clock.between(span.invoked, span.ended);
    let ttl_us = i64::from(term.ttl_s) * 1_000_000;
    (clock.may_reach(earliest + ttl_us), clock.must_reach(latest + ttl_us))
}

/// Claims that may have had messages of which nobody was told, and how many: those without an answer, and those that may have been
/// over before their answer, which leaves out what was gone by then.
pub(super) fn in_doubt<'a>(history: &'a History, clock: &StoreClock) -> impl Iterator<Item = (&'a Claim, usize)> {
    let may_be_over = |claim: &Claim| {
        let Span { invoked, ended } = claim.span;
        clock.may_advance(invoked, i64::from(claim.term.ttl_s) * 1_000_000) <= ended
    };
    let in_doubt = move |claim: &&Claim| matches!(claim.outcome, Claimed::Unknown) || may_be_over(claim);
    history.claims.iter().filter(in_doubt).map(|claim| (claim, claim.limit - claim.messages().len()))
}

/// Until when a message of which nobody was told may have been under the claim.
pub(super) fn untold_until(claim: &Claim, clock: &StoreClock) -> u64 {
    ends(claim.span, claim.term, clock).1
}

impl Lease {
    fn new(claim: &Claim, clock: &StoreClock) -> Self {
        let (earliest, over_by) = ends(claim.span, claim.term, clock);
        Self {
            terms: vec![(claim.span, claim.term, true)],
            certain: vec![(claim.span.ended, earliest)],
            over_by,
            cut: u64::MAX,
        }
    }

    pub(super) fn is_live_throughout(&self, from: u64, to: u64) -> bool {
        self.certain.iter().any(|(begin, end)| *begin <= from && to <= *end)
    }

    fn turn(&mut self, turn: &Turn, clock: &StoreClock) -> Option<(Rule, &'static str)> {
        let Span { invoked, ended } = turn.span;
        match (turn.act, turn.outcome) {
            (Act::Renew(_) | Act::Return(..), Outcome::Done) if self.over_by < invoked => {
                return Some((Rule::Revived, "a claim that was over worked"));
            }
            (Act::Renew(_) | Act::Return(..), Outcome::Refused) if self.is_live_throughout(invoked, ended) => {
                return Some((Rule::Refused, "a live claim did not work"));
            }
            (Act::Renew(term), Outcome::Done) => {
                let (earliest, over_by) = ends(turn.span, term, clock);
                let earliest = earliest.min(self.cut);
                self.end_by(earliest);
                match self.certain.last_mut() {
                    Some((_, end)) if *end >= ended => *end = earliest,
                    _ => self.certain.push((ended, earliest)),
                }
                self.over_by = if self.cut == u64::MAX { over_by } else { over_by.max(self.over_by) };
                self.terms.push((turn.span, term, true));
            }
            (Act::Renew(term), Outcome::Unknown) => {
                let (earliest, over_by) = ends(turn.span, term, clock);
                self.cut = self.cut.min(earliest.max(invoked));
                self.end_by(self.cut);
                self.over_by = self.over_by.max(over_by);
                self.terms.push((turn.span, term, false));
            }
            (Act::Renew(_) | Act::Return(..), Outcome::Refused) | (Act::Release, Outcome::Done) => {
                self.end_by(invoked);
                self.over_by = self.over_by.min(ended);
            }
            (Act::Release, _) => self.end_by(invoked),
            (Act::Delete(_) | Act::Return(..), _) => {}
        }
        None
    }

    fn end_by(&mut self, moment: u64) {
        if let Some((_, end)) = self.certain.last_mut() {
            *end = moment.min(*end);
        }
    }
}
