//! Token operations of the store: create, get, list and delete tokens.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::Buf;

use crate::domain::{NewToken, ProjectId, TokenId, TokenRecord};
use crate::storage::embedded::engine::clock;
use crate::storage::embedded::engine::error::damaged;
use crate::storage::embedded::engine::tables::Table;
use crate::storage::embedded::rows::keys::{self, TOKENS};
use crate::storage::embedded::store::EmbeddedStore;
use crate::storage::embedded::transaction::read::View;
use crate::storage::embedded::transaction::write::WriteTransaction;
use crate::storage::embedded::transaction::writer::Step;
use crate::storage::token_record::{self, TokenHead};
use crate::storage::{Error, TokenCreation, TokenStore, TokensMax, unless_unreadable};

/// Maximum number of expired tokens that one step removes.
const EXPIRED_PER_STEP: usize = 500;

#[async_trait]
impl TokenStore for EmbeddedStore {
    async fn create_token(&self, new: &NewToken, max: TokensMax) -> Result<TokenCreation, Error> {
        let new = new.clone();
        self.write(0, move |store| {
            let now_us = clock::now_us();
            if store.remove_expired_tokens(now_us)? {
                return Ok(Step::Again);
            }
            store.create_token(&new, max, now_us).map(Step::Done)
        })
        .await
    }

    async fn get_token(&self, id: TokenId) -> Result<Option<TokenRecord>, Error> {
        self.read(move |view| view.token(id, clock::now_us())).await
    }

    async fn list_tokens(
        &self,
        project: Option<&ProjectId>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Result<Vec<TokenRecord>, Error> {
        let of = project.map_or_else(|| vec![TOKENS], keys::tokens_of_project);
        let find = move |view: &View<_>| {
            let now_us = clock::now_us();
            if !view.expired_tokens(now_us, 1)?.is_empty() {
                return Ok(None);
            }
            let ids = view.token_ids(&of, after, limit)?;
            let found = ids.into_iter().map(|id| unless_unreadable(view.token(id, now_us)).map(Option::flatten));
            Ok(Some(found.filter_map(Result::transpose).collect::<Result<_, Error>>()?))
        };
        loop {
            if let Some(found) = self.read(find.clone()).await? {
                return Ok(found);
            }
            self.write(0, |store| store.remove_expired_tokens(clock::now_us()).map(Step::Done)).await?;
        }
    }

    async fn delete_token(&self, id: TokenId) -> Result<(), Error> {
        self.write(0, move |store| store.delete_token(id).map(Step::Done)).await
    }
}

impl<T: Table> View<T> {
    fn token(&self, id: TokenId, now_us: u64) -> Result<Option<TokenRecord>, Error> {
        match self.registry.get(&*keys::token(id))? {
            Some(record) => token_record::decode(id, record.value(), now_us),
            None => Ok(None),
        }
    }

    /// Returns the ids that follow `after` in the rows whose keys begin with `of` and end with the
    /// id.
    fn token_ids(&self, of: &[u8], after: Option<TokenId>, limit: usize) -> Result<Vec<TokenId>, Error> {
        let first = [of, after.as_ref().map_or(&[][..], |after| after.as_bytes())].concat();
        let from = if after.is_some() { Bound::Excluded(&first[..]) } else { Bound::Included(&first[..]) };
        let rows = self.registry.range::<&[u8]>((from, Bound::Excluded(&*keys::prefix_end(of))))?;
        rows.take(limit).map(|row| keys::token_at_end(row?.0.value()).ok_or_else(|| damaged("a token's id"))).collect()
    }

    /// Returns the ids of tokens that have expired at this time (µs).
    fn expired_tokens(&self, now_us: u64, limit: usize) -> Result<Vec<TokenId>, Error> {
        let (from, to) = (keys::token_ends_prefix(), keys::token_end(now_us.saturating_add(1), None));
        let rows = self.registry.range::<&[u8]>(&from[..]..&*to)?;
        rows.take(limit).map(|row| keys::token_at_end(row?.0.value()).ok_or_else(|| damaged("a token's id"))).collect()
    }

    fn token_count(&self, project: Option<&ProjectId>) -> Result<u64, Error> {
        match self.registry.get(&*keys::token_count(project))? {
            Some(count) => count.value().try_get_u64().map_err(|_| damaged("the number of tokens")),
            None => Ok(0),
        }
    }
}

impl WriteTransaction<'_> {
    fn create_token(&mut self, new: &NewToken, max: TokensMax, now_us: u64) -> Result<TokenCreation, Error> {
        if let Some(existing) = self.view.token(new.id, now_us)? {
            return Ok(TokenCreation::Created(existing));
        }
        let head = TokenHead::of(new, now_us);
        if self.view.token_count(None)? >= max.total.into() {
            return Ok(TokenCreation::TooMany);
        }
        if head.project.is_some() && self.view.token_count(head.project.as_ref())? >= max.per_project.into() {
            return Ok(TokenCreation::TooManyOfProject);
        }
        let record = token_record::encode(&head, new);
        self.put_registry(&keys::token(new.id), &record)?;
        if head.ends_us > 0 {
            self.put_registry(&keys::token_end(head.ends_us, Some(new.id)), &[])?;
        }
        self.change_token_count(None, 1)?;
        if let Some(project) = &head.project {
            self.put_registry(&keys::token_of_project(project, new.id), &[])?;
            self.change_token_count(Some(project), 1)?;
        }
        let created = token_record::decode(new.id, &record, now_us)?;
        created.map(TokenCreation::Created).ok_or_else(|| damaged("a new token"))
    }

    fn delete_token(&mut self, id: TokenId) -> Result<(), Error> {
        let Some(record) = self.remove_registry(&keys::token(id))? else {
            return Ok(());
        };
        let (head, _) = TokenHead::decode(&record)?;
        self.remove_registry(&keys::token_end(head.ends_us, Some(id)))?;
        self.change_token_count(None, -1)?;
        if let Some(project) = &head.project {
            self.remove_registry(&keys::token_of_project(project, id))?;
            self.change_token_count(Some(project), -1)?;
        }
        Ok(())
    }

    /// Removes tokens that have expired. Returns whether there may be more of them.
    fn remove_expired_tokens(&mut self, now_us: u64) -> Result<bool, Error> {
        let expired = self.view.expired_tokens(now_us, EXPIRED_PER_STEP)?;
        for id in &expired {
            self.delete_token(*id)?;
        }
        Ok(expired.len() == EXPIRED_PER_STEP)
    }

    fn change_token_count(&mut self, project: Option<&ProjectId>, change: i64) -> Result<(), Error> {
        let key = keys::token_count(project);
        match self.view.token_count(project)?.saturating_add_signed(change) {
            0 => self.remove_registry(&key).map(drop),
            count => self.put_registry(&key, &count.to_be_bytes()),
        }
    }
}
