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
    (settle) => {
        lua!("shared/settle")
    };
    (compact) => {
        lua!("shared/compact")
    };
}

scripts! {
    MESSAGE_DELETE = "message_delete" + [queue, settle, compact];
    MESSAGE_GET = "message_get" + [queue, settle];
    MESSAGE_LIST = "message_list" + [queue, settle];
    MESSAGE_POP = "message_pop" + [queue, settle, compact];
    MESSAGE_POST = "message_post" + [queue];
    QUEUE_CREATE = "queue_create" + [queue];
    QUEUE_DELETE = "queue_delete" + [queue];
    QUEUE_REGISTER = "queue_register" + [];
    QUEUE_SETTLE = "queue_settle" + [queue, settle, compact];
    QUEUE_STATS = "queue_stats" + [queue, settle];
    QUEUE_UNREGISTER = "queue_unregister" + [];
    QUEUE_UPDATE = "queue_update" + [queue];
}
