//! Trusts: a user lets the service act for them, for the deliveries of a subscription.

use std::time::Duration;

use futures::future::BoxFuture;

use super::{AuthenticationError, Identity};
use sukkal_domain::Secret;

/// Creates and uses trusts.
pub trait Trusts: Send + Sync {
    /// Creates a trust that ends after this time, and returns its id. `token` proves the identity
    /// of the user.
    fn create<'a>(
        &'a self,
        token: &'a Secret,
        user: &'a Identity,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<String, AuthenticationError>>;

    /// Returns a token with which the service acts for the user.
    fn token<'a>(&'a self, trust: &'a str) -> BoxFuture<'a, Result<Secret, AuthenticationError>>;

    /// Forgets the token of a trust, because a server has not accepted it.
    fn forget_token(&self, trust: &str);

    /// Deletes a trust, if it exists.
    fn delete<'a>(&'a self, trust: &'a str) -> BoxFuture<'a, Result<(), AuthenticationError>>;
}
