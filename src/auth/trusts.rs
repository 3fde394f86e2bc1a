//! Trusts: a user lets the service act for them, for the deliveries of a subscription.

use std::time::Duration;

use async_trait::async_trait;

use super::{AuthenticationError, Identity};
use sukkal_domain::Secret;

/// Creates and uses trusts.
#[async_trait]
pub trait Trusts: Send + Sync {
    /// Creates a trust that ends after this time, and returns its id. `token` proves the identity
    /// of the user.
    async fn create(&self, token: &Secret, user: &Identity, ttl: Duration) -> Result<String, AuthenticationError>;

    /// Returns a token with which the service acts for the user.
    async fn token(&self, trust: &str) -> Result<Secret, AuthenticationError>;

    /// Forgets the token of a trust, because a server has not accepted it.
    fn forget_token(&self, trust: &str);

    /// Deletes a trust, if it exists.
    async fn delete(&self, trust: &str) -> Result<(), AuthenticationError>;
}
