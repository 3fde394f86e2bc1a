//! The rules, with their names in the configuration and their texts in the presets.
//!
//! The names are those of Zaqar where it has the operation, and of the same form otherwise. The
//! table is also in `docs/security.md`.

use serde::Deserialize;

/// A text for each rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// The defaults of Zaqar: clients may do everything in their project.
    #[default]
    Zaqar,
    /// The roles reader, producer, worker, manager and admin. Each includes the one before it.
    Roles,
}

/// The rules of the preset `zaqar`.
const ANYONE: &str = "";
const ADMIN: &str = "role:admin";
/// The other rules of the preset `roles`.
const MANAGER: &str = "role:manager or role:admin";
const READER: &str = "role:reader or role:producer or role:worker or role:manager or role:admin";
/// The rules of operations that a URL can be signed for.
const SIGNED_READER: &str =
    "role:reader or role:producer or role:worker or role:manager or role:admin or role:signed_url";
const SIGNED_PRODUCER: &str = "role:producer or role:worker or role:manager or role:admin or role:signed_url";
const SIGNED_WORKER: &str = "role:worker or role:manager or role:admin or role:signed_url";
const SIGNED_MANAGER: &str = "role:manager or role:admin or role:signed_url";

/// Defines the rules, each with its name and its texts in the presets `zaqar` and `roles`.
macro_rules! rules {
    ($($rule:ident = $name:literal, $zaqar:expr, $roles:expr;)*) => {
        /// Decides who may perform some operations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $(#[doc = concat!("`", $name, "`")] $rule,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$rule),*];

            /// Returns the name of the rule in the configuration.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }

            /// Returns the text of the rule in the preset.
            pub(super) const fn preset(self, preset: Preset) -> &'static str {
                match (self, preset) {
                    $((Self::$rule, Preset::Zaqar) => $zaqar,
                    (Self::$rule, Preset::Roles) => $roles,)*
                }
            }
        }
    };
}

rules! {
    QueuesGetAll = "queues:get_all", ANYONE, READER;
    QueuesCreate = "queues:create", ANYONE, MANAGER;
    QueuesGet = "queues:get", ANYONE, READER;
    QueuesUpdate = "queues:update", ANYONE, MANAGER;
    QueuesDelete = "queues:delete", ANYONE, MANAGER;
    QueuesStats = "queues:stats", ANYONE, READER;
    QueuesShare = "queues:share", ANYONE, MANAGER;
    QueuesPurge = "queues:purge", ANYONE, MANAGER;
    QueuesPause = "queues:pause", ANYONE, MANAGER;
    QueuesResume = "queues:resume", ANYONE, MANAGER;
    QueuesMove = "queues:move", ADMIN, ADMIN;
    QueuesRedrive = "queues:redrive", ANYONE, MANAGER;
    TopicsGetAll = "topics:get_all", ANYONE, READER;
    TopicsCreate = "topics:create", ANYONE, MANAGER;
    TopicsGet = "topics:get", ANYONE, READER;
    TopicsUpdate = "topics:update", ANYONE, MANAGER;
    TopicsDelete = "topics:delete", ANYONE, MANAGER;
    TopicsStats = "topics:stats", ANYONE, READER;
    TopicsPurge = "topics:purge", ANYONE, MANAGER;
    MessagesGetAll = "messages:get_all", ANYONE, SIGNED_READER;
    MessagesGet = "messages:get", ANYONE, SIGNED_READER;
    MessagesCreate = "messages:create", ANYONE, SIGNED_PRODUCER;
    MessagesDelete = "messages:delete", ANYONE, SIGNED_WORKER;
    MessagesDeleteAll = "messages:delete_all", ANYONE, SIGNED_WORKER;
    // No URL can be signed for the list of claims.
    ClaimsGetAll = "claims:get_all", ANYONE, READER;
    ClaimsGet = "claims:get", ANYONE, SIGNED_READER;
    ClaimsCreate = "claims:create", ANYONE, SIGNED_WORKER;
    ClaimsUpdate = "claims:update", ANYONE, SIGNED_WORKER;
    ClaimsDelete = "claims:delete", ANYONE, SIGNED_WORKER;
    ClaimsReturn = "claims:return", ANYONE, SIGNED_WORKER;
    TasksGetAll = "tasks:get_all", ANYONE, READER;
    TasksGet = "tasks:get", ANYONE, READER;
    TasksDelete = "tasks:delete", ANYONE, MANAGER;
    SubscriptionGetAll = "subscription:get_all", ANYONE, SIGNED_READER;
    SubscriptionGet = "subscription:get", ANYONE, SIGNED_READER;
    SubscriptionAttempts = "subscription:attempts", ANYONE, SIGNED_READER;
    SubscriptionCreate = "subscription:create", ANYONE, SIGNED_MANAGER;
    SubscriptionUpdate = "subscription:update", ANYONE, SIGNED_MANAGER;
    SubscriptionDelete = "subscription:delete", ANYONE, SIGNED_MANAGER;
    SubscriptionConfirm = "subscription:confirm", ANYONE, SIGNED_MANAGER;
    SubscriptionPause = "subscription:pause", ANYONE, SIGNED_MANAGER;
    SubscriptionResume = "subscription:resume", ANYONE, SIGNED_MANAGER;
    SubscriptionRedeliver = "subscription:redeliver", ANYONE, SIGNED_MANAGER;
    PingGet = "ping:get", ANYONE, ANYONE;
    HealthGet = "health:get", ADMIN, ADMIN;
    ProjectsGetAll = "projects:get_all", ADMIN, ADMIN;
    BackupsCreate = "backups:create", ADMIN, ADMIN;
    TokensGetAll = "tokens:get_all", ADMIN, MANAGER;
    TokensCreate = "tokens:create", ADMIN, MANAGER;
    TokensDelete = "tokens:delete", ADMIN, MANAGER;
    UsageGet = "usage:get", ANYONE, READER;
    QuotasGet = "quotas:get", ADMIN, ADMIN;
    QuotasSet = "quotas:set", ADMIN, ADMIN;
    PoolsGetAll = "pools:get_all", ADMIN, ADMIN;
    PoolsGet = "pools:get", ADMIN, ADMIN;
    PoolsCreate = "pools:create", ADMIN, ADMIN;
    PoolsUpdate = "pools:update", ADMIN, ADMIN;
    PoolsDelete = "pools:delete", ADMIN, ADMIN;
    FlavorsGetAll = "flavors:get_all", ANYONE, READER;
    FlavorsGet = "flavors:get", ANYONE, READER;
    FlavorsCreate = "flavors:create", ADMIN, ADMIN;
    FlavorsUpdate = "flavors:update", ADMIN, ADMIN;
    FlavorsDelete = "flavors:delete", ADMIN, ADMIN;
}

impl Rule {
    /// Returns the rule that decides about topics where this one decides about queues.
    #[must_use]
    pub const fn for_topics(self) -> Self {
        match self {
            Self::QueuesGetAll => Self::TopicsGetAll,
            Self::QueuesCreate => Self::TopicsCreate,
            Self::QueuesGet => Self::TopicsGet,
            Self::QueuesUpdate => Self::TopicsUpdate,
            Self::QueuesDelete => Self::TopicsDelete,
            Self::QueuesStats => Self::TopicsStats,
            Self::QueuesPurge => Self::TopicsPurge,
            other => other,
        }
    }

    /// Returns the rule with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}
