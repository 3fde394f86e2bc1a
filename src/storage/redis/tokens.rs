//! Tokens in Redis: create, get, list and delete them.

use async_trait::async_trait;
use bytes::{BufMut, Bytes};

use super::RedisStore;
use super::arguments;
use super::keys::TOKENS;
use super::reply::{self, Reply};
use super::script::{Script, TOKEN_CREATE, TOKEN_DELETE, TOKEN_GET, TOKEN_LIST};
use crate::domain::{NewToken, ProjectId, TokenId, TokenRecord};
use crate::storage::delivery_record::ID_BYTES;
use crate::storage::{Error, TokenCreation, TokenStore, TokensMax, token_record, unless_unreadable};

#[async_trait]
impl TokenStore for RedisStore {
    async fn create_token(&self, new: &NewToken, max: TokensMax) -> Result<TokenCreation, Error> {
        let args = [
            token_id(new.id),
            project(new.grant.project.as_ref()),
            arguments::number(new.ttl_s.unwrap_or(0)),
            token_record::encode_rest(new).into(),
            arguments::number(max.total.into()),
            arguments::number(max.per_project.into()),
        ];
        let (kind, mut reply) = self.run_removing_expired(&TOKEN_CREATE, &args).await?;
        match kind.as_str() {
            "created" => {
                let (now_us, record) = (reply.number()?, reply.bytes()?);
                let created = token_record::decode(new.id, &record, now_us)?;
                let ended = || Error::Corrupt("a new token has expired".to_owned());
                Ok(TokenCreation::Created(created.ok_or_else(ended)?))
            }
            "too_many" => Ok(TokenCreation::TooMany),
            "too_many_of_project" => Ok(TokenCreation::TooManyOfProject),
            kind => Err(reply::unknown_kind(TOKEN_CREATE.name, kind)),
        }
    }

    async fn get_token(&self, id: TokenId) -> Result<Option<TokenRecord>, Error> {
        let keys = vec![TOKENS[0].to_owned()];
        let mut reply = self.connection.run_on(&TOKEN_GET, keys, vec![token_id(id)]).await?;
        match reply.text()?.as_str() {
            "none" => Ok(None),
            "token" => {
                let now_us = reply.number()?;
                token_record::decode(id, &reply.bytes()?, now_us)
            }
            kind => Err(reply::unknown_kind(TOKEN_GET.name, kind)),
        }
    }

    async fn list_tokens(
        &self,
        of: Option<&ProjectId>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Result<Vec<TokenRecord>, Error> {
        let of = of.map_or_else(Bytes::new, |of| project(Some(of)));
        let args = [of, after.map_or_else(Bytes::new, token_id), arguments::number(limit as u64)];
        let (_tokens, mut reply) = self.run_removing_expired(&TOKEN_LIST, &args).await?;
        let (now_us, mut found) = (reply.number()?, Vec::new());
        while !reply.is_empty() {
            let id = read_id(&reply.bytes()?)?;
            found.extend(unless_unreadable(token_record::decode(id, &reply.bytes()?, now_us))?.flatten());
        }
        Ok(found)
    }

    async fn delete_token(&self, id: TokenId) -> Result<(), Error> {
        self.connection.run_on(&TOKEN_DELETE, TOKENS.map(str::to_owned).into(), vec![token_id(id)]).await.map(drop)
    }
}

impl RedisStore {
    /// Runs a script until it has removed all expired tokens. Returns the kind of the reply, and the
    /// rest of it.
    async fn run_removing_expired(&self, script: &Script, args: &[Bytes]) -> Result<(String, Reply), Error> {
        loop {
            let mut reply = self.connection.run_on(script, TOKENS.map(str::to_owned).into(), args.to_vec()).await?;
            let kind = reply.text()?;
            if kind != "again" {
                return Ok((kind, reply));
            }
        }
    }
}

fn token_id(id: TokenId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

/// Returns the length and the text of a project; a length of 0 for all projects.
fn project(project: Option<&ProjectId>) -> Bytes {
    let text = project.map_or("", ProjectId::as_str);
    let mut bytes = Vec::with_capacity(2 + text.len());
    bytes.put_u16(u16::try_from(text.len()).expect("ids of projects are short"));
    bytes.put_slice(text.as_bytes());
    bytes.into()
}

pub(super) fn read_id(bytes: &[u8]) -> Result<TokenId, Error> {
    let invalid = |_| Error::Corrupt(format!("the id of a token has {} bytes", bytes.len()));
    <[u8; ID_BYTES]>::try_from(bytes).map(TokenId::from_bytes).map_err(invalid)
}
