//! The period in which a claim made one of its messages unavailable. It is shorter than the claim
//! if the message was returned, and may be longer if it was returned with a delay.

use super::lease::Lease;
use crate::exclusive_claims::history::{Action, ClaimUse, Outcome, Span, Term};
use support::timeline::clock::StoreClock;

pub(super) struct Hold {
    pub(super) from: u64,
    /// Periods in which the message was certainly in the claim.
    claimed: Vec<(u64, u64)>,
    /// Periods in which the message was certainly unavailable to others.
    taken: Vec<(u64, u64)>,
    /// The first time at which it was certainly not in the claim.
    pub(super) unclaimed_by: u64,
    /// The first time at which it was certainly available to others.
    pub(super) over_by: u64,
    /// The first time at which it may have been returned.
    pub(super) returned_from: u64,
    /// The creation and the renewals of the claim that applied to this message; `false` for those
    /// of unknown outcome.
    pub(super) terms: Vec<(Span, Term, bool)>,
}

impl Hold {
    /// Creates the hold of a claim that was created within the span. `returns` are the attempts to
    /// return the message through that claim, in order.
    pub(super) fn new(span: Span, lease: &Lease, returns: &[&ClaimUse], clock: &StoreClock) -> Self {
        let mut hold = Self {
            from: span.invoked,
            claimed: lease.certain.clone(),
            taken: lease.certain.clone(),
            unclaimed_by: lease.over_by,
            over_by: lease.over_by,
            returned_from: u64::MAX,
            terms: lease.terms.clone(),
        };
        for claim_use in returns.iter().filter(|claim_use| claim_use.outcome != Outcome::Refused) {
            let is_first = hold.returned_from == u64::MAX;
            hold.return_message(span, claim_use, is_first, clock);
            if claim_use.outcome == Outcome::Done {
                break;
            }
        }
        hold
    }

    pub(super) fn is_claimed_throughout(&self, from: u64, to: u64) -> bool {
        covers(&self.claimed, from, to)
    }

    pub(super) fn is_taken_throughout(&self, from: u64, to: u64) -> bool {
        covers(&self.taken, from, to)
    }

    /// Returns whether the message may have been unavailable to others at some time in this period.
    pub(super) fn may_be_taken(&self, from: u64, to: u64) -> bool {
        self.from <= to && from <= self.over_by
    }

    /// Returns the first time at which others may have received it.
    pub(super) fn may_end(&self) -> u64 {
        self.taken.iter().map(|(_, end)| *end).max().unwrap_or(self.from)
    }

    fn return_message(&mut self, given: Span, claim_use: &ClaimUse, is_first: bool, clock: &StoreClock) {
        let Action::Return(_, delay_s) = claim_use.action else { return };
        let Span { invoked, ended } = claim_use.span;
        let kept_us = i64::from(delay_s) * 1_000_000;
        let (earliest, latest) = clock.between(invoked, ended);
        let kept_by = if delay_s == 0 { ended } else { clock.must_reach(latest + kept_us) };
        let known = claim_use.outcome == Outcome::Done;

        for end in self.claimed.iter_mut().chain(&mut self.taken).map(|(_, end)| end) {
            *end = invoked.min(*end);
        }
        if known && is_first && delay_s > 0 {
            // The return succeeded, so the claim had held the message the whole time.
            self.taken.push((given.ended, clock.may_reach(earliest + kept_us)));
        }
        if known {
            self.unclaimed_by = self.unclaimed_by.min(ended);
            self.over_by = if is_first { kept_by } else { self.over_by.max(kept_by) };
            self.terms.retain(|(span, ..)| span.invoked < ended);
        } else {
            self.over_by = self.over_by.max(kept_by);
            self.terms.iter_mut().filter(|(span, ..)| span.ended > invoked).for_each(|(.., known)| *known = false);
        }
        self.returned_from = self.returned_from.min(invoked);
    }
}

fn covers(times: &[(u64, u64)], from: u64, to: u64) -> bool {
    times.iter().any(|(begin, end)| *begin <= from && to <= *end)
}
