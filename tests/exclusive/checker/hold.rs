//! How long a claim kept one of its messages from everybody else: less than it was live if the
//! message was given back, or longer if it was given back for later.

use super::lease::Lease;
use crate::exclusive::history::{Act, Outcome, Span, Term, Turn};
use crate::support::chronicle::clock::StoreClock;

pub(super) struct Hold {
    pub(super) from: u64,
    /// Between these moments it was under the claim for certain.
    claimed: Vec<(u64, u64)>,
    /// Between these moments nobody else could get it for certain.
    taken: Vec<(u64, u64)>,
    /// From this moment on it was certainly not under the claim.
    pub(super) unclaimed_by: u64,
    /// From this moment on others could get it for certain.
    pub(super) over_by: u64,
    /// From this moment on it may have been given back.
    pub(super) returned_from: u64,
    /// The claim's creation and renewals as far as they were this message's too; false where nobody knows.
    pub(super) terms: Vec<(Span, Term, bool)>,
}

impl Hold {
    /// The hold of a claim that was created within the span. `returns` are the attempts to give the message back
    /// through that claim, in order.
    pub(super) fn new(span: Span, lease: &Lease, returns: &[&Turn], clock: &StoreClock) -> Self {
        let mut hold = Self {
            from: span.invoked,
            claimed: lease.certain.clone(),
            taken: lease.certain.clone(),
            unclaimed_by: lease.over_by,
            over_by: lease.over_by,
            returned_from: u64::MAX,
            terms: lease.terms.clone(),
        };
        for turn in returns.iter().filter(|turn| turn.outcome != Outcome::Refused) {
            let is_first = hold.returned_from == u64::MAX;
            hold.give_back(span, turn, is_first, clock);
            if turn.outcome == Outcome::Done {
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

    /// Whether nobody else may have been able to get it at some moment between these.
    pub(super) fn may_be_taken(&self, from: u64, to: u64) -> bool {
        self.from <= to && from <= self.over_by
    }

    /// The first moment at which others may have got it.
    pub(super) fn may_end(&self) -> u64 {
        self.taken.iter().map(|(_, end)| *end).max().unwrap_or(self.from)
    }

    fn give_back(&mut self, given: Span, turn: &Turn, is_first: bool, clock: &StoreClock) {
        let Act::Return(_, delay_s) = turn.act else { return };
        let Span { invoked, ended } = turn.span;
        let kept_us = i64::from(delay_s) * 1_000_000;
        let (earliest, latest) = clock.between(invoked, ended);
        let kept_by = if delay_s == 0 { ended } else { clock.must_reach(latest + kept_us) };
        let known = turn.outcome == Outcome::Done;

        for end in self.claimed.iter_mut().chain(&mut self.taken).map(|(_, end)| end) {
            *end = invoked.min(*end);
        }
        if known && is_first && delay_s > 0 {
            // It worked, so the claim had held the message all the time.
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
