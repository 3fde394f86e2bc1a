//! Checks dead letters: exactly the messages that have reached the claim limit, each once and
//! unchanged.

use uuid::Uuid;

use super::life::{self, Life, Lives};
use super::{Rule, Uncertainty, Violation};
use crate::exclusive_claims::history::{DeadLetter, History, Rules, Span};
use support::timeline::clock::StoreClock;

/// Checks each dead letter, and records when its message was moved.
pub(super) fn check_dead_letters(
    history: &History,
    lives: &mut Lives,
    uncertainty: &Uncertainty,
    clock: &StoreClock,
) -> Result<(), Violation> {
    let mut unseen = life::unanswered(history);
    let attempts = Attempts::of(history);
    let mut not_before = 0;
    let mut uncounted = 0;
    for reading in &history.readings {
        let Span { invoked, ended } = reading.span;
        let uncertain = uncertainty.is_any_taking_during(reading.span);
        let by = if uncertain { ended } else { invoked };
        for dead_letter in &reading.dead_letters {
            let violation = |rule, what: String| {
                Violation::new(history, rule, format!("{} {what}", dead_letter.source_id), &[dead_letter.source_id])
            };
            if !lives.contains_key(&dead_letter.source_id)
                && let Some((post, draft)) = unseen.remove(&dead_letter.tag)
            {
                let life = Life::new(dead_letter.source_id, post, &draft, by, history.rules, clock);
                lives.insert(dead_letter.source_id, life);
            }
            let Some(life) = lives.get_mut(&dead_letter.source_id) else {
                return Err(violation(Rule::Invented, "was never posted, but became a dead letter".to_owned()));
            };
            let missing = (history.rules.count_max as usize).saturating_sub(life.deliveries.len());
            uncounted += missing;
            if missing > uncertainty.count_by(ended) || uncounted > uncertainty.limits_by(ended) {
                return Err(violation(
                    Rule::UnjustifiedDeadLetter,
                    format!("was delivered {} times, and became a dead letter", life.deliveries.len()),
                ));
            }
            check_content(life, dead_letter, history.rules, uncertainty)
                .map_err(|(rule, what)| violation(rule, what))?;
            check_move(life, not_before, by, &attempts).map_err(|(rule, what)| violation(rule, what))?;
            life.set_moved_to_dead_letters(not_before, by);
        }
        if !uncertain {
            not_before = ended + 1;
        }
    }
    Ok(())
}

fn check_content(
    life: &Life,
    dead_letter: &DeadLetter,
    rules: Rules,
    uncertainty: &Uncertainty,
) -> Result<(), (Rule, String)> {
    let mut terms = life.holds().flat_map(|hold| &hold.terms);
    let ttl_is_right = match rules.dead_letter_ttl_s {
        Some(ttl_s) => dead_letter.ttl_s == ttl_s,
        // A known claim may have extended its life, or one whose messages are unknown.
        None => {
            dead_letter.ttl_s == life.ttl_s
                || terms.any(|(_, term, _)| dead_letter.ttl_s == term.ttl_s + term.grace_s)
                || uncertainty.is_any_claim()
        }
    };
    if dead_letter.tag != life.tag || dead_letter.claim_count != rules.count_max || !ttl_is_right {
        return Err((Rule::Altered, format!("says {} for {} s, and died as {dead_letter:?}", life.tag, life.ttl_s)));
    }
    Ok(())
}

/// The message became a dead letter within this period.
fn check_move(life: &Life, from: u64, by: u64, attempts: &Attempts) -> Result<(), (Rule, String)> {
    if life.moved_to_dead_letters.is_some() {
        return Err((Rule::DeadLetterTwice, "died twice".to_owned()));
    }
    if let Some(delivery) = life.deliveries.iter().find(|delivery| by < delivery.span.invoked) {
        return Err((Rule::DeadLetterDelivered, format!("was a dead letter, but was delivered {}", delivery.span)));
    }
    let from = from.max(life.may_be_free_from());
    if life.gone_by < from {
        return Err((Rule::Deleted, "had ended, but became a dead letter".to_owned()));
    }
    if by < from || !attempts.any_between(from, by) {
        return Err((Rule::UnjustifiedDeadLetter, "became a dead letter before any further request".to_owned()));
    }
    Ok(())
}

/// The attempts to claim or pop messages, whatever their outcome: by the time of the attempt, the
/// latest end of all attempts so far.
struct Attempts(Vec<(u64, u64)>);

impl Attempts {
    fn of(history: &History) -> Self {
        let claims = history.claims.iter().map(|claim| claim.span);
        let spans = claims.chain(history.pops.iter().map(|pop| pop.span));
        let mut attempts: Vec<(u64, u64)> = spans.map(|span| (span.invoked, span.ended)).collect();
        attempts.sort_unstable();
        let mut latest = 0;
        for (_, ended) in &mut attempts {
            latest = latest.max(*ended);
            *ended = latest;
        }
        Self(attempts)
    }

    fn any_between(&self, from: u64, by: u64) -> bool {
        let begun = self.0.partition_point(|(invoked, _)| *invoked <= by);
        self.0[..begun].last().is_some_and(|(_, ended)| from <= *ended)
    }
}

/// The messages that became dead letters, each with the period in which it happened, in the order
/// of their ids.
pub(super) struct DeadLetterMoves(Vec<(u64, u64, Uuid)>);

impl DeadLetterMoves {
    pub(super) fn of(lives: &Lives) -> Self {
        Self(
            lives
                .values()
                .filter_map(|life| life.moved_to_dead_letters.map(|(from, by)| (from, by, life.id)))
                .collect(),
        )
    }

    /// Returns the messages that may have become dead letters within the span.
    pub(super) fn during(&self, Span { invoked, ended }: Span) -> Vec<Uuid> {
        let meanwhile = self.0.iter().filter(|(from, by, _)| *from <= ended && invoked <= *by);
        meanwhile.map(|(.., id)| *id).collect()
    }
}

/// Returns how many dead letters had been read by then.
pub(super) fn read_by(history: &History, moment: u64) -> usize {
    let readings = history.readings.iter().filter(|reading| reading.span.ended <= moment);
    readings.map(|reading| reading.dead_letters.len()).sum()
}
