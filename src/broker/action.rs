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

/// Defines the actions. An action without a permission does not compile.
macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident => $permission:expr,)*) => {
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
        }
    };
}

actions! {
    /// Lists the queues of a project.
    ListQueues => Permission::Rule(Rule::QueuesGetAll),
    /// Counts the queues of a project, which is part of the list.
    CountQueues => Permission::Rule(Rule::QueuesGetAll),
    /// Creates a queue.
    CreateQueue => Permission::Rule(Rule::QueuesCreate),
    /// Shows the metadata of a queue.
    GetQueue => Permission::Rule(Rule::QueuesGet),
    /// Changes the metadata of a queue.
    UpdateQueue => Permission::Rule(Rule::QueuesUpdate),
    /// Deletes a queue.
    DeleteQueue => Permission::Rule(Rule::QueuesDelete),
    /// Shows the statistics of queues.
    GetStats => Permission::Rule(Rule::QueuesStats),
    /// Signs a URL for a queue.
    ShareQueue => Permission::Rule(Rule::QueuesShare),
    /// Deletes the messages or the subscriptions of a queue.
    PurgeQueue => Permission::Rule(Rule::QueuesPurge),
    /// Pauses the delivery of a queue's messages.
    PauseQueue => Permission::Rule(Rule::QueuesPause),
    /// Resumes the delivery of a queue's messages.
    ResumeQueue => Permission::Rule(Rule::QueuesResume),
    /// Moves a queue to another pool.
    MoveQueue => Permission::Rule(Rule::QueuesMove),
    /// Posts messages.
    PostMessages => Permission::Rule(Rule::MessagesCreate),
    /// Lists messages.
    ListMessages => Permission::Rule(Rule::MessagesGetAll),
    /// Returns messages as a stream of events.
    FollowMessages => Permission::Rule(Rule::MessagesGetAll),
    /// Shows a message.
    GetMessage => Permission::Rule(Rule::MessagesGet),
    /// Shows messages by their ids.
    GetMessages => Permission::Rule(Rule::MessagesGetAll),
    /// Deletes a message.
    DeleteMessage => Permission::Rule(Rule::MessagesDelete),
    /// Deletes messages by their ids.
    DeleteMessages => Permission::Rule(Rule::MessagesDeleteAll),
    /// Deletes and returns the next messages.
    PopMessages => Permission::Rule(Rule::MessagesDeleteAll),
    /// Claims messages.
    CreateClaim => Permission::Rule(Rule::ClaimsCreate),
    /// Shows a claim.
    GetClaim => Permission::Rule(Rule::ClaimsGet),
    /// Lists the claims of a queue.
    ListClaims => Permission::Rule(Rule::ClaimsGetAll),
    /// Renews a claim.
    RenewClaim => Permission::Rule(Rule::ClaimsUpdate),
    /// Returns one message of a claim.
    ReturnMessage => Permission::Rule(Rule::ClaimsReturn),
    /// Releases a claim.
    ReleaseClaim => Permission::Rule(Rule::ClaimsDelete),
    /// Lists all projects.
    ListProjects => Permission::Rule(Rule::ProjectsGetAll),
    /// Makes a backup of the whole store.
    Backup => Permission::Rule(Rule::BackupsCreate),
    /// Starts a task that moves messages to other queues.
    Redrive => Permission::Rule(Rule::QueuesRedrive),
    /// Lists the tasks of a queue.
    ListTasks => Permission::Rule(Rule::TasksGetAll),
    /// Shows a task.
    GetTask => Permission::Rule(Rule::TasksGet),
    /// Stops or removes a task.
    DeleteTask => Permission::Rule(Rule::TasksDelete),
    /// Lists the subscriptions of a queue.
    ListSubscriptions => Permission::Rule(Rule::SubscriptionGetAll),
    /// Creates a subscription.
    CreateSubscription => Permission::Rule(Rule::SubscriptionCreate),
    /// Shows a subscription.
    GetSubscription => Permission::Rule(Rule::SubscriptionGet),
    /// Changes a subscription.
    UpdateSubscription => Permission::Rule(Rule::SubscriptionUpdate),
    /// Deletes a subscription.
    DeleteSubscription => Permission::Rule(Rule::SubscriptionDelete),
    /// Confirms or cancels a subscription.
    ConfirmSubscription => Permission::Rule(Rule::SubscriptionConfirm),
    /// Lists the last attempts to notify a subscriber.
    ListAttempts => Permission::Rule(Rule::SubscriptionAttempts),
    /// Stops the notifications of a subscriber.
    PauseSubscription => Permission::Rule(Rule::SubscriptionPause),
    /// Continues the notifications of a subscriber.
    ResumeSubscription => Permission::Rule(Rule::SubscriptionResume),
    /// Notifies a subscriber of messages again.
    Redeliver => Permission::Rule(Rule::SubscriptionRedeliver),
    /// Creates a token.
    CreateToken => Permission::Rule(Rule::TokensCreate),
    /// Lists tokens, or shows one.
    ListTokens => Permission::Rule(Rule::TokensGetAll),
    /// Deletes a token.
    DeleteToken => Permission::Rule(Rule::TokensDelete),
    /// Shows how much the caller's project uses of its quotas.
    GetUsage => Permission::Rule(Rule::UsageGet),
    /// Shows the quotas of a project.
    GetQuotas => Permission::Rule(Rule::QuotasGet),
    /// Sets or removes the quotas of a project.
    SetQuotas => Permission::Rule(Rule::QuotasSet),
    /// Lists the pools.
    ListPools => Permission::Rule(Rule::PoolsGetAll),
    /// Shows a pool.
    GetPool => Permission::Rule(Rule::PoolsGet),
    /// Creates or replaces a pool.
    CreatePool => Permission::Rule(Rule::PoolsCreate),
    /// Changes a pool.
    UpdatePool => Permission::Rule(Rule::PoolsUpdate),
    /// Deletes a pool.
    DeletePool => Permission::Rule(Rule::PoolsDelete),
    /// Lists the flavors of a project.
    ListFlavors => Permission::Rule(Rule::FlavorsGetAll),
    /// Shows a flavor.
    GetFlavor => Permission::Rule(Rule::FlavorsGet),
    /// Creates or replaces a flavor.
    CreateFlavor => Permission::Rule(Rule::FlavorsCreate),
    /// Changes the pools of a flavor.
    UpdateFlavor => Permission::Rule(Rule::FlavorsUpdate),
    /// Deletes a flavor.
    DeleteFlavor => Permission::Rule(Rule::FlavorsDelete),
    /// Verifies that the store replies.
    Ping => Permission::Rule(Rule::PingGet),
    /// Tries the operations of the store.
    CheckHealth => Permission::Rule(Rule::HealthGet),
    /// Verifies that the store can write, for the readiness probe.
    ProbeStore => Everybody,
    /// Reads the metrics of the process.
    ReadMetrics => Everybody,
    /// Ends a claim or a pop: it is undone if it was not delivered, or final.
    EndTaking => Service,
    /// Stores popped messages again that were not delivered.
    RestoreMessages => Service,
    /// Does the steps of a task.
    RunTask => Service,
    /// Delivers the messages of a queue to its subscribers.
    Deliver => Service,
    /// Reads the token that a request presents.
    FindToken => Service,
    /// Deletes the queues that earlier health checks have left.
    DeleteOldHealthQueues => Service,
}

impl Action {
    /// Returns whether the audit log records the action when it is allowed: each change of queues,
    /// subscriptions, tasks and tokens, each backup, and nothing that clients do with messages.
    /// Refused actions are always recorded.
    pub(super) const fn is_audited(self) -> bool {
        match self {
            Self::CreateQueue
            | Self::UpdateQueue
            | Self::DeleteQueue
            | Self::ShareQueue
            | Self::PurgeQueue
            | Self::PauseQueue
            | Self::ResumeQueue
            | Self::MoveQueue
            | Self::Redrive
            | Self::DeleteTask
            | Self::CreateSubscription
            | Self::UpdateSubscription
            | Self::DeleteSubscription
            | Self::ConfirmSubscription
            | Self::PauseSubscription
            | Self::ResumeSubscription
            | Self::Redeliver
            | Self::CreateToken
            | Self::DeleteToken
            | Self::SetQuotas
            | Self::Backup
            | Self::CreatePool
            | Self::UpdatePool
            | Self::DeletePool
            | Self::CreateFlavor
            | Self::UpdateFlavor
            | Self::DeleteFlavor => true,
            Self::ListQueues
            | Self::CountQueues
            | Self::GetQueue
            | Self::GetStats
            | Self::PostMessages
            | Self::ListMessages
            | Self::FollowMessages
            | Self::GetMessage
            | Self::GetMessages
            | Self::DeleteMessage
            | Self::DeleteMessages
            | Self::PopMessages
            | Self::CreateClaim
            | Self::GetClaim
            | Self::ListClaims
            | Self::RenewClaim
            | Self::ReturnMessage
            | Self::ReleaseClaim
            | Self::ListProjects
            | Self::ListTasks
            | Self::GetTask
            | Self::ListSubscriptions
            | Self::GetSubscription
            | Self::ListAttempts
            | Self::ListTokens
            | Self::GetUsage
            | Self::GetQuotas
            | Self::ListPools
            | Self::GetPool
            | Self::ListFlavors
            | Self::GetFlavor
            | Self::Ping
            | Self::CheckHealth
            | Self::ProbeStore
            | Self::ReadMetrics
            | Self::EndTaking
            | Self::RestoreMessages
            | Self::RunTask
            | Self::Deliver
            | Self::FindToken
            | Self::DeleteOldHealthQueues => false,
        }
    }
}
