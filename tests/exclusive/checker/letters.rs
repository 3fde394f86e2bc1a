//! Dead letters: those whose count ran out and nobody else, each once, as they were.

use uuid::Uuid;

use super::life::{self, Life, Lives};
use super::{Doubts, Rule, Violation};
use crate::exclusive::history::{History, Letter, Rules, Span};
use crate::support::chronicle::clock::StoreClock;

/// Notes of each message when it died.
pub(super) fn bury(history: &History, lives: &mut Lives, doubts: &Doubts, clock: &StoreClock) -> Result<(), Violation> {
    let mut unseen = life::unanswered(history);
    let attempts = Attempts::of(history);
    let mut not_before = 0;
    let mut uncounted = 0;
    for reading in &history.readings {
        let Span { invoked, ended } = reading.span;
        let in_doubt = doubts.is_any_taking_during(reading.span);
        let by = if in_doubt { ended } else { invoked };
        for letter in &reading.letters {
            let violation = |rule, what: String| {
                Violation::new(history, rule, format!("{} {what}", letter.source_id), &[letter.source_id])
            };
            if !lives.contains_key(&letter.source_id)
                && let Some((post, draft)) = unseen.remove(&letter.tag)
            {
                let life = Life::new(letter.source_id, post, &draft, by, history.rules, clock);
                lives.insert(letter.source_id, life);
            }
            let Some(life) = lives.get_mut(&letter.source_id) else {
                return Err(violation(Rule::Invented, "was never posted, and died".to_owned()));
            };
            let missing = (history.rules.count_max as usize).saturating_sub(life.deliveries.len());
            uncounted += missing;
            if missing > doubts.claims_by(ended) || uncounted > doubts.limits_by(ended) {
                return Err(violation(Rule::Undue, format!("was given out {} times, and died", life.deliveries.len())));
            }
            check_content(life, letter, history.rules, doubts).map_err(|(rule, what)| violation(rule, what))?;
            check_death(life, not_before, by, &attempts).map_err(|(rule, what)| violation(rule, what))?;
            life.die(not_before, by);
        }
        if !in_doubt {
            not_before = ended + 1;
        }
    }
    Ok(())
}

fn check_content(life: &Life, letter: &Letter, rules: Rules, doubts: &Doubts) -> Result<(), (Rule, String)> {
    let mut terms = life.holds().flat_map(|hold| &hold.terms);
    let ttl_is_right = match rules.letter_ttl_s {
        Some(ttl_s) => letter.ttl_s == ttl_s,
        // A claim may have prolonged it, or one that nobody knows of.
        None => {
            letter.ttl_s == life.ttl_s
                || terms.any(|(_, term, _)| letter.ttl_s == term.ttl_s + term.grace_s)
                || doubts.is_any_claim()
        }
    };
    if letter.tag != life.tag || letter.claim_count != rules.count_max || !ttl_is_right {
        return Err((Rule::Altered, format!("says {} for {} s, and died as {letter:?}", life.tag, life.ttl_s)));
    }
    Ok(())
}

/// It died between these moments.
fn check_death(life: &Life, from: u64, by: u64, attempts: &Attempts) -> Result<(), (Rule, String)> {
    if life.died.is_some() {
        return Err((Rule::Doubled, "died twice".to_owned()));
    }
    if let Some(delivery) = life.deliveries.iter().find(|delivery| by < delivery.span.invoked) {
        return Err((Rule::Dead, format!("was dead, and given out {}", delivery.span)));
    }
    let from = from.max(life.may_be_free_from());
    if life.gone_by < from {
        return Err((Rule::Deleted, "was gone, and died".to_owned()));
    }
    if by < from || !attempts.any_between(from, by) {
        return Err((Rule::Undue, "died before anybody could have asked for it again".to_owned()));
    }
    Ok(())
}

/// When somebody asked for messages, whatever came of it: by the moment of asking, the latest end of
/// all until then.
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

/// Who died between which moments, in order of their ids.
pub(super) struct Deaths(Vec<(u64, u64, Uuid)>);

impl Deaths {
    pub(super) fn of(lives: &Lives) -> Self {
        Self(lives.values().filter_map(|life| life.died.map(|(from, by)| (from, by, life.id))).collect())
    }

    /// Those that may have died meanwhile.
    pub(super) fn during(&self, Span { invoked, ended }: Span) -> Vec<Uuid> {
        let meanwhile = self.0.iter().filter(|(from, by, _)| *from <= ended && invoked <= *by);
        meanwhile.map(|(.., id)| *id).collect()
    }
}

/// How many had been read by then.
pub(super) fn read_by(history: &History, moment: u64) -> usize {
    let readings = history.readings.iter().filter(|reading| reading.span.ended <= moment);
    readings.map(|reading| reading.letters.len()).sum()
}
