//! The metadata of a queue: keys of its owner, and reserved keys (`_…`) that configure the queue.

use serde_json::{Value, json};
use thiserror::Error;

use super::durability::{DURABILITY_ACCEPTED, Durability};
use super::integer::integer;
use super::json_object::TooComplex;
use super::limits::MESSAGE_TTL_S_MIN;
use super::msgpack::{Reader, Token};
use super::queue_id::InvalidQueueId;
use super::retry_policy::{self, InvalidRetryPolicy};
use super::sharding::{SHARDS_MAX, SHARDS_PER_TENANT_DEFAULT};
use super::warning::{NameKind, UNKNOWN_NAMES_MAX, letters, of_unknown, other_word, shown};
use super::{JsonObject, Limits, QueueKind, QueueName, Sharding, Warning};

const MAX_POST_SIZE: &str = "_max_messages_post_size";
const DEFAULT_TTL: &str = "_default_message_ttl";
const DEFAULT_DELAY: &str = "_default_message_delay";
const ENABLE_DELAY: &str = "_enable_message_delay";
/// The key that names the dead-letter queue.
pub const DEAD_LETTER_QUEUE: &str = "_dead_letter_queue";
const DEAD_LETTER_TTL: &str = "_dead_letter_queue_messages_ttl";
const MAX_CLAIM_COUNT: &str = "_max_claim_count";
const ENCRYPT: &str = "_enable_encrypt_messages";
/// The key with the retry policy of subscriptions.
pub const RETRY_POLICY: &str = "_retry_policy";
const FLAVOR: &str = "_flavor";
const SHARDS: &str = "_shards";
const SHARDS_PER_TENANT: &str = "_shards_per_tenant";
const DURABILITY: &str = "_durability";

/// Reserved keys that every queue shows, with a default if they are not set.
pub const SHOWN_KEYS: [&str; 7] =
    [MAX_POST_SIZE, DEFAULT_TTL, DEFAULT_DELAY, DEAD_LETTER_QUEUE, DEAD_LETTER_TTL, MAX_CLAIM_COUNT, ENCRYPT];

/// Those that every topic shows. Messages of topics are not claimed.
const SHOWN_KEYS_OF_TOPICS: [&str; 3] = [MAX_POST_SIZE, DEFAULT_TTL, DEFAULT_DELAY];

/// Reserved keys that have a meaning.
const KNOWN_KEYS: [&str; 12] = [
    MAX_POST_SIZE,
    DEFAULT_TTL,
    DEFAULT_DELAY,
    ENABLE_DELAY,
    DEAD_LETTER_QUEUE,
    DEAD_LETTER_TTL,
    MAX_CLAIM_COUNT,
    ENCRYPT,
    RETRY_POLICY,
    SHARDS,
    SHARDS_PER_TENANT,
    DURABILITY,
];

/// Those that configure claims, which topics do not have.
const KEYS_OF_CLAIMS: [&str; 5] = [DEAD_LETTER_QUEUE, DEAD_LETTER_TTL, MAX_CLAIM_COUNT, SHARDS, SHARDS_PER_TENANT];

/// The keys that the owner of a queue has set, in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    keys: JsonObject,
    /// The reserved keys alone, because each request looks them up.
    reserved: JsonObject,
}

/// The dead-letter settings of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetters {
    /// Maximum number of claims of a message. The next claim moves it to the dead-letter queue
    /// instead.
    pub claim_count_max: u32,
    /// The dead-letter queue, in the same project.
    pub queue: QueueName,
    /// Time to live of dead letters, in seconds. `None` keeps the time at which the message would
    /// have expired.
    pub ttl_s: Option<u32>,
}

/// Reasons for which metadata is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidMetadata {
    /// There are too many values or levels.
    #[error("the metadata has {0}")]
    Complex(#[from] TooComplex),
    /// A reserved key has a value of the wrong type.
    #[error("{key} must be {expected}")]
    Type {
        /// The reserved key.
        key: &'static str,
        /// The accepted type.
        expected: &'static str,
    },
    /// A reserved key has a value out of range.
    #[error("{key} is {value}; it must be between {min} and {max}")]
    Range {
        /// The reserved key.
        key: &'static str,
        /// The value received.
        value: i64,
        /// Minimum value.
        min: u64,
        /// Maximum value.
        max: u64,
    },
    /// There are more shards per tenant than shards.
    #[error("{SHARDS_PER_TENANT} must be between 1 and {SHARDS}, which is {0}")]
    ShardsPerTenant(u64),
    /// The name of the dead-letter queue is not a valid queue name.
    #[error("{DEAD_LETTER_QUEUE} must be the name of a queue: {0}")]
    DeadLetterQueue(InvalidQueueId),
    /// The retry policy is not valid.
    #[error("{RETRY_POLICY}: {0}")]
    RetryPolicy(#[from] InvalidRetryPolicy),
    /// Encryption is enabled in the metadata, but the server has no key.
    #[error("{ENCRYPT} is true, but this server has no encryption key; its operator must set message_encryption_key")]
    NoKey,
}

impl Metadata {
    /// Returns metadata with these keys.
    ///
    /// # Errors
    ///
    /// [`InvalidMetadata`] if a reserved key has an invalid value, or there are too many values or
    /// levels.
    pub fn new(keys: JsonObject, limits: &Limits) -> Result<Self, InvalidMetadata> {
        keys.check()?;
        let ttl = (u64::from(MESSAGE_TTL_S_MIN), u64::from(limits.max_message_ttl));
        check_range(&keys, DEFAULT_TTL, ttl)?;
        check_range(&keys, DEAD_LETTER_TTL, ttl)?;
        check_range(&keys, MAX_POST_SIZE, (1, limits.max_messages_post_size))?;
        check_range(&keys, DEFAULT_DELAY, (0, u64::from(limits.max_message_delay)))?;
        for key in [SHARDS, SHARDS_PER_TENANT] {
            if non_null(&keys, key).is_some_and(|count| count.is_boolean()) {
                return Err(InvalidMetadata::Type { key, expected: "an integer" });
            }
        }
        check_range(&keys, SHARDS, (1, SHARDS_MAX.into()))?;
        let shards = integer_of(&keys, SHARDS)?.and_then(|shards| u64::try_from(shards).ok()).unwrap_or(1);
        check_range(&keys, SHARDS_PER_TENANT, (1, shards)).map_err(|error| match error {
            InvalidMetadata::Range { .. } => InvalidMetadata::ShardsPerTenant(shards),
            other => other,
        })?;
        integer_of(&keys, MAX_CLAIM_COUNT)?;
        if let Some(queue) = non_null(&keys, DEAD_LETTER_QUEUE) {
            let name: Result<QueueName, _> = queue.as_str().unwrap_or_default().parse();
            name.map_err(InvalidMetadata::DeadLetterQueue)?;
        }
        non_null(&keys, RETRY_POLICY).map_or(Ok(()), |policy| retry_policy::check(&policy))?;
        if let Some(level) = non_null(&keys, DURABILITY)
            && level.as_str().is_none_or(|level| level.parse::<Durability>().is_err())
        {
            return Err(InvalidMetadata::Type { key: DURABILITY, expected: DURABILITY_ACCEPTED });
        }
        for key in [ENCRYPT, ENABLE_DELAY] {
            if non_null(&keys, key).is_some_and(|flag| !flag.is_boolean()) {
                return Err(InvalidMetadata::Type { key, expected: "a boolean" });
            }
        }
        Ok(Self::from_store(keys))
    }

    /// Returns warnings about keys that have no effect for the queue with this name. Without
    /// pooling, `_flavor` has none.
    #[must_use]
    pub fn warnings(&self, queue: &QueueName, has_pooling: bool) -> Vec<Warning> {
        let (flavor, keys): (Vec<&str>, _) =
            self.reserved.entries().map(|(key, _)| key).partition(|key| *key == FLAVOR);
        let mut warnings = of_unknown(NameKind::MetadataKey, &KNOWN_KEYS, keys);
        warnings.extend(flavor.first().filter(|_| !has_pooling).map(|_| Warning::NoPools));
        let respelled = |key: &str| {
            let known = KNOWN_KEYS.into_iter().chain(has_pooling.then_some(FLAVOR));
            let known =
                { known }.find(|known| letters(known).eq(letters(key))).or_else(|| other_word(key, &KNOWN_KEYS))?;
            Some(Warning::OwnKey { key: shown(key), known })
        };
        // The body that the action of a WebSocket has, or the same once more in it.
        let is_nested = self.keys.object("metadata").is_some_and(|nested| {
            self.keys.entries().count() == 1 || nested.entries().any(|(key, _)| key.starts_with('_'))
        });
        warnings.extend(is_nested.then_some(Warning::NestedMetadata));
        let own_keys = self.keys.entries().map(|(key, _)| key).filter(|key| !key.starts_with('_'));
        warnings.extend(own_keys.filter_map(respelled).take(UNKNOWN_NAMES_MAX));
        warnings.extend(non_null(&self.reserved, RETRY_POLICY).iter().flat_map(retry_policy::warnings));
        let is_set = |key: &&str| non_null(&self.reserved, key).is_some();
        if queue.kind() == QueueKind::Topic {
            warnings.extend(KEYS_OF_CLAIMS.into_iter().filter(is_set).map(Warning::NotInTopics));
            return warnings;
        }
        if is_set(&MAX_CLAIM_COUNT) && self.claim_count_max().is_none() {
            warnings.push(Warning::NoClaimLimit);
            return warnings;
        }
        let is_own = self.dead_letters().is_some_and(|dead_letters| dead_letters.queue == *queue);
        warnings.extend(is_own.then_some(Warning::OwnDeadLetters));
        let pairs = [
            (MAX_CLAIM_COUNT, DEAD_LETTER_QUEUE),
            (DEAD_LETTER_QUEUE, MAX_CLAIM_COUNT),
            (DEAD_LETTER_TTL, DEAD_LETTER_QUEUE),
            (SHARDS_PER_TENANT, SHARDS),
        ];
        let lacking = pairs.into_iter().filter(|(key, missing)| is_set(key) && !is_set(missing));
        warnings.extend(lacking.map(|(key, missing)| Warning::Needs { key, missing }));
        warnings
    }

    /// Returns metadata that a store has kept. It was validated before it was stored.
    #[must_use]
    pub fn from_store(keys: JsonObject) -> Self {
        let reserved: Vec<_> = keys.entries().filter(|(key, _)| key.starts_with('_')).collect();
        let reserved = JsonObject::from_entries(&reserved);
        Self { keys, reserved }
    }

    /// Returns the size in bytes that the metadata has in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keys.as_msgpack().len() + self.reserved.as_msgpack().len()
    }

    /// Returns the keys that are set.
    #[must_use]
    pub fn keys(&self) -> &JsonObject {
        &self.keys
    }

    /// Returns the keys that are set, and the default of each key that is missing or empty and that
    /// this kind of queue shows.
    #[must_use]
    pub fn with_defaults(&self, kind: QueueKind, limits: &Limits) -> JsonObject {
        let keys = match kind {
            QueueKind::Queue => &SHOWN_KEYS[..],
            QueueKind::Topic => &SHOWN_KEYS_OF_TOPICS,
        };
        let defaults: Vec<(&str, Vec<u8>)> = keys.iter().map(|&key| (key, default_of(key, limits))).collect();
        let default = |key: &str| defaults.iter().find(|(shown, _)| *shown == key).map(|(_, value)| value.as_slice());
        let mut shown: Vec<(&str, &[u8])> = self.keys.entries().collect();
        for (key, value) in &mut shown {
            let is_unset = is_falsy(value) || (*key == MAX_CLAIM_COUNT && self.claim_count_max().is_none());
            if let Some(default) = default(key).filter(|_| is_unset) {
                *value = default;
            }
        }
        for (key, value) in &defaults {
            if self.keys.value(key).is_none() {
                shown.push((key, value));
            }
        }
        JsonObject::from_entries(&shown)
    }

    /// Returns the time to live of messages posted without one, in seconds.
    #[must_use]
    pub fn default_message_ttl_s(&self, limits: &Limits) -> u32 {
        self.positive(DEFAULT_TTL).and_then(|ttl| u32::try_from(ttl).ok()).unwrap_or(limits.default_message_ttl)
    }

    /// Returns the maximum size of the body of a request that posts to this queue, in bytes.
    #[must_use]
    pub fn post_bytes_max(&self, limits: &Limits) -> u64 {
        self.positive(MAX_POST_SIZE).map_or(limits.max_messages_post_size, |own| own.min(limits.max_messages_post_size))
    }

    /// Returns the delay of messages posted without one, in seconds. `None` means that the queue
    /// does not delay messages, even those posted with a delay.
    #[must_use]
    pub fn default_message_delay_s(&self) -> Option<u32> {
        let default_s = self.positive(DEFAULT_DELAY).and_then(|delay| u32::try_from(delay).ok());
        default_s.or_else(|| self.life_follows_delay().then_some(0))
    }

    /// Returns whether the time to live of a message begins when its delay ends, and not when the
    /// message is posted. This is so if the owner has enabled delays, with or without a default.
    #[must_use]
    pub fn life_follows_delay(&self) -> bool {
        self.is_set(ENABLE_DELAY)
    }

    /// Returns the maximum number of claims of a message; `None` for no limit, which 0 and negative
    /// values mean too.
    fn claim_count_max(&self) -> Option<u32> {
        self.positive(MAX_CLAIM_COUNT).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Returns the dead-letter settings, or `None` unless both a claim count and a queue are set.
    #[must_use]
    pub fn dead_letters(&self) -> Option<DeadLetters> {
        Some(DeadLetters {
            claim_count_max: self.claim_count_max()?,
            queue: self.reserved.get(DEAD_LETTER_QUEUE)?.as_str()?.parse().ok()?,
            ttl_s: self.positive(DEAD_LETTER_TTL).and_then(|ttl| u32::try_from(ttl).ok()),
        })
    }

    /// Returns the name of the dead-letter queue, if it is set.
    #[must_use]
    pub fn dead_letter_queue(&self) -> Option<&str> {
        self.reserved.text(DEAD_LETTER_QUEUE)
    }

    /// Returns whether the queue encrypts posted messages.
    #[must_use]
    pub fn encrypts(&self) -> bool {
        self.is_set(ENCRYPT)
    }

    /// Returns the division into shards, or `None` if the queue is not fair.
    #[must_use]
    pub fn sharding(&self) -> Option<Sharding> {
        let shards = u16::try_from(self.positive(SHARDS)?).ok()?;
        let per_tenant = self.positive(SHARDS_PER_TENANT).and_then(|count| u16::try_from(count).ok());
        Sharding::new(shards, per_tenant.unwrap_or(SHARDS_PER_TENANT_DEFAULT.min(shards)))
    }

    /// Returns the name of the flavor whose pools the queue can be in, if it is set.
    #[must_use]
    pub fn flavor(&self) -> Option<&str> {
        self.reserved.text(FLAVOR).filter(|name| !name.is_empty())
    }

    /// Checks the type of `_flavor`, which any value may have without pooling.
    pub fn check_flavor(&self) -> Result<(), InvalidMetadata> {
        let is_invalid = non_null(&self.reserved, FLAVOR).is_some_and(|value| !value.is_string());
        if is_invalid { Err(InvalidMetadata::Type { key: FLAVOR, expected: "the name of a flavor" }) } else { Ok(()) }
    }

    /// Returns the level of durability that every post to the queue must reach.
    #[must_use]
    pub fn durability(&self) -> Option<Durability> {
        self.reserved.get(DURABILITY)?.as_str()?.parse().ok()
    }

    fn is_set(&self, key: &str) -> bool {
        self.reserved.value(key).is_some_and(|value| Reader::new(value).token() == Some(Token::Bool(true)))
    }

    fn positive(&self, key: &str) -> Option<u64> {
        self.reserved
            .get(key)
            .and_then(|value| integer(&value))
            .and_then(|value| u64::try_from(value).ok())
            .filter(|value| *value > 0)
    }
}

/// Returns the `MessagePack` of the default of a key.
fn default_of(key: &str, limits: &Limits) -> Vec<u8> {
    let value = match key {
        MAX_POST_SIZE => json!(limits.max_messages_post_size),
        DEFAULT_TTL => json!(limits.default_message_ttl),
        DEFAULT_DELAY => json!(limits.default_message_delay),
        ENCRYPT => json!(false),
        _ => Value::Null,
    };
    rmp_serde::to_vec(&value).expect("JSON always has a MessagePack form")
}

/// Returns whether the value is false in Python. The API treats such a value as not set.
fn is_falsy(msgpack: &[u8]) -> bool {
    match Reader::new(msgpack).token() {
        None | Some(Token::Null) => true,
        Some(Token::Bool(flag)) => !flag,
        Some(Token::Unsigned(number)) => number == 0,
        Some(Token::Signed(number)) => number == 0,
        Some(Token::Float(number)) => number == 0.0,
        Some(Token::Text(text)) => text.is_empty(),
        Some(Token::Array(length) | Token::Object(length)) => length == 0,
    }
}

/// Returns the value of a key, or `None` if it is missing or null.
fn non_null(keys: &JsonObject, key: &str) -> Option<Value> {
    keys.get(key).filter(|value| !value.is_null())
}

fn integer_of(keys: &JsonObject, key: &'static str) -> Result<Option<i64>, InvalidMetadata> {
    match non_null(keys, key) {
        None => Ok(None),
        Some(value) => integer(&value).map(Some).ok_or(InvalidMetadata::Type { key, expected: "an integer" }),
    }
}

fn check_range(keys: &JsonObject, key: &'static str, (min, max): (u64, u64)) -> Result<(), InvalidMetadata> {
    let Some(value) = integer_of(keys, key)? else {
        return Ok(());
    };
    let fits = u64::try_from(value).is_ok_and(|value| (min..=max).contains(&value));
    fits.then_some(()).ok_or(InvalidMetadata::Range { key, value, min, max })
}
