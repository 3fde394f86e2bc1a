//! Judges a history: one live claim per message, nothing lost, nothing given out before it is due or
//! after its end, and dead letters are those whose count ran out.
//!
//! A pure function. Where the history leaves open what happened when (requests overlap, an answer
//! was lost, the clock was being moved), whatever may have happened is right.

mod hold;
mod lease;
mod letters;
mod life;
mod order;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

use uuid::Uuid;

use self::life::{Delivery, Life, Lives};
use super::history::{Act, Claimed, Count, History, Outcome, Span, Turn};
use crate::support::chronicle::clock::StoreClock;

const EVENTS_MAX: usize = 12;
const EVENT_CHARS_MAX: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// What is given out was posted.
    Invented,
    /// A message is under one live claim at most, and not popped meanwhile.
    Shared,
    /// A deleted message is not given out, and does not die.
    Deleted,
    /// An expired message is not given out.
    Ended,
    /// A message is not given out before it is due, nor while it is kept back.
    Early,
    /// A message is given out so many times and no more.
    TooOften,
    /// A dead letter is a message that was given out so many times, and was asked for again.
    Undue,
    /// A dead letter is not given out where it died.
    Dead,
    /// A dead letter arrives once.
    Doubled,
    /// A message is what was posted.
    Altered,
    /// Nothing is lost.
    Lost,
    /// A live claim works.
    Refused,
    /// A claim that is over cannot be renewed.
    Revived,
    /// Only the claim that holds a message deletes it.
    TookEffect,
    /// Messages are given out in order.
    Unordered,
    /// The oldest free messages are given out.
    Skipped,
    /// The stats are right.
    Miscounted,
}

#[derive(Debug)]
pub(super) struct Violation {
    pub(super) rule: Rule,
    seed: u64,
    what: String,
    events: Vec<String>,
}

/// How much there was to get wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) posted: usize,
    pub(super) claims: usize,
    pub(super) claims_empty: usize,
    pub(super) given_out: usize,
    /// Messages that were claimed more than once.
    pub(super) claimed_again: usize,
    pub(super) popped: usize,
    pub(super) deleted: usize,
    pub(super) renewed: usize,
    pub(super) returned: usize,
    pub(super) delayed: usize,
    pub(super) died: usize,
    /// Renewals and deletions that were refused.
    pub(super) refused: usize,
    pub(super) unknown: usize,
    pub(super) moves: usize,
    pub(super) counts: usize,
    /// Counts for which only one answer was right.
    pub(super) counts_exact: usize,
    pub(super) drained: usize,
}

/// What claims and pops may have taken without telling: those without an answer, and claims that were over before their answer
/// came, which leaves out what was gone by then.
struct Doubts {
    claims: Vec<(Span, u64, usize)>,
    pops: Vec<(Span, usize)>,
}

pub(super) fn check(history: &History) -> Result<Summary, Violation> {
    let clock = StoreClock::new(history.wall_us, &history.moves);
    let leases = lease::leases(history, &clock)?;
    let mut lives = life::lives(history, &leases, &clock)?;
    let doubts = Doubts::of(history, &clock);
    for life in lives.values() {
        if let Some((rule, one, other)) = shared(life) {
            let what = format!("{} was given out {one} and {other}", life.id);
            return Err(Violation::new(history, rule, what, &[life.id]));
        }
    }
    letters::bury(history, &mut lives, &doubts, &clock)?;
    check_nothing_is_lost(history, &lives, &doubts)?;
    for turn in &history.turns {
        check_deletion(history, turn, &lives, &doubts, &clock)?;
    }
    order::check(history, &lives, &doubts)?;
    let mut summary = summary(history, &lives);
    for count in &history.counts {
        check_letter_count(history, count, &doubts)?;
        summary.counts_exact += usize::from(check_count(history, count, &lives, &doubts)?);
    }
    Ok(summary)
}

/// Two takings of which the first cannot have been over when the second took place.
fn shared(life: &Life) -> Option<(Rule, Span, Span)> {
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
                let rule = if kept_back { Rule::Early } else { Rule::Shared };
                return Some((rule, one.span, other.span));
            }
        }
    }
    None
}

/// Through a live claim what it holds can be deleted, and nothing else.
fn check_deletion(
    history: &History,
    turn: &Turn,
    lives: &Lives,
    doubts: &Doubts,
    clock: &StoreClock,
) -> Result<(), Violation> {
    let Act::Delete(id) = turn.act else { return Ok(()) };
    let Some(life) = lives.get(&id) else { return Ok(()) };
    let Span { invoked, ended } = turn.span;
    let own = turn.claim.and_then(|claim| life.hold_of(claim));
    let broken = match turn.outcome {
        Outcome::Refused => own.is_some_and(|hold| hold.is_claimed_throughout(invoked, ended)).then_some(Rule::Refused),
        Outcome::Done => {
            let was_there = life.there_by <= invoked
                && !life.may_be_removed(Some(turn.span), ended)
                && !life.may_have_expired(ended, clock)
                && life.died.is_none_or(|(from, _)| ended < from)
                && doubts.popped_by(ended) == 0;
            let is_wrong = match turn.claim {
                Some(_) => own.is_none_or(|hold| hold.unclaimed_by < invoked),
                None => life.holds().any(|hold| hold.is_claimed_throughout(invoked, ended)),
            };
            (was_there && is_wrong).then_some(Rule::TookEffect)
        }
        Outcome::Unknown => None,
    };
    match broken {
        Some(rule) => {
            let about: Vec<Uuid> = [id].into_iter().chain(turn.claim).collect();
            Err(Violation::new(history, rule, format!("{} {turn:?}", turn.span), &about))
        }
        None => Ok(()),
    }
}

fn check_nothing_is_lost(history: &History, lives: &Lives, doubts: &Doubts) -> Result<(), Violation> {
    let end = history.counts.last().map_or(history.drained_from, |count| count.span.ended);
    let is_found = |life: &Life| {
        life.died.is_some() || life.deliveries.iter().any(|delivery| delivery.span.invoked >= history.drained_from)
    };
    let stays = |life: &&Life| life.there_by < history.drained_from && life.leaves_from > end;
    let lost: Vec<Uuid> = lives.values().filter(stays).filter(|life| !is_found(life)).map(|life| life.id).collect();
    if lost.len() > doubts.popped_by(end) {
        return Err(Violation::new(history, Rule::Lost, format!("{} messages were lost", lost.len()), &lost[..1]));
    }
    Ok(())
}

/// Whether only one answer was right.
fn check_count(history: &History, count: &Count, lives: &Lives, doubts: &Doubts) -> Result<bool, Violation> {
    let Span { invoked, ended } = count.span;
    let (mut there, mut perhaps_there, mut held, mut perhaps_held) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut proven = 0_usize;
    for life in lives.values().filter(|life| life.posted_from <= ended && invoked <= life.gone_by) {
        let is_there = life.there_by <= invoked && ended < life.leaves_from;
        let is_held = life.holds().any(|hold| hold.is_taken_throughout(invoked, ended));
        let comes_later = life.deliveries.iter().any(|delivery| delivery.span.invoked > ended) || life.died.is_some();
        there += usize::from(is_there);
        perhaps_there += 1;
        held += usize::from(is_there && is_held);
        perhaps_held += usize::from(life.holds().any(|hold| hold.may_be_taken(invoked, ended)));
        proven += usize::from(is_there && (is_held || comes_later));
    }
    there = proven.max(there.saturating_sub(doubts.popped_by(ended)));
    perhaps_there += unseen(history, lives, ended);
    perhaps_held = perhaps_there.min(perhaps_held + doubts.claimed(count.span));
    let is_between = |number: u64, least: usize, most: usize| (least as u64..=most as u64).contains(&number);
    if !is_between(count.total, there, perhaps_there)
        || !is_between(count.claimed, held, perhaps_held)
        || count.total != count.claimed + count.free
    {
        let what = format!("{there} to {perhaps_there} in all, {held} to {perhaps_held} claimed, but {count:?}");
        return Err(Violation::new(history, Rule::Miscounted, what, &[]));
    }
    Ok(there == perhaps_there && held == perhaps_held)
}

/// All dead letters were read before they were counted.
fn check_letter_count(history: &History, count: &Count, doubts: &Doubts) -> Result<(), Violation> {
    let read = letters::read_by(history, count.span.invoked) as u64;
    let [total, claimed, free] = count.letters;
    let is_right = total == read || total > read && doubts.is_any_taking_during(count.span);
    if !is_right || claimed != 0 || free != total {
        let what = format!("{read} dead letters were read, but {count:?}");
        return Err(Violation::new(history, Rule::Miscounted, what, &[]));
    }
    Ok(())
}

/// Messages of posts without an answer that nobody has ever seen.
fn unseen(history: &History, lives: &Lives, by: u64) -> usize {
    let posts = history.posts.iter().filter(|post| post.span.invoked <= by);
    let drafts: usize = posts.map(|post| post.drafts.len()).sum();
    drafts - lives.values().filter(|life| life.posted_from <= by).count()
}

fn summary(history: &History, lives: &Lives) -> Summary {
    let turns = |is_so: fn(&Turn) -> bool| history.turns.iter().filter(|turn| is_so(turn)).count();
    let drained =
        lives.values().filter(|life| life.deliveries.iter().any(|one| one.span.invoked >= history.drained_from));
    let claims = |is_so: fn(&Claimed) -> bool| history.claims.iter().filter(|claim| is_so(&claim.outcome)).count();
    Summary {
        posted: lives.len(),
        claims: history.claims.len(),
        claims_empty: claims(|outcome| matches!(outcome, Claimed::Nothing)),
        given_out: lives.values().map(|life| life.deliveries.len()).sum(),
        claimed_again: lives.values().filter(|life| life.deliveries.len() > 1).count(),
        popped: history.pops.iter().map(|pop| pop.messages().len()).sum(),
        deleted: turns(|turn| matches!((turn.act, turn.outcome), (Act::Delete(_), Outcome::Done))),
        renewed: turns(|turn| matches!((turn.act, turn.outcome), (Act::Renew(_), Outcome::Done))),
        returned: turns(|turn| matches!((turn.act, turn.outcome), (Act::Return(..), Outcome::Done))),
        delayed: lives.values().filter(|life| life.due.0 > 0).count(),
        died: lives.values().filter(|life| life.died.is_some()).count(),
        refused: turns(|turn| turn.outcome == Outcome::Refused),
        unknown: turns(|turn| turn.outcome == Outcome::Unknown)
            + claims(|outcome| matches!(outcome, Claimed::Unknown))
            + history.pops.iter().filter(|pop| pop.messages.is_none()).count(),
        moves: history.moves.len(),
        counts: history.counts.len(),
        counts_exact: 0,
        drained: drained.count(),
    }
}

impl Doubts {
    fn of(history: &History, clock: &StoreClock) -> Self {
        let claims = lease::in_doubt(history, clock);
        let claims = claims.map(|(claim, untold)| (claim.span, lease::untold_until(claim, clock), untold));
        let pops = history.pops.iter().filter(|pop| pop.messages.is_none());
        Self { claims: claims.collect(), pops: pops.map(|pop| (pop.span, pop.limit)).collect() }
    }

    /// How many messages may be under such claims meanwhile.
    fn claimed(&self, Span { invoked, ended }: Span) -> usize {
        let meanwhile = self.claims.iter().filter(|(span, to, _)| span.invoked <= ended && invoked <= *to);
        meanwhile.map(|(.., limit)| limit).sum()
    }

    fn popped_by(&self, moment: u64) -> usize {
        self.pops.iter().filter(|(span, _)| span.invoked <= moment).map(|(_, limit)| limit).sum()
    }

    fn taken(&self, span: Span) -> usize {
        self.claimed(span) + self.popped_by(span.ended)
    }

    fn is_any_claim(&self) -> bool {
        !self.claims.is_empty()
    }

    /// How many such claims there were by then.
    fn claims_by(&self, moment: u64) -> usize {
        self.claims.iter().filter(|(span, ..)| span.invoked <= moment).count()
    }

    /// How many messages they gave out at most.
    fn limits_by(&self, moment: u64) -> usize {
        self.claims.iter().filter(|(span, ..)| span.invoked <= moment).map(|(.., limit)| limit).sum()
    }

    /// Whether one of them may have been carried out meanwhile.
    fn is_any_taking_during(&self, Span { invoked, ended }: Span) -> bool {
        let spans = self.claims.iter().map(|(span, ..)| span).chain(self.pops.iter().map(|(span, _)| span));
        spans.into_iter().any(|span| span.invoked <= ended && invoked <= span.ended)
    }
}

impl Violation {
    /// Tells the events that name one of the ids, or a claim that held it.
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
