//! The Lua scripts. Each is the constants and keys that it uses, the shared parts that it calls, in the order in which these
//! build on each other, and its own file.

use std::fmt::Write as _;
use std::sync::LazyLock;

use fred::types::scripts::Script as FredScript;

use super::keys::Part;
use super::shards::SHARD_DIGITS;
use crate::storage::entry::{
    CLAIM_BYTES, DELIVERED_BYTES, END, FRESH_BYTES, IN_FLIGHT_BYTES, POSTER, SIZE, UNDELIVERED,
};
use crate::storage::key::{KEY_BYTES, NONCE_BYTES, RANK_BYTES};
use crate::storage::{ANSWER_BYTES_MAX, PREFERRED_IN_A_ROW_MAX};

/// Maximum number of delayed messages that one script releases at a time.
const RELEASED_MAX: usize = 500;

/// A script: one atomic step.
pub(super) struct Script {
    /// Name of the file without its ending, for logs.
    pub(super) name: &'static str,
    /// What it gets of a queue, in this order.
    pub(super) keys: &'static [Part],
    parts: &'static [&'static str],
    rendered: LazyLock<Rendered>,
}

/// The whole text, and the hash by which `EVALSHA` knows it.
struct Rendered {
    text: String,
    sha: String,
}

impl Script {
    pub(super) fn text(&self) -> &str {
        &self.rendered.text
    }

    pub(super) fn sha(&self) -> &str {
        &self.rendered.sha
    }
}

/// The numbers and formats that scripts share with the driver.
fn constants() -> String {
    let mut lua = String::new();
    for (name, value) in [
        ("RANK_BYTES", RANK_BYTES),
        ("NONCE_BYTES", NONCE_BYTES),
        ("KEY_BYTES", KEY_BYTES),
        ("POSTER", POSTER),
        ("SIZE", SIZE),
        ("END", END),
        ("FRESH_BYTES", FRESH_BYTES),
        ("DELIVERED_BYTES", DELIVERED_BYTES),
        ("IN_FLIGHT_BYTES", IN_FLIGHT_BYTES),
        ("CLAIM_BYTES", CLAIM_BYTES),
        ("UNDELIVERED", UNDELIVERED as usize),
        ("ANSWER_BYTES_MAX", ANSWER_BYTES_MAX),
        ("RELEASED_MAX", RELEASED_MAX),
        ("SHARD_DIGITS", SHARD_DIGITS),
        ("PREFERRED_IN_A_ROW_MAX", PREFERRED_IN_A_ROW_MAX.into()),
    ] {
        writeln!(lua, "local {name} = {value}").expect("a string takes all that is written");
    }
    lua.push_str("local NO_CLAIM = string.rep('\\0', CLAIM_BYTES)\n");
    // Offset (µs) and the last logical time.
    lua.push_str("local LOGICAL_TIME = '>I8I8'\n");
    lua
}

fn render(keys: &[Part], parts: &[&str]) -> Rendered {
    let names: Vec<&str> = keys.iter().map(|key| key.name()).collect();
    let mut text = String::new();
    if !names.is_empty() {
        writeln!(text, "local {} = unpack(KEYS)", names.join(", ")).expect("a string takes all that is written");
    }
    text.push_str(&constants());
    text.extend(parts.iter().copied());
    let sha = FredScript::from_lua(text.as_str()).sha1().to_string();
    Rendered { text, sha }
}

macro_rules! lua {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/", $name, ".lua"))
    };
}

#[cfg(not(feature = "movable-clock"))]
const CLOCK: &str = lua!("shared/clock");
#[cfg(feature = "movable-clock")]
const CLOCK: &str = lua!("shared/clock_movable");

macro_rules! scripts {
    ($($constant:ident = $name:literal [$($key:ident)*] + [$($shared:literal)*];)*) => {
        $(pub(super) static $constant: Script = Script {
            name: $name,
            keys: &[$(Part::$key),*],
            parts: &[CLOCK, $(lua!($shared),)* lua!($name)],
            rendered: LazyLock::new(|| render($constant.keys, $constant.parts)),
        };)*
    };
}

scripts! {
    CLAIM_CREATE = "claim_create"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims Outbox Shards Due]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/expirations" "shared/fair" "shared/find"
            "shared/removal" "shared/policy" "shared/turns" "shared/claims" "shared/delivering" "shared/dead_letters"];
    CLAIM_GET = "claim_get" [Queue InFlight Claims]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/fair" "shared/claims"];
    CLAIM_RELEASE = "claim_release" [Queue Ready InFlight Leases Claims Shards]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/fair" "shared/claims"];
    CLAIM_RENEW = "claim_renew" [Queue InFlight Leases Claims Due]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/fair" "shared/claims" "shared/delivering"];
    CLAIM_RETURN = "claim_return" [Queue Ready InFlight Leases Claims Shards Due]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/fair" "shared/find" "shared/claims"];
    DEAD_LETTER_DROP = "dead_letter_drop" [Outbox] + [];
    DEAD_LETTER_LIST = "dead_letter_list" [Outbox] + [];
    DEAD_LETTER_POST = "dead_letter_post" [Queue Messages Ready Delayed Expirations Shards Received Due]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/expirations" "shared/fair"
            "shared/logical_time" "shared/sharding" "shared/posting"];
    MESSAGE_ACKNOWLEDGE = "message_acknowledge"
        [Queue Messages Ready InFlight Delayed Expirations Claims Shards]
        + ["shared/queue" "shared/state" "shared/entry" "shared/expirations" "shared/fair" "shared/find" "shared/removal"];
    MESSAGE_DELETE = "message_delete" [Queue Messages Ready InFlight Delayed Expirations Shards]
        + ["shared/queue" "shared/state" "shared/entry" "shared/expirations" "shared/fair" "shared/find" "shared/removal"];
    MESSAGE_GET = "message_get" [Queue Ready InFlight Delayed] + ["shared/queue" "shared/state" "shared/find"];
    MESSAGE_LIST = "message_list" [Queue Ready InFlight Delayed Shards]
        + ["shared/queue" "shared/state" "shared/entry" "shared/policy"];
    MESSAGE_POP = "message_pop" [Queue Messages Ready InFlight Delayed Expirations Outbox Shards Due]
        + ["shared/queue" "shared/state" "shared/entry" "shared/expirations" "shared/fair" "shared/find" "shared/removal"
            "shared/policy" "shared/turns" "shared/dead_letters"];
    MESSAGE_POST = "message_post"
        [Queue Messages Ready Delayed Expirations Shards Tenants Idempotency IdempotencyExpirations Due]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/expirations" "shared/fair"
            "shared/logical_time" "shared/sharding" "shared/posting" "shared/idempotency"];
    MESSAGE_RESTORE = "message_restore"
        [Queue Messages Ready Expirations Shards Idempotency IdempotencyExpirations Due]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/expirations" "shared/fair"
            "shared/idempotency"];
    QUEUE_CHECK = "queue_check" [Queue Messages Ready InFlight Delayed Expirations Leases Claims Shards]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/expirations" "shared/fair" "shared/find"
            "shared/claims"];
    QUEUE_CHECK_CLAIMS = "queue_check_claims" [Queue Messages InFlight Leases Claims Shards]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/fair" "shared/claims"];
    QUEUE_CREATE = "queue_create" [Queue Shards Tombstone]
        + ["shared/queue" "shared/state" "shared/fair" "shared/policy" "shared/keep_policy"];
    QUEUE_DELETE = "queue_delete"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims Outbox Received Shards Tenants Idempotency
            IdempotencyExpirations Tombstone Due]
        + ["shared/queue" "shared/state"];
    QUEUE_PURGE = "queue_purge" [Queue Messages Ready InFlight Delayed Expirations Leases Claims Shards]
        + ["shared/queue" "shared/state"];
    REGISTER = "register" [] + [];
    JANITOR_LEASE = "janitor_lease" [] + [];
    QUEUE_SETTLE = "queue_settle"
        [Queue Messages Ready InFlight Delayed Expirations Leases Claims Outbox Shards Idempotency
            IdempotencyExpirations Due]
        + ["shared/queue" "shared/state" "shared/entry" "shared/notify" "shared/expirations" "shared/fair" "shared/removal"
            "shared/claims" "shared/logical_time"];
    QUEUE_SHARDS = "queue_shards" [Queue Ready InFlight Delayed Shards Tenants]
        + ["shared/queue" "shared/state" "shared/entry" "shared/fair" "shared/find" "shared/turns"];
    QUEUE_STATS = "queue_stats" [Queue Messages Ready InFlight Delayed] + ["shared/queue" "shared/state"];
    QUEUE_STATUS = "queue_status" [Queue Ready Delayed Leases] + ["shared/queue" "shared/state"];
    QUEUE_UPDATE = "queue_update" [Queue Shards]
        + ["shared/queue" "shared/state" "shared/fair" "shared/policy" "shared/keep_policy"];
}
