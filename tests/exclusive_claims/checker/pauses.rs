//! While the queue is paused, no claim or pop gets messages, and only then a response says so.

use super::{Rule, Violation};
use crate::exclusive_claims::history::{Claimed, History, Span, Switch};

/// Checks all responses. Returns the number of those that say that the queue is paused.
pub(super) fn check(history: &History) -> Result<usize, Violation> {
    let claims = history.claims.iter().map(|claim| {
        let ids: Vec<_> = claim.messages().iter().map(|seen| seen.id).collect();
        (claim.span, ids, matches!(claim.outcome, Claimed::Paused))
    });
    let pops = history.pops.iter().map(|pop| {
        let ids: Vec<_> = pop.messages().iter().map(|seen| seen.id).collect();
        (pop.span, ids, pop.is_paused)
    });
    let mut refused = 0;
    for (span, ids, says_paused) in claims.chain(pops) {
        if !ids.is_empty() && history.switches.iter().any(|pause| is_in_effect(pause, span, &history.switches)) {
            let what = format!("{} messages were handed out {span} by a paused queue", ids.len());
            return Err(Violation::new(history, Rule::HandedOutWhilePaused, what, &ids[..1]));
        }
        if says_paused && !history.switches.iter().any(|pause| may_be_in_effect(pause, span, &history.switches)) {
            let what = format!("a claim or pop {span} was refused by a queue that was not paused");
            return Err(Violation::new(history, Rule::NotPaused, what, &[]));
        }
        refused += usize::from(says_paused);
    }
    Ok(refused)
}

/// Returns whether the queue was certainly paused by this request during the whole span.
fn is_in_effect(pause: &Switch, span: Span, switches: &[Switch]) -> bool {
    let may_end = |resume: &Switch| resume.span.ended > pause.span.invoked && resume.span.invoked < span.ended;
    pause.pauses
        && pause.is_known
        && pause.span.ended <= span.invoked
        && !switches.iter().any(|other| !other.pauses && may_end(other))
}

/// Returns whether the queue may have been paused by this request at some time of the span.
fn may_be_in_effect(pause: &Switch, span: Span, switches: &[Switch]) -> bool {
    let has_ended = |resume: &Switch| {
        resume.is_known && resume.span.invoked >= pause.span.ended && resume.span.ended <= span.invoked
    };
    pause.pauses && pause.span.invoked <= span.ended && !switches.iter().any(|other| !other.pauses && has_ended(other))
}
