//! Checks the order of delivery: the oldest available messages, or in a fair queue any, but always
//! as many as are available.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::dead_letters::DeadLetterMoves;
use super::life::Lives;
use super::{Rule, Uncertainty, Violation};
use crate::exclusive_claims::history::{Claimed, History, Seen, Span};

/// A claim or pop with a response.
struct OrderedDelivery<'a> {
    span: Span,
    limit: usize,
    messages: &'a [Seen],
}

/// In the order in which events with the same time are processed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The message may no longer be available.
    Gone(Uuid),
    Taken(usize),
    /// The message is certainly available until this time.
    Free(Uuid, u64),
}

pub(super) fn check(history: &History, lives: &Lives, uncertainty: &Uncertainty) -> Result<(), Violation> {
    let ordered_deliveries = ordered_deliveries(history);
    let moves_to_dead_letters = DeadLetterMoves::of(lives);
    let mut events: Vec<(u64, Event)> = Vec::new();
    for (index, delivery) in ordered_deliveries.iter().enumerate() {
        check_shape(history, delivery)?;
        events.push((delivery.span.invoked, Event::Taken(index)));
    }
    for (from, to, id) in available_times(lives) {
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
                let delivery = &ordered_deliveries[index];
                let skipped = if history.rules.is_fair {
                    left_over(delivery, &free, &moves_to_dead_letters)
                } else {
                    skipped(delivery, &free, &moves_to_dead_letters)
                };
                if skipped.len() > uncertainty.taken(delivery.span) {
                    let what = format!("{} available messages were skipped {}", skipped.len(), delivery.span);
                    return Err(Violation::new(history, Rule::Skipped, what, &skipped[..1]));
                }
            }
        }
    }
    Ok(())
}

fn ordered_deliveries(history: &History) -> Vec<OrderedDelivery<'_>> {
    let claims = history.claims.iter().filter(|claim| !matches!(claim.outcome, Claimed::Unknown | Claimed::Paused));
    let claims =
        claims.map(|claim| OrderedDelivery { span: claim.span, limit: claim.limit, messages: claim.messages() });
    let pops = history.pops.iter().filter(|pop| pop.messages.is_some() && !pop.is_paused);
    claims
        .chain(pops.map(|pop| OrderedDelivery { span: pop.span, limit: pop.limit, messages: pop.messages() }))
        .collect()
}

fn check_shape(history: &History, delivery: &OrderedDelivery) -> Result<(), Violation> {
    let ids: Vec<Uuid> = delivery.messages.iter().map(|seen| seen.id).collect();
    let is_in_order = history.rules.is_fair || ids.is_sorted_by(|earlier, later| earlier < later);
    if ids.len() > delivery.limit || !is_in_order {
        let what = format!("{} messages, not {} at most in order {}", ids.len(), delivery.limit, delivery.span);
        return Err(Violation::new(history, Rule::Unordered, what, ids.get(..1).unwrap_or_default()));
    }
    Ok(())
}

/// Returns messages that were available the whole time but were not among the first.
fn skipped(
    delivery: &OrderedDelivery,
    free: &BTreeMap<Uuid, u64>,
    moves_to_dead_letters: &DeadLetterMoves,
) -> Vec<Uuid> {
    let last = delivery.messages.last().map_or(Uuid::nil(), |seen| seen.id);
    let rest = if delivery.messages.len() < delivery.limit { Uuid::max() } else { last };
    let left: Vec<Uuid> = free.range(..=rest).filter(|(_, to)| **to > delivery.span.ended).map(|(id, _)| *id).collect();
    if left.is_empty() {
        return left;
    }
    // Messages that become dead letters count for the limit, but are not delivered.
    let dead_letter_history = moves_to_dead_letters.during(delivery.span);
    let taken_before = |id: &Uuid| delivery.messages.len() + dead_letter_history.partition_point(|other| other < id);
    left.into_iter().filter(|id| *id < last || taken_before(id) < delivery.limit).collect()
}

/// Returns messages that were available the whole time although fewer were taken than requested.
fn left_over(
    delivery: &OrderedDelivery,
    free: &BTreeMap<Uuid, u64>,
    moves_to_dead_letters: &DeadLetterMoves,
) -> Vec<Uuid> {
    if delivery.messages.len() + moves_to_dead_letters.during(delivery.span).len() >= delivery.limit {
        return Vec::new();
    }
    free.iter().filter(|(_, to)| **to > delivery.span.ended).map(|(id, _)| *id).collect()
}

/// Returns the periods in which each message was certainly present, due, and in no claim.
fn available_times(lives: &Lives) -> Vec<(u64, u64, Uuid)> {
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
