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
    (ends) => {
        lua!("shared/ends")
    };
    (messages) => {
        concat!(lua!("shared/queue"), lua!("shared/holds"), lua!("shared/claims"), lua!("shared/settle"))
    };
    (compact) => {
        lua!("shared/compact")
    };
    (holding) => {
        concat!(lua!("shared/ends"), lua!("shared/holding"))
    };
}

scripts! {
    CLAIM_CREATE = "claim_create" + [messages, holding];
    CLAIM_GET = "claim_get" + [messages];
    CLAIM_RELEASE = "claim_release" + [messages];
    CLAIM_RENEW = "claim_renew" + [messages, holding];
    MESSAGE_ACKNOWLEDGE = "message_acknowledge" + [messages, compact];
    MESSAGE_DELETE = "message_delete" + [messages, compact];
    MESSAGE_GET = "message_get" + [messages];
    MESSAGE_LIST = "message_list" + [messages];
    MESSAGE_POP = "message_pop" + [messages, compact];
    MESSAGE_POST = "message_post" + [queue, ends];
    QUEUE_CREATE = "queue_create" + [queue];
    QUEUE_DELETE = "queue_delete" + [queue];
    QUEUE_PURGE = "queue_purge" + [queue];
    QUEUE_REGISTER = "queue_register" + [];
    QUEUE_SETTLE = "queue_settle" + [messages, compact];
    QUEUE_STATS = "queue_stats" + [messages];
    QUEUE_UNREGISTER = "queue_unregister" + [];
    QUEUE_UPDATE = "queue_update" + [queue];
}
