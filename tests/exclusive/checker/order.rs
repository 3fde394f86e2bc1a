//! Whoever takes messages takes the oldest free ones.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::lease::Lease;
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

pub(super) fn check(
    history: &History,
    lives: &Lives,
    leases: &HashMap<Uuid, Lease>,
    doubts: &Doubts,
) -> Result<(), Violation> {
    let takings = takings(history);
    let mut events: Vec<(u64, Event)> = Vec::new();
    for (index, taking) in takings.iter().enumerate() {
        check_shape(history, taking)?;
        events.push((taking.span.invoked, Event::Taken(index)));
    }
    for (from, to, id) in free_times(lives, leases) {
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
                let full = taking.messages.len() >= taking.limit;
                let last = if full { taking.messages.last().map_or(Uuid::max(), |seen| seen.id) } else { Uuid::max() };
                let skipped: Vec<Uuid> =
                    free.range(..=last).filter(|(_, to)| **to > taking.span.ended).map(|(id, _)| *id).collect();
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
    if ids.len() > taking.limit || !ids.is_sorted_by(|earlier, later| earlier < later) {
        let what = format!("{} messages, not {} at most in order {}", ids.len(), taking.limit, taking.span);
        return Err(Violation::new(history, Rule::Unordered, what, ids.get(..1).unwrap_or_default()));
    }
    Ok(())
}

/// When each message was there and under no claim, for certain.
fn free_times(lives: &Lives, leases: &HashMap<Uuid, Lease>) -> Vec<(u64, u64, Uuid)> {
    let mut times = Vec::new();
    for life in lives.values() {
        let mut from = life.there_by;
        for (span, by) in &life.deliveries {
            if from < span.invoked.min(life.leaves_from) {
                times.push((from, span.invoked.min(life.leaves_from), life.id));
            }
            from = from.max(by.and_then(|by| leases.get(&by)).map_or(u64::MAX, |lease| lease.over_by));
        }
        if from < life.leaves_from {
            times.push((from, life.leaves_from, life.id));
        }
    }
    times
}
