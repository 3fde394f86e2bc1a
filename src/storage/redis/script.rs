//! The Lua scripts. A script consists of the definitions in `scripts/shared` that it uses, directly
//! or indirectly, and its own file.
//!
//! Redis runs all definitions of a script at each call. A function costs 600 instructions, and more
//! for each outer variable that it uses. So a script has only the definitions that it uses, and the
//! values of constants are inlined.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use fred::types::scripts::Script as FredScript;

use super::keys::{KeyName, MOVED, SIGNAL_CHANNEL};
use super::shard_digits::SHARD_DIGITS;
use super::uri::Clock;
use crate::domain::ATTEMPTS_KEPT;
use crate::storage::catalogue::MOVE_LEASE_DURATION;
use crate::storage::deliveries::LOST_ATTEMPTS_DURATION;
use crate::storage::delivery_record::{ID_BYTES, PROGRESS_HEAD_BYTES};
use crate::storage::entry::{
    CLAIM_BYTES, DELIVERED_BYTES, END, FRESH_BYTES, IN_FLIGHT_BYTES, POSTER, SIZE, UNDELIVERED,
};
use crate::storage::key::{KEY_BYTES, NONCE_BYTES, RANK_BYTES};
use crate::storage::record;
use crate::storage::subscription_changes::CHANGES_MAX;
use crate::storage::task_lease::TASK_LEASE_DURATION;
use crate::storage::task_record::{DONE, RUNNING};
use crate::storage::{DELIVERY_LEASE_DURATION, LISTED_MESSAGES_MAX, POP_TERM, PREFERRED_IN_A_ROW_MAX, REPLY_BYTES_MAX};

/// Maximum number of delayed messages that one script releases at a time.
const RELEASED_MAX: usize = 250;

/// A script: one atomic step.
pub(super) struct Script {
    /// Name of the file without its extension, for logs.
    pub(super) name: &'static str,
    /// The keys that it gets for a queue, in this order.
    pub(super) keys: &'static [KeyName],
    /// Its own file.
    own: &'static str,
    /// The complete script for each clock, for any queue and for a queue that must exist.
    rendered: [[OnceLock<Rendered>; 2]; 2],
}

/// The scripts that a store runs on queues that do not exist, even if it requires queues to exist:
/// those that create or delete a queue, and those of maintenance and notifications. A post reports
/// itself that a queue does not exist, and so do messages that arrive from another queue.
const FOR_ANY_QUEUE: [&str; 6] =
    ["dead_letter_post", "message_post", "queue_announce", "queue_apply_due", "queue_create", "queue_delete"];

/// Begins a script on a queue that must exist.
const REQUIRE_QUEUE: &str = "if redis.call('HEXISTS', KEYS[1], 'v') == 0 then
  return redis.error_reply('NOQUEUE the queue is not in this store')
end
";

macro_rules! lua {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/", $name, ".lua"))
    };
}

/// The complete text, and its SHA-1 for `EVALSHA`.
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) sha: String,
}

impl Rendered {
    fn of(text: String) -> Self {
        let sha = FredScript::from_lua(text.as_str()).sha1().to_string();
        Self { text, sha }
    }
}

impl Script {
    /// Returns the script, which reads this clock. With `requires_queue`, it fails with `NOQUEUE` if
    /// its queue does not exist, unless it is one of those for any queue.
    pub(super) fn rendered(&self, clock: Clock, requires_queue: bool) -> &Rendered {
        let is_on_queue = self.keys.first() == Some(&KeyName::Queue) && !FOR_ANY_QUEUE.contains(&self.name);
        let requires_queue = requires_queue && is_on_queue;
        self.rendered[clock as usize][usize::from(requires_queue)].get_or_init(|| {
            let text = render(clock, self.keys, self.own);
            Rendered::of(if requires_queue { [REQUIRE_QUEUE, &text].concat() } else { text })
        })
    }
}

/// Returns Lua definitions of the numbers and formats that scripts share with the driver.
fn constants() -> String {
    let mut lua = String::new();
    for (name, value) in [
        ("KEY_BYTES", KEY_BYTES),
        ("POSTER", POSTER),
        ("SIZE", SIZE),
        ("END", END),
        ("FRESH_BYTES", FRESH_BYTES),
        ("DELIVERED_BYTES", DELIVERED_BYTES),
        ("IN_FLIGHT_BYTES", IN_FLIGHT_BYTES),
        ("CLAIM_BYTES", CLAIM_BYTES),
        ("UNDELIVERED", UNDELIVERED as usize),
        ("REPLY_BYTES_MAX", REPLY_BYTES_MAX),
        ("LISTED_MESSAGES_MAX", LISTED_MESSAGES_MAX),
        ("CHANGES_MAX", CHANGES_MAX),
        ("RELEASED_MAX", RELEASED_MAX),
        ("SHARD_DIGITS", SHARD_DIGITS),
        ("PREFERRED_IN_A_ROW_MAX", PREFERRED_IN_A_ROW_MAX.into()),
        ("RECORD_TTL", record::TTL.start),
        ("UNLISTED_LEASE_S", POP_TERM.ttl_s as usize),
        ("TASK_LEASE_US", micros(TASK_LEASE_DURATION)),
        ("DELIVERY_LEASE_US", micros(DELIVERY_LEASE_DURATION)),
        ("LOST_ATTEMPTS_US", micros(LOST_ATTEMPTS_DURATION)),
        ("MOVE_LEASE_US", micros(MOVE_LEASE_DURATION)),
        ("MOVED_KEYS", MOVED.len()),
        ("TASK_RUNNING", RUNNING.into()),
        ("TASK_DONE", DONE.into()),
        ("ID_BYTES", ID_BYTES),
        ("PROGRESS_HEAD_BYTES", PROGRESS_HEAD_BYTES),
        ("ATTEMPTS_KEPT", ATTEMPTS_KEPT),
    ] {
        write!(lua, "\nlocal {name} = {value}").expect("writing to a string cannot fail");
    }
    for (name, text) in [
        ("NO_CLAIM", "\\0".repeat(CLAIM_BYTES)),
        ("RANK", format!(">I{RANK_BYTES}")),
        ("KEY", format!(">I{RANK_BYTES}c{NONCE_BYTES}")),
        // Nonce, poster and size class of a new message; ttl (s).
        ("HEADER_AND_TTL", format!(">c{}I4", END - RANK_BYTES)),
        // Rank; nonce, poster and size class; end (s).
        ("FRESH_ENTRY", format!(">I{RANK_BYTES}c{}I4", END - RANK_BYTES)),
        // The delivery state of a fresh entry begins with a claim count and a ttl of 0.
        ("FRESH_COUNT_AND_TTL", "\\0".repeat(8)),
        // Claim count; ttl (s) or 0 for that of the record; end (s).
        ("DELIVERY_STATE", ">I4I4I4".to_owned()),
        // Entry in flight: the first bytes of an entry, delivery state, claim id, delivery state
        // before the claim.
        ("CLAIMED_ENTRY", format!(">c{FRESH_BYTES}I4I4I4c{CLAIM_BYTES}c{}", DELIVERED_BYTES - FRESH_BYTES)),
        // Number, delivery state, the first bytes of an entry, length of the queue's name.
        ("DEAD_LETTER", format!(">I8I4I4I4c{FRESH_BYTES}B")),
        // State; time of creation (µs), number of messages selected, moved and skipped, cursor,
        // end, limit; maximum number per second, number of ids.
        ("TASK", ">BI8I8I8I8I8I8I8I4I4".to_owned()),
        // Fence, time of the expiry (µs), holder.
        ("LEASE", ">I8I8c16".to_owned()),
        // Field of a queue with its delivery lease.
        ("DELIVERY_LEASE", "w".to_owned()),
        ("SIGNAL_CHANNEL", SIGNAL_CHANNEL.to_owned()),
        // Offset (µs), last logical time.
        ("LOGICAL_TIME", ">I8I8".to_owned()),
    ] {
        write!(lua, "\nlocal {name} = '{text}'").expect("writing to a string cannot fail");
    }
    lua
}

fn micros(duration: Duration) -> usize {
    usize::try_from(duration.as_micros()).expect("a lease is short")
}

fn render(clock: Clock, keys: &[KeyName], own: &str) -> String {
    let constants = constants();
    let clock = match clock {
        Clock::Redis => lua!("shared/clock"),
        Clock::Movable => lua!("shared/clock_movable"),
    };
    let shared = [constants.as_str(), clock].into_iter().chain(SHARED);
    let definitions: Vec<Definition> = shared.flat_map(definitions).collect();
    let mut used: HashSet<&str> = words(own).collect();
    let mut needed: Vec<&Definition> = Vec::new();
    // A definition uses only earlier ones.
    for definition in definitions.iter().rev() {
        if definition.names.iter().any(|name| used.contains(name)) {
            used.extend(words(definition.text));
            needed.push(definition);
        }
    }

    let mut text = String::new();
    let names: Vec<&str> = keys.iter().map(|key| key.name()).collect();
    if !names.is_empty() {
        writeln!(text, "local {} = unpack(KEYS)", names.join(", ")).expect("writing to a string cannot fail");
    }
    for definition in needed.iter().rev() {
        writeln!(text, "local {}", definition.text).expect("writing to a string cannot fail");
    }
    text.push_str(own);
    inline_constants(&text)
}

/// A local function, or local variables. The text begins after the word `local`.
struct Definition<'a> {
    names: Vec<&'a str>,
    text: &'a str,
}

/// Returns all definitions of a text. Each begins at the start of a line other than the first one.
fn definitions(text: &str) -> impl Iterator<Item = Definition<'_>> {
    text.split("\nlocal ").skip(1).map(|text| {
        let (names, end) = match text.strip_prefix("function ") {
            Some(function) => (function.split('(').next(), text.find("\nend\n").map(|at| at + "\nend".len())),
            None => (text.split(['=', '\n']).next(), text.find('\n')),
        };
        let text = &text[..end.unwrap_or(text.len())];
        Definition { names: names.into_iter().flat_map(words).collect(), text }
    })
}

/// Returns the script with the names of its constants replaced by their values, and without
/// comments.
fn inline_constants(text: &str) -> String {
    let code = || text.lines().filter(|line| !line.trim_start().starts_with("--"));
    let constants: HashMap<&str, &str> = code().filter_map(constant).collect();
    let mut placed = String::with_capacity(text.len());
    for line in code().filter(|line| constant(line).is_none()) {
        let mut rest = line;
        while let Some(at) = rest.find(is_word_char) {
            let end = rest[at..].find(|char| !is_word_char(char)).map_or(rest.len(), |length| at + length);
            placed.push_str(&rest[..at]);
            placed.push_str(constants.get(&rest[at..end]).unwrap_or(&&rest[at..end]));
            rest = &rest[end..];
        }
        placed.push_str(rest);
        placed.push('\n');
    }
    placed
}

/// Returns the name and value of a constant: a number or a string whose name is in capitals.
fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix("local ")?.split_once(" = ")?;
    let is_text = value.strip_prefix('\'').is_some_and(|rest| rest.find('\'') == Some(rest.len() - 1));
    let is_constant =
        name.chars().all(|char| char.is_ascii_uppercase() || char == '_') && (is_text || value.parse::<f64>().is_ok());
    is_constant.then_some((name, value))
}

fn is_word_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// Returns the words of a text outside comments.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    let words = code.flat_map(|line| line.split(|char| !is_word_char(char)));
    words.filter(|word| !word.is_empty())
}

/// The shared parts after the clock, in an order in which each uses only earlier ones.
const SHARED: [&str; 27] = [
    lua!("shared/queue"),
    lua!("shared/state"),
    lua!("shared/entry"),
    lua!("shared/notify"),
    lua!("shared/lease"),
    lua!("shared/delivery_signal"),
    lua!("shared/expirations"),
    lua!("shared/fair"),
    lua!("shared/find"),
    lua!("shared/removal"),
    lua!("shared/restoring"),
    lua!("shared/policy"),
    lua!("shared/store_policy"),
    lua!("shared/turns"),
    lua!("shared/claims"),
    lua!("shared/claimed_entries"),
    lua!("shared/dead_letters"),
    lua!("shared/task_lease"),
    lua!("shared/tasks"),
    lua!("shared/logical_time"),
    lua!("shared/sharding"),
    lua!("shared/posting"),
    lua!("shared/idempotency"),
    lua!("shared/subscriptions"),
    lua!("shared/deliveries"),
    lua!("shared/tokens"),
    lua!("shared/moving"),
];

macro_rules! scripts {
    ($($constant:ident = $name:literal [$($key:ident)*];)*) => {
        $(pub(super) static $constant: Script = Script {
            name: $name,
            keys: &[$(KeyName::$key),*],
            own: lua!($name),
            rendered: [const { [const { OnceLock::new() }; 2] }; 2],
        };)*
    };
}

scripts! {
    CLAIM_CREATE = "claim_create"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims ClaimIds Outbox Shards Due];
    CLAIM_GET = "claim_get" [Queue InFlight Claims];
    CLAIM_LIST = "claim_list" [Queue InFlight Claims ClaimIds];
    CLAIM_RELEASE = "claim_release" [Queue Ready InFlight Expirations Leases Claims ClaimIds Shards Due];
    CLAIM_RENEW = "claim_renew" [Queue InFlight Leases Claims Due];
    CLAIM_RETURN = "claim_return" [Queue Ready InFlight Leases Claims Shards Due];
    DEAD_LETTER_DROP = "dead_letter_drop" [Outbox];
    DEAD_LETTER_LIST = "dead_letter_list" [Outbox];
    DEAD_LETTER_POST = "dead_letter_post" [Queue Messages Ready Delayed Expirations Shards Received Moving
        Due];
    DELIVERY_LEASE = "delivery_lease" [Queue Delayed SubscriptionEnds Deliveries Due];
    DELIVERY_LEASE_END = "delivery_lease_end" [Queue SubscriptionEnds Deliveries Due];
    DELIVERY_RETRIES = "delivery_retries" [Queue SubscriptionEnds Retries RetryTimes];
    DELIVERY_SAVE = "delivery_save" [Queue Delayed SubscriptionEnds Deliveries Retries RetryTimes];
    MESSAGE_DELETE = "message_delete" [Queue Messages Ready InFlight Delayed Expirations Claims Shards];
    MESSAGE_DELETE_MANY = "message_delete_many" [Queue Messages Ready InFlight Delayed Expirations Shards];
    MESSAGE_GET = "message_get" [Queue Ready InFlight Delayed];
    MESSAGE_LIST = "message_list" [Queue Ready InFlight Delayed Shards];
    MESSAGE_PEEK = "message_peek" [Queue Ready InFlight Delayed Leases Claims];
    MESSAGE_POP = "message_pop" [Queue Messages Ready InFlight Delayed Expirations Leases Claims Outbox Shards Due];
    MESSAGE_POST = "message_post"
        [Queue Messages Ready Delayed Expirations Shards Tenants Idempotency IdempotencyExpirations Due];
    MESSAGE_RESTORE = "message_restore" [Queue Ready InFlight Expirations Claims Shards Due];
    MOVE_STATE = "move_state" [Queue Moving];
    MOVE_WRITE = "move_write" [Moving];
    MOVE_BEGIN = "move_begin" [Queue Outbox Tombstone Due Moving];
    MOVE_FREEZE = "move_freeze" [Queue Outbox Tombstone Due Moving];
    MOVE_RENEW = "move_renew" [Queue Outbox Tombstone Due Moving];
    MOVE_COMPLETE = "move_complete" [Queue Outbox Tombstone Due Moving];
    MOVE_END = "move_end" [Queue Outbox Tombstone Due Moving];
    MOVE_DISCARD = "move_discard" [Queue Outbox Tombstone Due Moving];
    MIGRATION_WRITE = "migration_write" [];
    POP_COMPLETE = "pop_complete" [Queue Messages Ready InFlight Delayed Expirations Leases Claims Shards Due];
    POOLS_REPLACE = "pools_replace" [];
    QUEUE_CHECK = "queue_check" [Queue Messages Ready InFlight Delayed Expirations Leases Claims Shards];
    QUEUE_CHECK_BYTES = "queue_check_bytes" [Queue Messages Ready Delayed InFlight];
    QUEUE_CHECK_CLAIMS = "queue_check_claims" [Queue Messages InFlight Leases Claims ClaimIds Shards Tasks TaskLeases];
    QUEUE_CHECK_SUBSCRIPTIONS = "queue_check_subscriptions"
        [Queue Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Retries RetryTimes];
    QUEUE_CREATE = "queue_create" [Queue Shards Tombstone Moving];
    QUEUE_DELETE = "queue_delete"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims ClaimIds Outbox Received Shards Tenants Tasks
            TaskLeases Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Retries RetryTimes Idempotency
            IdempotencyExpirations Tombstone Moving Due];
    QUEUE_GET_STATS = "queue_get_stats" [Queue Messages Ready InFlight Delayed];
    QUEUE_PAUSE = "queue_pause" [Queue];
    QUEUE_PURGE = "queue_purge" [Queue Messages Ready InFlight Delayed Expirations Leases Claims ClaimIds Shards];
    REDRIVE_LIST = "redrive_list" [Queue Ready Outbox Tasks TaskLeases];
    REDRIVE_MOVE = "redrive_move"
        [Queue Messages Ready InFlight Delayed Expirations Outbox Shards Tasks TaskLeases Due];
    REDRIVE_RETURN = "redrive_return" [Queue Messages Ready Expirations Outbox Shards Tasks Due];
    QUEUE_ANNOUNCE = "queue_announce" [Queue];
    PLACE_REPLACE = "place_replace" [];
    REGISTER = "register" [];
    JANITOR_LEASE = "janitor_lease" [];
    SEALED_LIST = "sealed_list" [Queue Messages Ready InFlight Delayed Retries RetryTimes];
    SEALED_REPLACE = "sealed_replace" [Queue Messages Outbox Retries];
    QUEUE_APPLY_DUE = "queue_apply_due"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims ClaimIds Outbox Shards TaskLeases
            Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Retries RetryTimes Idempotency
            IdempotencyExpirations Due];
    QUEUE_RESUME = "queue_resume" [Queue Ready];
    QUEUE_SHARDS = "queue_shards" [Queue Ready InFlight Delayed Shards Tenants];
    QUEUE_STATUS = "queue_status" [Queue Ready Delayed Leases];
    QUEUE_SUMMARY = "queue_summary" [Queue Ready InFlight Delayed];
    QUEUE_UPDATE = "queue_update" [Queue Shards];
    QUOTA_SET = "quota_set" [];
    SUBSCRIPTION_ATTEMPTS = "subscription_attempts" [Queue SubscriptionEnds Deliveries];
    SUBSCRIPTION_CREATE = "subscription_create"
        [Queue Delayed Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Due];
    SUBSCRIPTION_DELETE = "subscription_delete"
        [Queue Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Retries RetryTimes Due];
    SUBSCRIPTION_DELETE_ALL = "subscription_delete_all"
        [Queue Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Retries RetryTimes Due];
    SUBSCRIPTION_GET = "subscription_get" [Queue Delayed Subscriptions SubscriptionEnds Deliveries];
    SUBSCRIPTION_LIST = "subscription_list" [Queue Delayed Subscriptions SubscriptionIds SubscriptionEnds Deliveries];
    SUBSCRIPTION_UPDATE = "subscription_update"
        [Queue Subscriptions Subscribers SubscriptionIds SubscriptionEnds Deliveries Due];
    TASK_CREATE = "task_create" [Queue Messages Delayed Tasks TaskLeases Due];
    TASK_FINISH = "task_finish" [Queue Tasks TaskLeases];
    TASK_LEASE = "task_lease" [Queue TaskLeases];
    TOKEN_CREATE = "token_create" [];
    TOKEN_DELETE = "token_delete" [];
    TOKEN_GET = "token_get" [];
    TOKEN_LIST = "token_list" [];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_only_the_definitions_that_it_uses() {
        let text = &CLAIM_GET.rendered(Clock::Redis, false).text;

        assert!(text.starts_with("local queue, in_flight, claims = unpack(KEYS)\n"));
        for used in ["local function load_queue(", "local function split(", "local now = "] {
            assert_eq!(text.matches(used).count(), 1, "{used}");
        }
        for unused in ["local function return_to_ready(", "ZREM"] {
            assert!(!text.contains(unused), "{unused}");
        }
        assert!(text.ends_with("still_in_flight(entries))\n"));
    }

    #[test]
    fn constants_are_replaced_by_their_values() {
        let text = "-- END of it\nlocal END = 21\nlocal FORMAT = '>I4'\nlocal ENDS = END + 1\nreturn FORMAT, #FORMAT, x.END_OF(END)\n";

        assert_eq!(inline_constants(text), "local ENDS = 21 + 1\nreturn '>I4', #'>I4', x.END_OF(21)\n");
    }
}
