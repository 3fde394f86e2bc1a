//! Whoever takes messages takes the oldest free ones, or in a fair queue any, but as many as there are.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::letters::Deaths;
use super::life::Lives;
use super::{Doubts, Rule, Violation};
use crate::exclusive::history::{Claimed, History, Seen, Span};

/// One claim or pop that was answered.
struct Taking<'a> {
    span: Span,
    limit: usize,
    messages: &'a [Seen],
}

/// In the order in which they count when they happen at the same moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A message may no longer be free.
    Gone(Uuid),
    Taken(usize),
    /// A message is free for certain, until that moment.
    Free(Uuid, u64),
}

pub(super) fn check(history: &History, lives: &Lives, doubts: &Doubts) -> Result<(), Violation> {
    let takings = takings(history);
    let deaths = Deaths::of(lives);
    let mut events: Vec<(u64, Event)> = Vec::new();
    for (index, taking) in takings.iter().enumerate() {
        check_shape(history, taking)?;
        events.push((taking.span.invoked, Event::Taken(index)));
    }
    for (from, to, id) in free_times(lives) {
        events.push((from, Event::Free(id, to)));
        events.push((to, Event::Gone(id)));
    }
    events.sort_unstable();

    let mut free: BTreeMap<Uuid, u64> = BTreeMap::new();
    for (_, event) in events {
        match event {
            Event::Free(id, to) => {
                free.insert(id, to);
            }
            Event::Gone(id) => {
                free.remove(&id);
            }
            Event::Taken(index) => {
                let taking = &takings[index];
                let skipped = if history.rules.is_fair {
                    left_over(taking, &free, &deaths)
                } else {
                    skipped(taking, &free, &deaths)
                };
                if skipped.len() > doubts.taken(taking.span) {
                    let what = format!("{} free messages were passed over {}", skipped.len(), taking.span);
                    return Err(Violation::new(history, Rule::Skipped, what, &skipped[..1]));
                }
            }
        }
    }
    Ok(())
}

fn takings(history: &History) -> Vec<Taking<'_>> {
    let claims = history.claims.iter().filter(|claim| !matches!(claim.outcome, Claimed::Unknown));
    let claims = claims.map(|claim| Taking { span: claim.span, limit: claim.limit, messages: claim.messages() });
    let pops = history.pops.iter().filter(|pop| pop.messages.is_some());
    claims.chain(pops.map(|pop| Taking { span: pop.span, limit: pop.limit, messages: pop.messages() })).collect()
}

fn check_shape(history: &History, taking: &Taking) -> Result<(), Violation> {
    let ids: Vec<Uuid> = taking.messages.iter().map(|seen| seen.id).collect();
    let is_in_order = history.rules.is_fair || ids.is_sorted_by(|earlier, later| earlier < later);
    if ids.len() > taking.limit || !is_in_order {
        let what = format!("{} messages, not {} at most in order {}", ids.len(), taking.limit, taking.span);
        return Err(Violation::new(history, Rule::Unordered, what, ids.get(..1).unwrap_or_default()));
    }
    Ok(())
}

/// Messages that were free all the time, and yet not among the first.
fn skipped(taking: &Taking, free: &BTreeMap<Uuid, u64>, deaths: &Deaths) -> Vec<Uuid> {
    let last = taking.messages.last().map_or(Uuid::nil(), |seen| seen.id);
    let rest = if taking.messages.len() < taking.limit { Uuid::max() } else { last };
    let left: Vec<Uuid> = free.range(..=rest).filter(|(_, to)| **to > taking.span.ended).map(|(id, _)| *id).collect();
    if left.is_empty() {
        return left;
    }
    // Messages that become dead letters are among those taken, but not among those given out.
    let dying = deaths.during(taking.span);
    let taken_before = |id: &Uuid| taking.messages.len() + dying.partition_point(|other| other < id);
    left.into_iter().filter(|id| *id < last || taken_before(id) < taking.limit).collect()
}

/// Messages that were free all the time while fewer were taken than asked for.
fn left_over(taking: &Taking, free: &BTreeMap<Uuid, u64>, deaths: &Deaths) -> Vec<Uuid> {
    if taking.messages.len() + deaths.during(taking.span).len() >= taking.limit {
        return Vec::new();
    }
    free.iter().filter(|(_, to)| **to > taking.span.ended).map(|(id, _)| *id).collect()
}

/// When each message was there, due, and under no claim, for certain.
fn free_times(lives: &Lives) -> Vec<(u64, u64, Uuid)> {
    let mut times = Vec::new();
    for life in lives.values() {
        let mut from = life.due.1;
        for delivery in &life.deliveries {
            let to = delivery.span.invoked.min(life.leaves_from);
            if from < to {
                times.push((from, to, life.id));
            }
            from = from.max(delivery.held.as_ref().map_or(u64::MAX, |(_, hold)| hold.over_by));
        }
        if from < life.leaves_from {
            times.push((from, life.leaves_from, life.id));
        }
    }
    times
}
