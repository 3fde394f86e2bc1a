//! Tokens of the service: the trait, its arguments and its results.

use async_trait::async_trait;

use super::error::Error;
use crate::domain::{NewToken, ProjectId, TokenId, TokenRecord};

/// Stores tokens. A token that has expired does not exist for any method.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Creates a token, unless there are as many as there may be. If a token with this id exists,
    /// the call has no effect and returns [`TokenCreation::Created`].
    async fn create_token(&self, new: &NewToken, max: TokensMax) -> Result<TokenCreation, Error>;

    /// Returns the token, or `None` if it does not exist.
    async fn get_token(&self, id: TokenId) -> Result<Option<TokenRecord>, Error>;

    /// Returns the next tokens after `after`, at most `limit` of them, in the order of their ids.
    /// With `project`, these are only the tokens of that project. There are fewer only at the end.
    async fn list_tokens(
        &self,
        project: Option<&ProjectId>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Result<Vec<TokenRecord>, Error>;

    /// Deletes the token. Has no effect if it does not exist.
    async fn delete_token(&self, id: TokenId) -> Result<(), Error>;
}

/// Maximum numbers of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokensMax {
    /// Maximum number of all tokens.
    pub total: u32,
    /// Maximum number of tokens of one project. Tokens for all projects do not count.
    pub per_project: u32,
}

/// The result of creating a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenCreation {
    /// The token is stored, in this form.
    Created(TokenRecord),
    /// Nothing was created: the store has the maximum number of tokens.
    TooMany,
    /// Nothing was created: the project has the maximum number of tokens.
    TooManyOfProject,
}
