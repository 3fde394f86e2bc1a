//! `_retry_policy`: the delays between attempts to notify a subscriber that could not be reached.

use std::time::Duration;

use serde_json::{Map, Value};
use thiserror::Error;

use super::Warning;
use super::integer::integer;
use super::warning::{NameKind, of_unknown};

const MINIMUM_DELAY: &str = "minimum_delay";
const MAXIMUM_DELAY: &str = "maximum_delay";
/// Default delays, in seconds.
const MINIMUM_DELAY_S: i64 = 5;
const MAXIMUM_DELAY_S: i64 = 30;
/// Minimum difference between the two delays, in seconds, which leaves room for intermediate
/// delays.
const DELAYS_APART_S: u64 = 10;

/// The numbers of retries of three phases: at once, after the minimum delay, and after the maximum
/// delay.
const COUNTS: [&str; 3] = ["retries_with_no_delay", "minimum_delay_retries", "maximum_delay_retries"];
/// Default of each of these numbers.
const RETRIES: u64 = 3;
const BACKOFF: &str = "retry_backoff_function";
const BACKOFFS: [(&str, Backoff); 4] = [
    ("linear", Backoff::Linear),
    ("arithmetic", Backoff::Arithmetic),
    ("geometric", Backoff::Geometric),
    ("exponential", Backoff::Exponential),
];
const IGNORE_OVERRIDE: &str = "ignore_subscription_override";
const KEYS: [&str; 7] = [COUNTS[0], COUNTS[1], COUNTS[2], BACKOFF, IGNORE_OVERRIDE, MINIMUM_DELAY, MAXIMUM_DELAY];
/// Number of seconds of the back-off phase for each of its steps.
const STEP_S: u64 = 5;
/// Maximum delay, in seconds. Longer ones, which earlier releases have accepted, are shortened to
/// this.
const DELAY_S_MAX: i64 = 366 * 24 * 3600;
/// The accepted delays, for error texts. A negative one counts as 0, so that a policy can do
/// without delays that grow.
const DELAY_ACCEPTED: &str = "an integer of at most 31622400, in seconds";

/// A parsed policy.
///
/// Retries go through four phases: some at once, some after the minimum delay, some after delays
/// that grow, and some after the maximum delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    at_once: u64,
    after_minimum: u64,
    after_maximum: u64,
    minimum_s: u64,
    maximum_s: u64,
    backoff: Backoff,
}

/// The value of `_retry_policy` of a subscription or a queue, which was validated before it was
/// stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySetting {
    policy: RetryPolicy,
    /// Whether the policy of the queue has precedence over that of the subscription.
    queue_has_precedence: bool,
}

impl PolicySetting {
    /// Returns the setting with this value; `None` for one without keys, which has no effect.
    #[must_use]
    pub fn of(value: &Value) -> Option<Self> {
        let keys = value.as_object().filter(|keys| !keys.is_empty())?;
        let queue_has_precedence = keys.get(IGNORE_OVERRIDE) == Some(&Value::Bool(true));
        Some(Self { policy: RetryPolicy::of_keys(keys), queue_has_precedence })
    }
}

/// Returns whether the policy of a queue, if it has one, has precedence over this one of a
/// subscription.
#[must_use]
pub fn is_ignored(own: &Value, of_queue: Option<&Value>) -> bool {
    let Some(own) = PolicySetting::of(own) else { return false };
    let of_queue = of_queue.and_then(PolicySetting::of);
    own.queue_has_precedence || of_queue.is_some_and(|setting| setting.queue_has_precedence)
}

/// How delays grow from the minimum to the maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Backoff {
    /// By the same difference.
    #[default]
    Linear,
    /// By differences that grow by the same difference.
    Arithmetic,
    /// By the same factor.
    Geometric,
    /// By the same factor too. Only the rounding may differ.
    Exponential,
}

/// Reasons for which a retry policy is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidRetryPolicy {
    /// The policy is not an object, or a key has an invalid value.
    #[error("{what} must be {expected}")]
    Value {
        /// The policy or the key.
        what: &'static str,
        /// The accepted values.
        expected: &'static str,
    },
    /// The delays are too close together.
    #[error(
        "{MAXIMUM_DELAY} is {maximum_s}; it must be at least {DELAYS_APART_S} above {MINIMUM_DELAY}, which is {minimum_s}"
    )]
    Delays {
        /// Delay before the first retries, in seconds.
        minimum_s: i64,
        /// Delay before the last retries, in seconds.
        maximum_s: i64,
    },
}

/// Validates a policy. Unknown keys are allowed.
///
/// # Errors
///
/// [`InvalidRetryPolicy`] if a known key has an invalid value, or the delays are too close
/// together.
pub fn check(policy: &Value) -> Result<(), InvalidRetryPolicy> {
    let Value::Object(policy) = policy else {
        return Err(InvalidRetryPolicy::Value { what: "the policy", expected: "an object" });
    };
    for count in COUNTS {
        expect(policy, count, "an integer of 0 or more", |value| value.as_i64().is_some_and(|count| count >= 0))?;
    }
    expect(policy, BACKOFF, "linear, arithmetic, geometric or exponential", |value| {
        value.as_str().and_then(Backoff::of_name).is_some()
    })?;
    expect(policy, IGNORE_OVERRIDE, "a boolean", Value::is_boolean)?;

    let minimum_s = delay(policy, MINIMUM_DELAY, MINIMUM_DELAY_S)?;
    let maximum_s = delay(policy, MAXIMUM_DELAY, MAXIMUM_DELAY_S)?;
    if maximum_s < minimum_s || maximum_s.abs_diff(minimum_s) < DELAYS_APART_S {
        return Err(InvalidRetryPolicy::Delays { minimum_s, maximum_s });
    }
    Ok(())
}

/// Returns warnings about keys of a policy that have no effect.
#[must_use]
pub fn warnings(policy: &Value) -> Vec<Warning> {
    let keys = policy.as_object().into_iter().flat_map(|policy| policy.keys().map(String::as_str));
    of_unknown(NameKind::PolicyKey, &KEYS, keys)
}

impl RetryPolicy {
    /// Returns the policy of a subscription.
    ///
    /// The policy of the subscription has precedence over that of the queue, unless one of them
    /// says that the queue has precedence. Keys that are missing have their defaults.
    #[must_use]
    pub fn from_settings(own: Option<&PolicySetting>, of_queue: Option<&PolicySetting>) -> Self {
        let queue_has_precedence = own.into_iter().chain(of_queue).any(|setting| setting.queue_has_precedence);
        let chosen = if queue_has_precedence { of_queue } else { own.or(of_queue) };
        chosen.map_or_else(|| Self::of_keys(&Map::new()), |setting| setting.policy.clone())
    }

    fn of_keys(keys: &Map<String, Value>) -> Self {
        let number = |key: &str, default: u64| {
            let number = keys.get(key).and_then(integer);
            number.map_or(default, |number| u64::try_from(number).unwrap_or_default())
        };
        let [at_once, after_minimum, after_maximum] = COUNTS.map(|count| number(count, RETRIES));
        let backoff = keys.get(BACKOFF).and_then(Value::as_str).and_then(Backoff::of_name);
        Self {
            at_once,
            after_minimum,
            after_maximum,
            minimum_s: number(MINIMUM_DELAY, MINIMUM_DELAY_S.unsigned_abs()),
            maximum_s: number(MAXIMUM_DELAY, MAXIMUM_DELAY_S.unsigned_abs()),
            backoff: backoff.unwrap_or_default(),
        }
    }

    /// Returns the delay after this number of attempts, all of which have failed, without jitter.
    /// Returns `None` if there is no further attempt.
    #[must_use]
    pub fn delay(&self, attempts: u32) -> Option<Duration> {
        let mut retry = u64::from(attempts.saturating_sub(1));
        let steps = self.backoff_steps();
        let mut is_in = |phase: u64| {
            let is_in = retry < phase;
            retry = if is_in { retry } else { retry - phase };
            is_in
        };
        let delay_s = if is_in(self.at_once) {
            0
        } else if is_in(self.after_minimum) {
            self.minimum_s
        } else if is_in(steps) {
            self.backoff_delay_s(retry, steps)
        } else if is_in(self.after_maximum) {
            self.maximum_s
        } else {
            return None;
        };
        Some(Duration::from_secs(delay_s.min(DELAY_S_MAX.unsigned_abs())))
    }

    /// Returns the number of retries in the back-off phase.
    fn backoff_steps(&self) -> u64 {
        let span_s = self.maximum_s.saturating_sub(self.minimum_s);
        match self.backoff {
            Backoff::Linear => span_s.div_ceil(STEP_S),
            Backoff::Arithmetic | Backoff::Geometric | Backoff::Exponential => span_s / STEP_S,
        }
    }

    /// Returns the delay before a retry of the back-off phase, in seconds, as the reference
    /// implementation computes it, except that rounding does not lead out of the bounds. `index` is
    /// the number of the retry in the phase, from 0.
    #[expect(clippy::cast_precision_loss, reason = "delays above 2^53 seconds are shortened anyway")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "fractions are dropped")]
    fn backoff_delay_s(&self, index: u64, steps: u64) -> u64 {
        let (minimum, maximum) = (self.minimum_s as f64, self.maximum_s as f64);
        let (n, a) = (steps as f64, index as f64 + 1.0);
        // With a minimum of 0, no factor leads to the maximum.
        let least = minimum.max(1.0);
        let k = 10f64.powf((maximum / least).log10() / (n - 1.0));
        let delay_s = match self.backoff {
            Backoff::Linear => minimum + (index * STEP_S) as f64,
            Backoff::Arithmetic => minimum + (a - 1.0) * a * (2.0 * (maximum - minimum) / (n * (n - 1.0))) / 2.0,
            Backoff::Geometric => least * k.powf(a - 1.0),
            Backoff::Exponential => least / k * k.powf(a),
        };
        delay_s.clamp(minimum, maximum) as u64
    }
}

impl Backoff {
    fn of_name(name: &str) -> Option<Self> {
        BACKOFFS.iter().find(|(known, _)| *known == name).map(|(_, backoff)| *backoff)
    }
}

/// Validates the value of a key, if it is set. Null counts as not set.
fn expect(
    policy: &Map<String, Value>,
    key: &'static str,
    expected: &'static str,
    fits: impl Fn(&Value) -> bool,
) -> Result<(), InvalidRetryPolicy> {
    let fits = policy.get(key).is_none_or(|value| value.is_null() || fits(value));
    fits.then_some(()).ok_or(InvalidRetryPolicy::Value { what: key, expected })
}

/// Returns a delay in seconds, or the default if the key is missing. Null is refused: the reference
/// implementation fails on it, so no client relies on it.
fn delay(policy: &Map<String, Value>, key: &'static str, default_s: i64) -> Result<i64, InvalidRetryPolicy> {
    let Some(value) = policy.get(key) else {
        return Ok(default_s);
    };
    let delay_s = value.as_i64().filter(|delay_s| *delay_s <= DELAY_S_MAX);
    delay_s.ok_or(InvalidRetryPolicy::Value { what: key, expected: DELAY_ACCEPTED })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn policy(value: &Value) -> RetryPolicy {
        RetryPolicy::from_settings(PolicySetting::of(value).as_ref(), None)
    }

    fn delays_s(policy: &RetryPolicy) -> Vec<u64> {
        (1..10_000).map_while(|attempts| policy.delay(attempts)).map(|delay| delay.as_secs()).collect()
    }

    /// Rows 8.6-11, 8.6-12.
    /// Values computed with the functions of the reference implementation.
    #[test]
    fn the_back_off_functions_are_those_of_the_reference() {
        let only_backoff = |function: &str, minimum_s: u64, maximum_s: u64| {
            delays_s(&policy(&json!({
                "retries_with_no_delay": 0, "minimum_delay_retries": 0, "maximum_delay_retries": 0,
                "minimum_delay": minimum_s, "maximum_delay": maximum_s, "retry_backoff_function": function,
            })))
        };
        assert_eq!(only_backoff("linear", 5, 30), [5, 10, 15, 20, 25]);
        assert_eq!(only_backoff("linear", 1, 18), [1, 6, 11, 16]);
        for (function, minimum_s, maximum_s, expected) in REFERENCE {
            let delays_s = only_backoff(function, *minimum_s, *maximum_s);
            assert_eq!(delays_s, *expected, "{function} {minimum_s} {maximum_s}");
        }
    }

    const REFERENCE: &[(&str, u64, u64, &[u64])] = &[
        ("arithmetic", 5, 30, &[5, 7, 12, 20, 30]),
        ("geometric", 5, 30, &[5, 7, 12, 19, 30]),
        ("exponential", 5, 30, &[5, 7, 12, 19, 30]),
        ("arithmetic", 10, 61, &[10, 11, 13, 16, 21, 27, 33, 41, 50, 61]),
        ("geometric", 10, 61, &[10, 12, 14, 18, 22, 27, 33, 40, 49, 61]),
        ("exponential", 10, 61, &[10, 12, 14, 18, 22, 27, 33, 40, 49, 61]),
        ("arithmetic", 1, 12, &[1, 12]),
        ("geometric", 1, 12, &[1, 12]),
    ];

    /// Rows 8.6-9, 8.6-10.
    #[test]
    fn retries_go_through_four_phases() {
        assert_eq!(delays_s(&policy(&json!({}))), [0, 0, 0, 5, 5, 5, 5, 10, 15, 20, 25, 30, 30, 30]);
        // Earlier releases have accepted negative numbers.
        let none = json!({"retries_with_no_delay": 0, "minimum_delay_retries": -1, "maximum_delay_retries": 1});
        assert_eq!(delays_s(&policy(&none)), [5, 10, 15, 20, 25, 30]);
    }

    /// Rows 8.6-7, 8.6-8.
    #[test]
    fn the_policy_of_the_subscription_wins_unless_one_says_otherwise() {
        let (own, of_queue) = (json!({"minimum_delay": 7}), json!({"minimum_delay": 9}));
        let minimum_s = |own: &Value, of_queue: Option<&Value>| {
            let [own, of_queue] = [Some(own), of_queue].map(|value| value.and_then(PolicySetting::of));
            RetryPolicy::from_settings(own.as_ref(), of_queue.as_ref()).delay(4).unwrap().as_secs()
        };
        let ignoring = |policy: &Value| {
            let mut policy = policy.clone();
            policy["ignore_subscription_override"] = json!(true);
            policy
        };

        assert_eq!(minimum_s(&own, Some(&of_queue)), 7);
        assert_eq!(minimum_s(&Value::Null, Some(&of_queue)), 9);
        assert_eq!(minimum_s(&json!({}), Some(&of_queue)), 9);
        assert_eq!(minimum_s(&ignoring(&own), Some(&of_queue)), 9);
        assert_eq!(minimum_s(&own, Some(&ignoring(&of_queue))), 9);
        assert_eq!(minimum_s(&ignoring(&own), None), 5);
        assert_eq!(minimum_s(&own, None), 7);
    }

    proptest! {
        #[test]
        fn delays_of_an_accepted_policy_grow_within_its_bounds(
            (minimum_s, span_s) in (0u64..10_000, 10u64..10_000),
            counts in prop::array::uniform3(0usize..20),
            function in prop::sample::select(BACKOFFS.map(|(name, _)| name).to_vec()),
        ) {
            let maximum_s = minimum_s + span_s;
            let value = json!({
                COUNTS[0]: counts[0], COUNTS[1]: counts[1], COUNTS[2]: counts[2],
                "minimum_delay": minimum_s, "maximum_delay": maximum_s, "retry_backoff_function": function,
            });
            prop_assert_eq!(check(&value), Ok(()));

            let delays_s = delays_s(&policy(&value));

            let [at_once, after_minimum, after_maximum] = counts;
            prop_assert!(delays_s[..at_once].iter().all(|delay_s| *delay_s == 0));
            prop_assert!(delays_s[at_once..].is_sorted());
            prop_assert!(delays_s[at_once..][..after_minimum].iter().all(|delay_s| *delay_s == minimum_s));
            prop_assert!(delays_s[delays_s.len() - after_maximum..].iter().all(|delay_s| *delay_s == maximum_s));
            prop_assert!(delays_s[at_once..].iter().all(|delay_s| (minimum_s..=maximum_s).contains(delay_s)));
            let steps = delays_s.len() - at_once - after_minimum - after_maximum;
            let span = usize::try_from(span_s).unwrap();
            prop_assert!(steps == span / 5 || steps == span.div_ceil(5), "{} steps", steps);
        }

        #[test]
        fn no_stored_policy_makes_it_panic(
            numbers in prop::array::uniform5(any::<i64>()),
            function in prop::sample::select(BACKOFFS.map(|(name, _)| name).to_vec()),
            attempts: u32,
        ) {
            let keys = [COUNTS[0], COUNTS[1], COUNTS[2], MINIMUM_DELAY, MAXIMUM_DELAY].into_iter().zip(numbers);
            let mut value: Value = keys.map(|(key, number)| (key.to_owned(), json!(number))).collect();
            value[BACKOFF] = json!(function);
            let delay = policy(&value).delay(attempts);

            prop_assert!(delay.is_none_or(|delay| delay.as_secs() <= DELAY_S_MAX.unsigned_abs()));
        }
    }
}
