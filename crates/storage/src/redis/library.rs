//! The library of Lua functions, which consists of the definitions in `scripts/shared` and the
//! functions (`script.rs`). It is loaded into a server once (`connection/functions.rs`). Its name
//! and the names of its functions end with a hash of its text, so that processes of several
//! releases can use one server.
//!
//! A server that does not run the library runs the same text as a script.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use ahash::HashMap;
use fred::bytes_utils::Str;
use fred::types::scripts::Script as FredScript;

use super::connection::Version;
use super::keys::{CLAIM_HAS_KEYS, CLAIM_HELD, MOVED, SIGNAL_CHANNEL};
use super::script::{SCRIPTS, Script, lua};
use super::shard_digits::SHARD_DIGITS;
use super::uri::Clock;
use crate::catalogue::MOVE_LEASE_DURATION;
use crate::deliveries::LOST_ATTEMPTS_DURATION;
use crate::delivery_record::{ID_BYTES, PROGRESS_HEAD_BYTES};
use crate::entry::{
    CLAIM_BYTES, COUNT_LIMIT, DELIVERED_BYTES, DELIVERY_BYTES, END, FIRST_CLAIM_BYTES, FRESH_BYTES, IN_FLIGHT_BYTES,
    POSTER, SIZE, UNDELIVERED,
};
use crate::key::{KEY_BYTES, NONCE_BYTES, RANK_BYTES};
use crate::record;
use crate::subscription_changes::CHANGES_MAX;
use crate::task_lease::TASK_LEASE_DURATION;
use crate::task_record::{DONE, RUNNING};
use crate::{DELIVERY_LEASE_DURATION, LISTED_MESSAGES_MAX, POP_TERM, PREFERRED_IN_A_ROW_MAX, REPLY_BYTES_MAX};
use sukkal_domain::ATTEMPTS_KEPT;

/// Maximum number of delayed messages that one script releases at a time.
const RELEASED_MAX: usize = 250;

/// The text of all functions that read one clock and write one layout.
pub(super) struct Library {
    /// What `FUNCTION LOAD` gets.
    pub(super) text: String,
    /// The same as one script, which calls the function that its last argument names.
    pub(super) script: String,
    /// SHA-1 of `script`, for `EVALSHA`.
    pub(super) script_sha: String,
    /// The names of each function by that of its script: for any queue, and for a queue that must
    /// exist.
    functions: HashMap<&'static str, [Str; 2]>,
}

impl Library {
    /// Returns the library whose functions read this clock and write this layout.
    pub(super) fn reading(clock: Clock, layout: Version) -> &'static Self {
        static LIBRARIES: [[OnceLock<Library>; 2]; 2] = [const { [const { OnceLock::new() }; 2] }; 2];
        let is_latest = usize::from(layout == Version::Four);
        LIBRARIES[clock as usize][is_latest].get_or_init(|| Self::of(&definitions(clock, layout)))
    }

    fn of(definitions: &str) -> Self {
        let hash = FredScript::from_lua(definitions).sha1()[..HASH_CHARS].to_owned();
        let text = format!("#!lua name=sukkal_{hash}\nlocal SUFFIX = '_{hash}'\n{IN_LIBRARY}{definitions}");
        let script = format!("local SUFFIX = '_{hash}'\n{IN_SCRIPT}{definitions}{CALL_REGISTERED}");
        let script_sha = FredScript::from_lua(script.as_str()).sha1().to_string();
        let functions = SCRIPTS.iter().map(|script| {
            let existing = if script.can_require_queue() { EXISTING } else { "" };
            (script.name, ["", existing].map(|existing| format!("{}{existing}_{hash}", script.name).into()))
        });
        Self { text, script, script_sha, functions: functions.collect() }
    }

    /// Returns the name of a function in Redis. With `requires_queue`, it fails with `NOQUEUE` if
    /// its queue does not exist, unless it is one of those for any queue.
    pub(super) fn function(&self, script: &Script, requires_queue: bool) -> &Str {
        &self.functions[script.name][usize::from(requires_queue)]
    }
}

/// What the names of functions that require their queue have after that of the script. See
/// `scripts/shared/define.lua`.
const EXISTING: &str = "_existing";
/// Number of characters of the hash in names.
const HASH_CHARS: usize = 12;
/// How the library registers a function.
const IN_LIBRARY: &str = "local register = redis.register_function\n";
/// How the script does.
const IN_SCRIPT: &str = "local registered = {}
local function register(definition)
  registered[definition.function_name] = definition.callback
end
";
const CALL_REGISTERED: &str = "return registered[table.remove(ARGV)](KEYS, ARGV)\n";

/// Returns the Lua that registers all functions. Constants are replaced by their values, because
/// Lua allows 200 local variables.
fn definitions(clock: Clock, layout: Version) -> String {
    let clock = match clock {
        Clock::Redis => lua!("shared/clock"),
        Clock::Movable => lua!("shared/clock_movable"),
    };
    let constants_of_driver = constants(layout);
    let shared: Vec<&str> = [constants_of_driver.as_str(), clock].into_iter().chain(SHARED).collect();
    let constants: HashMap<&str, &str> = shared.iter().flat_map(|text| text.lines()).filter_map(constant).collect();
    let scripts = SCRIPTS.iter().map(|script| definition(script, &constants));
    shared.iter().map(|text| inline(&constants, text)).chain(scripts).collect()
}

/// Returns the Lua that registers one function.
fn definition(script: &Script, shared_constants: &HashMap<&str, &str>) -> String {
    let mut constants = shared_constants.clone();
    constants.extend(script.body.lines().filter_map(constant));
    let keys = script.keys.iter().enumerate().map(|(i, key)| format!(", {} = KEYS[{}]", key.name(), i + 1));
    let define = if script.can_require_queue() { "define_on_queue" } else { "define" };
    format!(
        "{define}('{}', {{{}}}, function(KEYS, ARGV)\ncall = {{keys = KEYS, now = clock_of(KEYS[1]){}}}\n{}end)\n",
        script.name,
        script.access.flags(),
        keys.collect::<String>(),
        inline(&constants, script.body),
    )
}

/// Returns the text with the names of constants replaced by their values, without the definitions
/// of constants and without comments.
fn inline(constants: &HashMap<&str, &str>, text: &str) -> String {
    let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let mut inlined = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.trim_start().starts_with("--") && constant(line).is_none()) {
        let mut rest = line;
        while let Some(at) = rest.find(is_word) {
            let end = rest[at..].find(|char| !is_word(char)).map_or(rest.len(), |length| at + length);
            inlined.push_str(&rest[..at]);
            inlined.push_str(constants.get(&rest[at..end]).unwrap_or(&&rest[at..end]));
            rest = &rest[end..];
        }
        inlined.push_str(rest);
        inlined.push('\n');
    }
    inlined
}

/// Returns the name and value of a constant: a number or a string whose name is in capitals.
fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix("local ")?.split_once(" = ")?;
    let is_text = value.strip_prefix('\'').is_some_and(|rest| rest.find('\'') == Some(rest.len() - 1));
    let is_constant =
        name.chars().all(|char| char.is_ascii_uppercase() || char == '_') && (is_text || value.parse::<f64>().is_ok());
    is_constant.then_some((name, value))
}

/// Returns Lua definitions of the numbers and formats that scripts share with the driver.
fn constants(layout: Version) -> String {
    let mut lua = String::new();
    for (name, value) in [
        ("LAYOUT", layout as usize),
        ("KEY_BYTES", KEY_BYTES),
        ("POSTER", POSTER),
        ("SIZE", SIZE),
        ("END", END),
        ("FRESH_BYTES", FRESH_BYTES),
        ("DELIVERED_BYTES", DELIVERED_BYTES),
        ("IN_FLIGHT_BYTES", IN_FLIGHT_BYTES),
        ("CLAIM_BYTES", CLAIM_BYTES),
        ("DELIVERY_BYTES", DELIVERY_BYTES),
        ("UNDELIVERED", UNDELIVERED as usize),
        ("COUNT_LIMIT", COUNT_LIMIT as usize),
        ("HAS_KEYS", CLAIM_HAS_KEYS as usize),
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
        // Entry in flight: the first bytes of an entry, delivery state, time of the first claim
        // (ms) or nothing, claim id, delivery state before the claim.
        ("CLAIMED_ENTRY", format!(">c{FRESH_BYTES}I4I4I4c0c{CLAIM_BYTES}c{DELIVERY_BYTES}")),
        ("MILLISECONDS", format!(">I{FIRST_CLAIM_BYTES}")),
        // Number, delivery state, the first bytes of an entry, length of the queue's name.
        ("DEAD_LETTER", format!(">I8I4I4I4c{FRESH_BYTES}B")),
        // State; time of creation (µs), number of messages selected, moved and skipped, cursor,
        // end, limit; maximum number per second, number of ids.
        ("TASK", ">BI8I8I8I8I8I8I8I4I4".to_owned()),
        // Fence, time of the expiry (µs), holder.
        ("LEASE", ">I8I8c16".to_owned()),
        // Field of a queue with its delivery lease.
        ("DELIVERY_LEASE", "w".to_owned()),
        ("HELD", CLAIM_HELD.to_owned()),
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

/// The shared parts after the clock, in an order in which each uses only earlier ones.
const SHARED: [&str; 28] = [
    lua!("shared/define"),
    lua!("shared/call"),
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
    lua!("shared/moving"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_replaced_by_their_values() {
        let text = "-- END of it\nlocal END = 21\nlocal FORMAT = '>I4'\nlocal ENDS = END + 1\nreturn FORMAT, #FORMAT, x.END_OF(END)\n";
        let constants = text.lines().filter_map(constant).collect();

        assert_eq!(inline(&constants, text), "local ENDS = 21 + 1\nreturn '>I4', #'>I4', x.END_OF(21)\n");
    }
}
