//! Authorizes pre-signed URLs: a caller can share only what it may do itself.

use super::Action::{
    ConfirmSubscription, CreateClaim, CreateSubscription, DeleteMessage, DeleteMessages, DeleteSubscription,
    FollowMessages, GetClaim, GetMessage, GetMessages, GetSubscription, ListAttempts, ListMessages, ListSubscriptions,
    PauseSubscription, PopMessages, PostMessages, Redeliver, ReleaseClaim, RenewClaim, ResumeSubscription,
    ReturnMessage, ShareQueue, UpdateSubscription,
};
use super::{Action, Broker, Error};
use crate::auth::Caller;
use crate::auth::signed_url::SignedUrl;
use sukkal_domain::QueueId;

impl Broker {
    /// Succeeds if the caller may sign URLs for the queue.
    pub fn authorize_share(&self, caller: &Caller, queue: &QueueId) -> Result<(), Error> {
        self.store.authorize(caller, ShareQueue, queue).map(drop)
    }

    /// Succeeds if the caller may do everything that the URL allows.
    pub fn authorize_shared(&self, caller: &Caller, url: &SignedUrl) -> Result<(), Error> {
        for path in url.paths() {
            for method in url.methods() {
                let actions = actions_of(method, path).ok_or(Error::Forbidden)?;
                if let Some(denied) = actions.iter().find(|&&action| !self.store.allows(caller, action)) {
                    let requirement = self.store.requirement(denied.permission()).ok_or(Error::Forbidden)?;
                    return Err(Error::ForbiddenShare { method: method.clone(), path: path.clone(), requirement });
                }
            }
        }
        Ok(())
    }
}

/// Returns the actions that a URL for this method and this path of a queue allows, on the path and
/// below it. Returns `None` if no URL can be signed for the path.
fn actions_of(method: &str, path: &str) -> Option<&'static [Action]> {
    let [_, "v2", "queues" | "topics", _name, part] = path.split('/').collect::<Vec<_>>()[..] else { return None };
    Some(match (part, method) {
        ("messages", "GET" | "HEAD") => &[ListMessages, FollowMessages, GetMessage, GetMessages],
        ("messages", "POST") => &[PostMessages],
        ("messages", "DELETE") => &[DeleteMessage, DeleteMessages, PopMessages],
        // No URL allows the list of claims.
        ("claims", "GET" | "HEAD") => &[GetClaim],
        ("claims", "POST") => &[CreateClaim],
        ("claims", "PATCH") => &[RenewClaim],
        ("claims", "DELETE") => &[ReleaseClaim, ReturnMessage],
        ("subscriptions", "GET" | "HEAD") => &[ListSubscriptions, GetSubscription, ListAttempts],
        ("subscriptions", "POST") => &[CreateSubscription, PauseSubscription, ResumeSubscription, Redeliver],
        ("subscriptions", "PATCH") => &[UpdateSubscription],
        ("subscriptions", "DELETE") => &[DeleteSubscription],
        ("subscriptions", "PUT") => &[ConfirmSubscription],
        // The API has no such methods.
        ("messages" | "claims" | "subscriptions", _) => &[],
        _ => return None,
    })
}
