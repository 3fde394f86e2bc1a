//! The actions that callers ask for, each with the permission that it requires, and whether the
//! audit log records it.

use self::Permission::{Everybody, Service};
use crate::auth::policy::Rule;

/// What a caller needs for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// The policy decides by this rule. Callers that are not clients do not have it.
    Rule(Rule),
    /// Every caller has it, because monitoring has no project and no client id.
    Everybody,
    /// Only the service itself has it.
    Service,
}

/// The audit log records each change of queues, subscriptions, tasks, tokens, quotas, pools and
/// flavors, and each backup.
const AUDITED: bool = true;
/// It records nothing that clients do with messages, and no reads.
const NOT_AUDITED: bool = false;

/// Defines the actions. An action without a permission does not compile.
macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident => $permission:expr, $is_audited:expr;)*) => {
        /// An operation that a caller asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Action {
            $($(#[$doc])* $action,)*
        }

        impl Action {
            /// All actions.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$action),*];

            /// Returns what a caller needs for the action.
            pub(super) const fn permission(self) -> Permission {
                match self {
                    $(Self::$action => $permission,)*
                }
            }

            /// Returns whether the audit log records the action when it is allowed. Refused actions
            /// are always recorded.
            pub(super) const fn is_audited(self) -> bool {
                match self {
                    $(Self::$action => $is_audited,)*
                }
            }
        }
    };
}

actions! {
    /// Lists the queues of a project.
    ListQueues => Permission::Rule(Rule::QueuesGetAll), NOT_AUDITED;
    /// Counts the queues of a project, which is part of the list.
    CountQueues => Permission::Rule(Rule::QueuesGetAll), NOT_AUDITED;
    /// Creates a queue.
    CreateQueue => Permission::Rule(Rule::QueuesCreate), AUDITED;
    /// Shows the metadata of a queue.
    GetQueue => Permission::Rule(Rule::QueuesGet), NOT_AUDITED;
    /// Changes the metadata of a queue.
    UpdateQueue => Permission::Rule(Rule::QueuesUpdate), AUDITED;
    /// Deletes a queue.
    DeleteQueue => Permission::Rule(Rule::QueuesDelete), AUDITED;
    /// Shows the statistics of queues.
    GetStats => Permission::Rule(Rule::QueuesStats), NOT_AUDITED;
    /// Signs a URL for a queue.
    ShareQueue => Permission::Rule(Rule::QueuesShare), AUDITED;
    /// Deletes the messages or the subscriptions of a queue.
    PurgeQueue => Permission::Rule(Rule::QueuesPurge), AUDITED;
    /// Pauses the delivery of a queue's messages.
    PauseQueue => Permission::Rule(Rule::QueuesPause), AUDITED;
    /// Resumes the delivery of a queue's messages.
    ResumeQueue => Permission::Rule(Rule::QueuesResume), AUDITED;
    /// Moves a queue to another pool.
    MoveQueue => Permission::Rule(Rule::QueuesMove), AUDITED;
    /// Posts messages.
    PostMessages => Permission::Rule(Rule::MessagesCreate), NOT_AUDITED;
    /// Lists messages.
    ListMessages => Permission::Rule(Rule::MessagesGetAll), NOT_AUDITED;
    /// Returns messages as a stream of events.
    FollowMessages => Permission::Rule(Rule::MessagesGetAll), NOT_AUDITED;
    /// Shows a message.
    GetMessage => Permission::Rule(Rule::MessagesGet), NOT_AUDITED;
    /// Shows messages by their ids.
    GetMessages => Permission::Rule(Rule::MessagesGetAll), NOT_AUDITED;
    /// Deletes a message.
    DeleteMessage => Permission::Rule(Rule::MessagesDelete), NOT_AUDITED;
    /// Deletes messages by their ids.
    DeleteMessages => Permission::Rule(Rule::MessagesDeleteAll), NOT_AUDITED;
    /// Deletes and returns the next messages.
    PopMessages => Permission::Rule(Rule::MessagesDeleteAll), NOT_AUDITED;
    /// Claims messages.
    CreateClaim => Permission::Rule(Rule::ClaimsCreate), NOT_AUDITED;
    /// Shows a claim.
    GetClaim => Permission::Rule(Rule::ClaimsGet), NOT_AUDITED;
    /// Lists the claims of a queue.
    ListClaims => Permission::Rule(Rule::ClaimsGetAll), NOT_AUDITED;
    /// Renews a claim.
    RenewClaim => Permission::Rule(Rule::ClaimsUpdate), NOT_AUDITED;
    /// Returns one message of a claim.
    ReturnMessage => Permission::Rule(Rule::ClaimsReturn), NOT_AUDITED;
    /// Releases a claim.
    ReleaseClaim => Permission::Rule(Rule::ClaimsDelete), NOT_AUDITED;
    /// Lists all projects.
    ListProjects => Permission::Rule(Rule::ProjectsGetAll), NOT_AUDITED;
    /// Makes a backup of the whole store.
    Backup => Permission::Rule(Rule::BackupsCreate), AUDITED;
    /// Starts a task that moves messages to other queues.
    Redrive => Permission::Rule(Rule::QueuesRedrive), AUDITED;
    /// Lists the tasks of a queue.
    ListTasks => Permission::Rule(Rule::TasksGetAll), NOT_AUDITED;
    /// Shows a task.
    GetTask => Permission::Rule(Rule::TasksGet), NOT_AUDITED;
    /// Stops or removes a task.
    DeleteTask => Permission::Rule(Rule::TasksDelete), AUDITED;
    /// Lists the subscriptions of a queue.
    ListSubscriptions => Permission::Rule(Rule::SubscriptionGetAll), NOT_AUDITED;
    /// Creates a subscription.
    CreateSubscription => Permission::Rule(Rule::SubscriptionCreate), AUDITED;
    /// Shows a subscription.
    GetSubscription => Permission::Rule(Rule::SubscriptionGet), NOT_AUDITED;
    /// Changes a subscription.
    UpdateSubscription => Permission::Rule(Rule::SubscriptionUpdate), AUDITED;
    /// Deletes a subscription.
    DeleteSubscription => Permission::Rule(Rule::SubscriptionDelete), AUDITED;
    /// Confirms or cancels a subscription.
    ConfirmSubscription => Permission::Rule(Rule::SubscriptionConfirm), AUDITED;
    /// Lists the last attempts to notify a subscriber.
    ListAttempts => Permission::Rule(Rule::SubscriptionAttempts), NOT_AUDITED;
    /// Stops the notifications of a subscriber.
    PauseSubscription => Permission::Rule(Rule::SubscriptionPause), AUDITED;
    /// Continues the notifications of a subscriber.
    ResumeSubscription => Permission::Rule(Rule::SubscriptionResume), AUDITED;
    /// Notifies a subscriber of messages again.
    Redeliver => Permission::Rule(Rule::SubscriptionRedeliver), AUDITED;
    /// Creates a token.
    CreateToken => Permission::Rule(Rule::TokensCreate), AUDITED;
    /// Lists tokens, or shows one.
    ListTokens => Permission::Rule(Rule::TokensGetAll), NOT_AUDITED;
    /// Deletes a token.
    DeleteToken => Permission::Rule(Rule::TokensDelete), AUDITED;
    /// Shows how much the caller's project uses of its quotas.
    GetUsage => Permission::Rule(Rule::UsageGet), NOT_AUDITED;
    /// Shows the quotas of a project.
    GetQuotas => Permission::Rule(Rule::QuotasGet), NOT_AUDITED;
    /// Sets or removes the quotas of a project.
    SetQuotas => Permission::Rule(Rule::QuotasSet), AUDITED;
    /// Lists the pools.
    ListPools => Permission::Rule(Rule::PoolsGetAll), NOT_AUDITED;
    /// Shows a pool.
    GetPool => Permission::Rule(Rule::PoolsGet), NOT_AUDITED;
    /// Creates or replaces a pool.
    CreatePool => Permission::Rule(Rule::PoolsCreate), AUDITED;
    /// Changes a pool.
    UpdatePool => Permission::Rule(Rule::PoolsUpdate), AUDITED;
    /// Deletes a pool.
    DeletePool => Permission::Rule(Rule::PoolsDelete), AUDITED;
    /// Lists the flavors of a project.
    ListFlavors => Permission::Rule(Rule::FlavorsGetAll), NOT_AUDITED;
    /// Shows a flavor.
    GetFlavor => Permission::Rule(Rule::FlavorsGet), NOT_AUDITED;
    /// Creates or replaces a flavor.
    CreateFlavor => Permission::Rule(Rule::FlavorsCreate), AUDITED;
    /// Changes the pools of a flavor.
    UpdateFlavor => Permission::Rule(Rule::FlavorsUpdate), AUDITED;
    /// Deletes a flavor.
    DeleteFlavor => Permission::Rule(Rule::FlavorsDelete), AUDITED;
    /// Verifies that the store replies.
    Ping => Permission::Rule(Rule::PingGet), NOT_AUDITED;
    /// Tries the operations of the store.
    CheckHealth => Permission::Rule(Rule::HealthGet), NOT_AUDITED;
    /// Verifies that the store can write, for the readiness probe.
    ProbeStore => Everybody, NOT_AUDITED;
    /// Reads the metrics of the process.
    ReadMetrics => Everybody, NOT_AUDITED;
    /// Ends a claim or a pop: it is undone if it was not delivered, or final.
    EndTaking => Service, NOT_AUDITED;
    /// Stores popped messages again that were not delivered.
    RestoreMessages => Service, NOT_AUDITED;
    /// Does the steps of a task.
    RunTask => Service, NOT_AUDITED;
    /// Delivers the messages of a queue to its subscribers.
    Deliver => Service, NOT_AUDITED;
    /// Reads the token that a request presents.
    FindToken => Service, NOT_AUDITED;
    /// Deletes the queues that earlier health checks have left.
    DeleteOldHealthQueues => Service, NOT_AUDITED;
}
