//! Tokens use the normal store.

use async_trait::async_trait;
use sukkal::domain::{NewToken, ProjectId, TokenId, TokenRecord};
use sukkal::storage::{Error, TokenCreation, TokenStore, TokensMax};

use super::{Poster, StoreVariant};

#[async_trait]
impl<P: Poster> TokenStore for StoreVariant<P> {
    async fn create_token(&self, new: &NewToken, max: TokensMax) -> Result<TokenCreation, Error> {
        self.store.create_token(new, max).await
    }

    async fn get_token(&self, id: TokenId) -> Result<Option<TokenRecord>, Error> {
        self.store.get_token(id).await
    }

    async fn list_tokens(
        &self,
        project: Option<&ProjectId>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Result<Vec<TokenRecord>, Error> {
        self.store.list_tokens(project, after, limit).await
    }

    async fn delete_token(&self, id: TokenId) -> Result<(), Error> {
        self.store.delete_token(id).await
    }
}
