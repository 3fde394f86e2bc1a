//! Tokens of the service: create, get, list and delete them in any store.

use async_trait::async_trait;
use bytes::Bytes;

use super::error::{Error, unless_unreadable};
use super::records::{Condition, Indexes, Read, Records, Row, Table, Write, Written, read_live};
use super::token_record;
use sukkal_domain::{NewToken, ProjectId, TokenId, TokenRecord};

/// The tokens by id. `token_record.rs` describes their values.
pub(super) static TOKENS: Table = Table {
    tag: "tokens",
    prefixes: *b"klec",
    indexes: Some(Indexes { of: token_record::indexed, check: token_record::check }),
};

/// Stores tokens. A token that has expired does not exist for any method.
#[async_trait]
pub trait TokenStore: Records {
    /// Creates a token, unless there are as many as there may be. If a token with this id exists,
    /// the call has no effect and returns [`TokenCreation::Created`].
    async fn create_token(&self, new: &NewToken, max: TokensMax) -> Result<TokenCreation, Error> {
        loop {
            let (now_us, found) = read_live(self, &TOKENS, Read::Row(key(new.id))).await?;
            let created = |row: &Row| {
                let record = token_record::decode(&row.key, &row.value, now_us)?;
                let ended = || Error::Corrupt("a new token has expired".to_owned());
                record.map(TokenCreation::Created).ok_or_else(ended)
            };
            if let Some(existing) = found.first() {
                return created(existing);
            }
            // The store's time of the read is that of the creation.
            let row = Row { key: key(new.id), value: token_record::encode(new, now_us).into() };
            let mut conditions = vec![
                Condition::Row { key: key(new.id), begins: None },
                Condition::Fewer { project: None, max: max.total },
            ];
            if new.grant.project.is_some() {
                conditions.push(Condition::Fewer { project: new.grant.project.clone(), max: max.per_project });
            }
            let write = Write { conditions, puts: vec![row.clone()], ..Write::default() };
            match self.write_rows(&TOKENS, write).await? {
                Written::Done => return created(&row),
                // The next step finds the token.
                Written::Refused(0) => {}
                Written::Refused(1) => return Ok(TokenCreation::TooMany),
                Written::Refused(_) => return Ok(TokenCreation::TooManyOfProject),
            }
        }
    }

    /// Returns the token, or `None` if it does not exist.
    async fn get_token(&self, id: TokenId) -> Result<Option<TokenRecord>, Error> {
        let (now_us, found) = self.read_rows(&TOKENS, vec![Read::Row(key(id))]).await?;
        let row = found.into_iter().flatten().next();
        Ok(row.map(|row| token_record::decode(&row.key, &row.value, now_us)).transpose()?.flatten())
    }

    /// Returns the next tokens after `after`, at most `limit` of them, in the order of their ids.
    /// With `project`, these are only the tokens of that project. There are fewer only at the end.
    async fn list_tokens(
        &self,
        project: Option<&ProjectId>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Result<Vec<TokenRecord>, Error> {
        let page = Read::Page { project: project.cloned(), after: after.map(key), limit };
        let (now_us, found) = read_live(self, &TOKENS, page).await?;
        let read = |row: &Row| unless_unreadable(token_record::decode(&row.key, &row.value, now_us));
        found.iter().filter_map(|row| read(row).map(Option::flatten).transpose()).collect()
    }

    /// Deletes the token. Has no effect if it does not exist.
    async fn delete_token(&self, id: TokenId) -> Result<(), Error> {
        let (_, found) = self.read_rows(&TOKENS, vec![Read::Row(key(id))]).await?;
        // The record of a token never changes, so no condition is needed.
        match found.concat() {
            none if none.is_empty() => Ok(()),
            deletes => self.write_rows(&TOKENS, Write { deletes, ..Write::default() }).await.map(drop),
        }
    }
}

impl<T: Records> TokenStore for T {}

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

fn key(id: TokenId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}
