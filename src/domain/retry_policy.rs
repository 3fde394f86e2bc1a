//! `_retry_policy`: when to try again to notify a subscriber that could not be reached.

use serde_json::{Map, Value};
use thiserror::Error;

use super::integer::integer;

const MINIMUM_DELAY: &str = "minimum_delay";
const MAXIMUM_DELAY: &str = "maximum_delay";
/// The delays of a policy that does not set them, in seconds.
const MINIMUM_DELAY_S: i64 = 5;
const MAXIMUM_DELAY_S: i64 = 30;
/// How far apart the two have to be for steps in between, in seconds.
const DELAYS_APART_S: u64 = 10;

const COUNTS: [&str; 3] = ["retries_with_no_delay", "minimum_delay_retries", "maximum_delay_retries"];
const BACKOFF: &str = "retry_backoff_function";
const BACKOFFS: [&str; 4] = ["linear", "arithmetic", "geometric", "exponential"];
const IGNORE_OVERRIDE: &str = "ignore_subscription_override";

/// Why a retry policy is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidRetryPolicy {
    /// It is no object, or one of its keys has a value that it does not take.
    #[error("{what} must be {expected}")]
    Value {
        /// The policy, or the key in it.
        what: &'static str,
        /// What it takes.
        expected: &'static str,
    },
    /// The delays leave no room for steps in between.
    #[error(
        "{MAXIMUM_DELAY} is {maximum_s}; it must be at least {DELAYS_APART_S} above {MINIMUM_DELAY}, which is {minimum_s}"
    )]
    Delays {
        /// The delay of the first retries.
        minimum_s: i64,
        /// The delay of the last ones.
        maximum_s: i64,
    },
}

/// Checks a policy; keys that it does not know are nobody's business.
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

/// Checks a key of which null means that it is not set.
fn expect(
    policy: &Map<String, Value>,
    key: &'static str,
    expected: &'static str,
    fits: impl Fn(&Value) -> bool,
) -> Result<(), InvalidRetryPolicy> {
    let fits = policy.get(key).is_none_or(|value| value.is_null() || fits(value));
    fits.then_some(()).ok_or(InvalidRetryPolicy::Value { what: key, expected })
}

/// A delay in seconds. Null is none: the reference breaks down on it, so nobody relies on it.
fn delay(policy: &Map<String, Value>, key: &'static str, default_s: i64) -> Result<i64, InvalidRetryPolicy> {
    let Some(value) = policy.get(key) else {
        return Ok(default_s);
    };
    integer(value).ok_or(InvalidRetryPolicy::Value { what: key, expected: "an integer" })
}
