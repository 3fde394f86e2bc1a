//! Checks a history: a message is in at most one live claim, no message is lost, and none is
//! delivered before it is due or after it has ended. Dead letters are exactly the messages that
//! have reached the claim limit. A paused queue hands out nothing.
//!
//! The check is a pure function. Where the history leaves the order of events open, every possible
//! order is accepted: requests overlap, a response was lost, or the clock was being moved.

mod dead_letters;
mod hold;
mod lease;
mod life;
mod order;
mod pauses;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

use uuid::Uuid;

use self::life::{Delivery, Life, Lives};
use super::history::{Action, ClaimUse, Claimed, Count, History, Outcome, Span, Term};
use support::timeline::clock::StoreClock;

const EVENTS_MAX: usize = 12;
const EVENT_CHARS_MAX: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A delivered message was posted.
    Invented,
    /// A message is in at most one live claim, and is not popped meanwhile.
    HeldTwice,
    /// A deleted message is not delivered, and does not become a dead letter.
    Deleted,
    /// An expired message is not delivered.
    Ended,
    /// A message is not delivered before it is due, or before the delay of its return is over.
    Early,
    /// A message is delivered at most `count_max` times.
    TooOften,
    /// A dead letter is a message that was delivered `count_max` times and then requested again.
    UnjustifiedDeadLetter,
    /// A dead letter is not delivered by its source queue.
    DeadLetterDelivered,
    /// A dead letter arrives once.
    DeadLetterTwice,
    /// A message has the content that was posted.
    Altered,
    /// No message is lost.
    Lost,
    /// A live claim can be used.
    Refused,
    /// An expired claim cannot be renewed.
    Revived,
    /// Only the claim that holds a message can delete it.
    DeletedByOther,
    /// Messages are delivered in order.
    Unordered,
    /// The oldest available messages are delivered.
    Skipped,
    /// The stats are correct.
    Miscounted,
    /// A paused queue hands out no message.
    HandedOutWhilePaused,
    /// Only a paused queue says that it is paused.
    NotPaused,
}

#[derive(Debug)]
pub(super) struct Violation {
    pub(super) rule: Rule,
    seed: u64,
    what: String,
    events: Vec<String>,
}

/// Counts of the events that could have gone wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) posted: usize,
    pub(super) claims: usize,
    pub(super) claims_empty: usize,
    pub(super) delivered: usize,
    /// Messages that were claimed more than once.
    pub(super) claimed_again: usize,
    pub(super) popped: usize,
    pub(super) deleted: usize,
    pub(super) renewed: usize,
    pub(super) returned: usize,
    pub(super) delayed: usize,
    pub(super) moved_to_dead_letters: usize,
    /// Renewals and deletions that were refused.
    pub(super) refused: usize,
    pub(super) unknown: usize,
    pub(super) moves: usize,
    /// Claims and pops that got nothing because the queue was paused.
    pub(super) refused_by_pause: usize,
    pub(super) counts: usize,
    /// Counts for which only one result was correct.
    pub(super) counts_exact: usize,
    pub(super) drained: usize,
}

const POP_TERM: Term = Term { ttl_s: sukkal_storage::POP_TERM.ttl_s, grace_s: sukkal_storage::POP_TERM.grace_s };

/// Claims and pops that may have taken messages without reporting them: those without a response,
/// and claims that expired before their response, which leaves out messages that had ended by then.
struct Uncertainty(Vec<Unreported>);

struct Unreported {
    span: Span,
    is_pop: bool,
    /// Maximum number of messages that it may have taken.
    limit: usize,
    /// Until when it may hold them. A pop is a claim until its messages are deleted: if its process
    /// was killed in between, they return when that claim expires.
    held_until: u64,
}

pub(super) fn check(history: &History) -> Result<Summary, Violation> {
    let clock = StoreClock::new(history.wall_us, &history.moves);
    let leases = lease::leases(history, &clock)?;
    let mut lives = life::lives(history, &leases, &clock)?;
    let uncertainty = Uncertainty::of(history, &clock);
    for life in lives.values() {
        if let Some((rule, one, other)) = find_double_delivery(life) {
            let what = format!("{} was delivered {one} and {other}", life.id);
            return Err(Violation::new(history, rule, what, &[life.id]));
        }
    }
    dead_letters::check_dead_letters(history, &mut lives, &uncertainty, &clock)?;
    check_completeness(history, &lives, &uncertainty)?;
    for claim_use in &history.claim_uses {
        check_deletion(history, claim_use, &lives, &uncertainty, &clock)?;
    }
    order::check(history, &lives, &uncertainty)?;
    let refused_by_pause = pauses::check(history)?;
    let mut summary = Summary { refused_by_pause, ..summary(history, &lives) };
    for count in &history.counts {
        check_dead_letter_count(history, count, &uncertainty)?;
        summary.counts_exact += usize::from(check_count(history, count, &lives, &uncertainty)?);
    }
    Ok(summary)
}

/// Finds two deliveries of which the first cannot have ended when the second happened.
fn find_double_delivery(life: &Life) -> Option<(Rule, Span, Span)> {
    for (index, one) in life.deliveries.iter().enumerate() {
        for other in &life.deliveries[index + 1..] {
            let moment = one.span.ended.max(other.span.ended);
            let is_taken = |delivery: &Delivery| {
                delivery.held.as_ref().is_none_or(|(_, hold)| hold.is_taken_throughout(moment, moment))
            };
            let pop = [one, other].into_iter().find(|delivery| delivery.held.is_none()).map(|pop| pop.span);
            let popped_twice = one.held.is_none() && other.held.is_none();
            if popped_twice || is_taken(one) && is_taken(other) && !life.may_be_removed(pop, moment) {
                let kept_back = one.held.as_ref().is_some_and(|(_, hold)| hold.returned_from <= moment);
                let rule = if kept_back { Rule::Early } else { Rule::HeldTwice };
                return Some((rule, one.span, other.span));
            }
        }
    }
    None
}

/// A live claim can delete the messages that it holds, and no others.
fn check_deletion(
    history: &History,
    claim_use: &ClaimUse,
    lives: &Lives,
    uncertainty: &Uncertainty,
    clock: &StoreClock,
) -> Result<(), Violation> {
    let Action::Delete(id) = claim_use.action else { return Ok(()) };
    let Some(life) = lives.get(&id) else { return Ok(()) };
    let Span { invoked, ended } = claim_use.span;
    let own = claim_use.claim.and_then(|claim| life.hold_of(claim));
    let broken = match claim_use.outcome {
        Outcome::Refused => own.is_some_and(|hold| hold.is_claimed_throughout(invoked, ended)).then_some(Rule::Refused),
        Outcome::Done => {
            let was_there = life.present_by <= invoked
                && !life.may_be_removed(Some(claim_use.span), ended)
                && !life.may_have_expired(ended, clock)
                && life.moved_to_dead_letters.is_none_or(|(from, _)| ended < from)
                && uncertainty.popped_by(ended) == 0;
            let is_wrong = match claim_use.claim {
                Some(_) => own.is_none_or(|hold| hold.unclaimed_by < invoked),
                None => life.holds().any(|hold| hold.is_claimed_throughout(invoked, ended)),
            };
            (was_there && is_wrong).then_some(Rule::DeletedByOther)
        }
        Outcome::Unknown => None,
    };
    match broken {
        Some(rule) => {
            let about: Vec<Uuid> = [id].into_iter().chain(claim_use.claim).collect();
            Err(Violation::new(history, rule, format!("{} {claim_use:?}", claim_use.span), &about))
        }
        None => Ok(()),
    }
}

fn check_completeness(history: &History, lives: &Lives, uncertainty: &Uncertainty) -> Result<(), Violation> {
    let end = history.counts.last().map_or(history.drained_from, |count| count.span.ended);
    let is_found = |life: &Life| {
        life.moved_to_dead_letters.is_some()
            || life.deliveries.iter().any(|delivery| delivery.span.invoked >= history.drained_from)
    };
    let stays = |life: &&Life| life.present_by < history.drained_from && life.leaves_from > end;
    let lost: Vec<Uuid> = lives.values().filter(stays).filter(|life| !is_found(life)).map(|life| life.id).collect();
    if lost.len() > uncertainty.popped_by(end) {
        return Err(Violation::new(history, Rule::Lost, format!("{} messages were lost", lost.len()), &lost[..1]));
    }
    Ok(())
}

/// Returns whether only one result was correct.
fn check_count(history: &History, count: &Count, lives: &Lives, uncertainty: &Uncertainty) -> Result<bool, Violation> {
    let Span { invoked, ended } = count.span;
    let (mut present, mut maybe_present, mut held, mut maybe_claimed) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut proven = 0_usize;
    for life in lives.values().filter(|life| life.posted_from <= ended && invoked <= life.gone_by) {
        let is_there = life.present_by <= invoked && ended < life.leaves_from;
        let is_held = life.holds().any(|hold| hold.is_taken_throughout(invoked, ended));
        let comes_later = life.deliveries.iter().any(|delivery| delivery.span.invoked > ended)
            || life.moved_to_dead_letters.is_some();
        present += usize::from(is_there);
        maybe_present += 1;
        held += usize::from(is_there && is_held);
        maybe_claimed += usize::from(life.holds().any(|hold| hold.may_be_taken(invoked, ended)));
        proven += usize::from(is_there && (is_held || comes_later));
    }
    present = proven.max(present.saturating_sub(uncertainty.popped_by(ended)));
    maybe_present += unseen(history, lives, ended);
    maybe_claimed = maybe_present.min(maybe_claimed + uncertainty.held(count.span));
    let is_between = |number: u64, least: usize, most: usize| (least as u64..=most as u64).contains(&number);
    if !is_between(count.total, present, maybe_present)
        || !is_between(count.claimed, held, maybe_claimed)
        || count.total != count.claimed + count.free
    {
        let what = format!("{present} to {maybe_present} in all, {held} to {maybe_claimed} claimed, but {count:?}");
        return Err(Violation::new(history, Rule::Miscounted, what, &[]));
    }
    Ok(present == maybe_present && held == maybe_claimed)
}

/// All dead letters were read before they were counted.
fn check_dead_letter_count(history: &History, count: &Count, uncertainty: &Uncertainty) -> Result<(), Violation> {
    let read = dead_letters::read_by(history, count.span.invoked) as u64;
    let [total, claimed, free] = count.dead_letters;
    let is_right = total == read || total > read && uncertainty.is_any_taking_during(count.span);
    if !is_right || claimed != 0 || free != total {
        let what = format!("{read} dead letters were read, but {count:?}");
        return Err(Violation::new(history, Rule::Miscounted, what, &[]));
    }
    Ok(())
}

/// Returns the number of messages of posts without a response that were never seen.
fn unseen(history: &History, lives: &Lives, by: u64) -> usize {
    let posts = history.posts.iter().filter(|post| post.span.invoked <= by);
    let drafts: usize = posts.map(|post| post.drafts.len()).sum();
    drafts - lives.values().filter(|life| life.posted_from <= by).count()
}

fn summary(history: &History, lives: &Lives) -> Summary {
    let claim_uses =
        |is_so: fn(&ClaimUse) -> bool| history.claim_uses.iter().filter(|claim_use| is_so(claim_use)).count();
    let drained =
        lives.values().filter(|life| life.deliveries.iter().any(|one| one.span.invoked >= history.drained_from));
    let claims = |is_so: fn(&Claimed) -> bool| history.claims.iter().filter(|claim| is_so(&claim.outcome)).count();
    Summary {
        posted: lives.len(),
        claims: history.claims.len(),
        claims_empty: claims(|outcome| matches!(outcome, Claimed::Nothing)),
        delivered: lives.values().map(|life| life.deliveries.len()).sum(),
        claimed_again: lives.values().filter(|life| life.deliveries.len() > 1).count(),
        popped: history.pops.iter().map(|pop| pop.messages().len()).sum(),
        deleted: claim_uses(|claim_use| {
            matches!((claim_use.action, claim_use.outcome), (Action::Delete(_), Outcome::Done))
        }),
        renewed: claim_uses(|claim_use| {
            matches!((claim_use.action, claim_use.outcome), (Action::Renew(_), Outcome::Done))
        }),
        returned: claim_uses(|claim_use| {
            matches!((claim_use.action, claim_use.outcome), (Action::Return(..), Outcome::Done))
        }),
        delayed: lives.values().filter(|life| life.due.0 > 0).count(),
        moved_to_dead_letters: lives.values().filter(|life| life.moved_to_dead_letters.is_some()).count(),
        refused: claim_uses(|claim_use| claim_use.outcome == Outcome::Refused),
        unknown: claim_uses(|claim_use| claim_use.outcome == Outcome::Unknown)
            + claims(|outcome| matches!(outcome, Claimed::Unknown))
            + history.pops.iter().filter(|pop| pop.messages.is_none()).count(),
        moves: history.moves.len(),
        refused_by_pause: 0,
        counts: history.counts.len(),
        counts_exact: 0,
        drained: drained.count(),
    }
}

impl Uncertainty {
    fn of(history: &History, clock: &StoreClock) -> Self {
        let claims = lease::uncertain(history, clock).map(|(claim, limit)| {
            let held_until = lease::latest_end(claim.span, claim.term, clock);
            Unreported { span: claim.span, is_pop: false, limit, held_until }
        });
        let pops = history.pops.iter().filter(|pop| pop.messages.is_none()).map(|pop| {
            let held_until = lease::latest_end(pop.span, POP_TERM, clock);
            Unreported { span: pop.span, is_pop: true, limit: pop.limit, held_until }
        });
        Self(claims.chain(pops).collect())
    }

    fn begun_by(&self, moment: u64) -> impl Iterator<Item = &Unreported> {
        self.0.iter().filter(move |one| one.span.invoked <= moment)
    }

    /// Returns how many messages they may hold at some time in the span.
    fn held(&self, Span { invoked, ended }: Span) -> usize {
        let meanwhile = self.begun_by(ended).filter(|one| invoked <= one.held_until);
        meanwhile.map(|one| one.limit).sum()
    }

    /// Returns how many messages such pops may have deleted by then.
    fn popped_by(&self, moment: u64) -> usize {
        self.begun_by(moment).filter(|one| one.is_pop).map(|one| one.limit).sum()
    }

    /// Returns how many messages may be held or deleted at some time in the span.
    fn taken(&self, Span { invoked, ended }: Span) -> usize {
        let taking = self.begun_by(ended).filter(|one| one.is_pop || invoked <= one.held_until);
        taking.map(|one| one.limit).sum()
    }

    fn is_any_claim(&self) -> bool {
        self.0.iter().any(|one| !one.is_pop)
    }

    /// Returns how many there were by then.
    fn count_by(&self, moment: u64) -> usize {
        self.begun_by(moment).count()
    }

    /// Returns the largest number of messages that they can have delivered.
    fn limits_by(&self, moment: u64) -> usize {
        self.begun_by(moment).map(|one| one.limit).sum()
    }

    /// Returns whether one of them may have been executed during the span.
    fn is_any_taking_during(&self, Span { invoked, ended }: Span) -> bool {
        self.begun_by(ended).any(|one| invoked <= one.span.ended)
    }
}

impl Violation {
    /// Creates a violation that shows the events with one of the ids, or with a claim that held it.
    fn new(history: &History, rule: Rule, what: String, about: &[Uuid]) -> Self {
        let mut naming: HashSet<String> = about.iter().map(Uuid::to_string).collect();
        for claim in &history.claims {
            if let Claimed::Got(id, messages) = &claim.outcome
                && messages.iter().any(|seen| about.contains(&seen.id))
            {
                naming.insert(id.to_string());
            }
        }
        let naming: Vec<String> = naming.into_iter().collect();
        let mut events = if naming.is_empty() { Vec::new() } else { history.events(&naming) };
        events.truncate(EVENTS_MAX);
        Self { rule, seed: history.seed, what, events }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} (seed {})", self.rule, self.what, self.seed)?;
        self.events.iter().try_for_each(|event| {
            let short: String = event.chars().take(EVENT_CHARS_MAX).collect();
            write!(f, "\n  {short}")
        })
    }
}
