//! The Lua scripts, each put together with the shared parts that it calls, in the order in which
//! those build on each other.

use std::sync::LazyLock;

use fred::types::scripts::Script as FredScript;

/// One atomic step.
pub(super) struct Script {
    /// The file's name without its ending, for logs.
    pub(super) name: &'static str,
    /// The whole text.
    pub(super) text: &'static str,
    sha: LazyLock<String>,
}

impl Script {
    /// What `EVALSHA` knows it by.
    pub(super) fn sha(&self) -> &str {
        &self.sha
    }
}

macro_rules! lua {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/", $name, ".lua"))
    };
}

#[cfg(not(feature = "movable-clock"))]
macro_rules! clock {
    () => {
        lua!("shared/clock")
    };
}

#[cfg(feature = "movable-clock")]
macro_rules! clock {
    () => {
        lua!("shared/clock_movable")
    };
}

macro_rules! scripts {
    ($($constant:ident = $name:literal + [$($shared:ident),*];)*) => {
        $(pub(super) static $constant: Script = Script {
            name: $name,
            text: text!($name $($shared)*),
            sha: LazyLock::new(|| FredScript::from_lua(text!($name $($shared)*)).sha1().to_string()),
        };)*
    };
}

macro_rules! text {
    ($name:literal $($shared:ident)*) => {
        concat!(clock!(), $(lua_shared!($shared),)* lua!($name))
    };
}

macro_rules! lua_shared {
    (queue) => {
        lua!("shared/queue")
    };
    (fair) => {
        lua!("shared/fair")
    };
    (policy) => {
        lua!("shared/policy")
    };
    (turns) => {
        lua!("shared/turns")
    };
    (record) => {
        lua!("shared/record")
    };
    (holds) => {
        lua!("shared/holds")
    };
    (ends) => {
        lua!("shared/ends")
    };
    (messages) => {
        concat!(
            lua!("shared/queue"),
            lua!("shared/fair"),
            lua!("shared/news"),
            lua!("shared/record"),
            lua!("shared/holds"),
            lua!("shared/claims"),
            lua!("shared/settle")
        )
    };
    (posting) => {
        concat!(
            lua!("shared/fair"),
            lua!("shared/news"),
            lua!("shared/ends"),
            lua!("shared/sharding"),
            lua!("shared/posting")
        )
    };
    (letters) => {
        concat!(lua!("shared/policy"), lua!("shared/letters"))
    };
    (compact) => {
        lua!("shared/compact")
    };
    (holding) => {
        concat!(lua!("shared/ends"), lua!("shared/holding"))
    };
}

scripts! {
    CLAIM_CREATE = "claim_create" + [messages, holding, letters, turns];
    CLAIM_GET = "claim_get" + [messages];
    CLAIM_RELEASE = "claim_release" + [messages];
    CLAIM_RENEW = "claim_renew" + [messages, holding];
    CLAIM_RETURN = "claim_return" + [messages];
    CLAIM_WITHDRAW = "claim_withdraw" + [messages, policy];
    LETTER_DROP = "letter_drop" + [queue];
    LETTER_LIST = "letter_list" + [queue, record, holds];
    LETTER_POST = "letter_post" + [queue, record, holds, posting];
    MESSAGE_ACKNOWLEDGE = "message_acknowledge" + [messages, compact];
    MESSAGE_DELETE = "message_delete" + [messages, compact];
    MESSAGE_GET = "message_get" + [messages];
    MESSAGE_LIST = "message_list" + [messages, policy];
    MESSAGE_POP = "message_pop" + [messages, compact, letters, turns];
    MESSAGE_POST = "message_post" + [queue, record, posting];
    MESSAGE_RESTORE = "message_restore" + [messages, ends];
    QUEUE_CHECK = "queue_check" + [messages];
    QUEUE_CHECK_CLAIMS = "queue_check_claims" + [messages];
    QUEUE_CHECK_ENDS = "queue_check_ends" + [queue];
    QUEUE_CREATE = "queue_create" + [queue, fair, policy];
    QUEUE_DELETE = "queue_delete" + [queue];
    QUEUE_PURGE = "queue_purge" + [queue];
    QUEUE_REGISTER = "queue_register" + [];
    QUEUE_SETTLE = "queue_settle" + [messages, compact];
    QUEUE_SIGHT = "queue_sight" + [messages];
    QUEUE_STATS = "queue_stats" + [messages, turns];
    QUEUE_UNREGISTER = "queue_unregister" + [];
    QUEUE_UPDATE = "queue_update" + [messages, policy];
}
