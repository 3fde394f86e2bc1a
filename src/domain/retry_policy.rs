//! `_retry_policy`: the delays between attempts to notify a subscriber that could not be reached.

use serde_json::{Map, Value};
use thiserror::Error;

use super::integer::integer;

const MINIMUM_DELAY: &str = "minimum_delay";
const MAXIMUM_DELAY: &str = "maximum_delay";
/// Default delays, in seconds.
const MINIMUM_DELAY_S: i64 = 5;
const MAXIMUM_DELAY_S: i64 = 30;
/// Minimum difference between the two delays, in seconds, which leaves room for intermediate
/// delays.
const DELAYS_APART_S: u64 = 10;

const COUNTS: [&str; 3] = ["retries_with_no_delay", "minimum_delay_retries", "maximum_delay_retries"];
const BACKOFF: &str = "retry_backoff_function";
const BACKOFFS: [&str; 4] = ["linear", "arithmetic", "geometric", "exponential"];
const IGNORE_OVERRIDE: &str = "ignore_subscription_override";

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
        expect(policy, count, "an integer", |value| integer(value).is_some())?;
    }
    expect(policy, BACKOFF, "linear, arithmetic, geometric or exponential", |value| {
        value.as_str().is_some_and(|name| BACKOFFS.contains(&name))
    })?;
    expect(policy, IGNORE_OVERRIDE, "a boolean", Value::is_boolean)?;

    let minimum_s = delay(policy, MINIMUM_DELAY, MINIMUM_DELAY_S)?;
    let maximum_s = delay(policy, MAXIMUM_DELAY, MAXIMUM_DELAY_S)?;
    if maximum_s < minimum_s || maximum_s.abs_diff(minimum_s) < DELAYS_APART_S {
        return Err(InvalidRetryPolicy::Delays { minimum_s, maximum_s });
    }
    Ok(())
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
    integer(value).ok_or(InvalidRetryPolicy::Value { what: key, expected: "an integer" })
}
