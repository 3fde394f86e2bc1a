//! Tokens: API keys that clients present instead of other credentials.
//!
//! A caller with the role `admin` manages all tokens. Other callers manage the tokens of their own
//! project, and give them only roles that they have themselves; a manager also gives the roles that
//! its own role includes.

use super::access::{Resource, require_client};
use super::range::page_limit;
use super::{Action, Broker, Error};
use crate::auth::{Caller, Client};
use sukkal_domain::token::TOKEN_PREFIX;
use sukkal_domain::token_draft::InvalidToken;
use sukkal_domain::{ProjectId, Token, TokenDraft, TokenGrant, TokenId, TokenRecord};
use sukkal_storage::{TokenCreation, TokensMax};

/// The role of those who manage a project, and the roles that it includes.
const MANAGER: &str = "manager";
const ROLES_OF_MANAGERS: [&str; 3] = ["reader", "producer", "worker"];

impl Broker {
    /// Creates a token. Returns it with what is stored of it. It cannot be shown again.
    pub async fn create_token(&self, caller: &Caller, draft: TokenDraft) -> Result<(Token, TokenRecord), Error> {
        let client = require_client(caller)?;
        let access = self.store.authorize(caller, Action::CreateToken, &client.project)?;
        let (token, new) = draft.issue()?;
        self.store.require_known(&new.grant.roles)?;
        if !may_manage(client, &new.grant) || !may_give(client, &new.grant.roles) {
            return Err(Error::ForbiddenGrant);
        }
        let limits = &self.limits;
        let max = TokensMax { total: limits.max_tokens, per_project: limits.max_tokens_per_project };
        let store = access.admit().await?;
        let creation = self.run_to_completion(async move { store.create_token(&new, max).await }).await?;
        let too_many = |of: &str, max| {
            Err(Error::Conflict(format!("{of} has {max} tokens, which is the maximum; delete one of them first")))
        };
        match creation {
            TokenCreation::Created(record) => Ok((token, record)),
            TokenCreation::TooMany => too_many("the service", max.total),
            TokenCreation::TooManyOfProject => too_many("the project", max.per_project),
        }
    }

    /// Returns the next tokens after `after` that the caller manages, in the order of their ids, at
    /// most `limit`, or the default number of queues in a page. With `project`, only those of that
    /// project.
    pub async fn list_tokens(
        &self,
        caller: &Caller,
        project: Option<ProjectId>,
        after: Option<TokenId>,
        limit: Option<i64>,
    ) -> Result<Vec<TokenRecord>, Error> {
        let client = require_client(caller)?;
        let access = self.store.authorize(caller, Action::ListTokens, &client.project)?;
        let limit = page_limit(limit, self.limits.max_queues_per_page)?;
        if !client.is_admin() && project.as_ref().is_some_and(|project| *project != client.project) {
            return Err(Error::Forbidden);
        }
        let project = project.as_ref().or((!client.is_admin()).then_some(&client.project));
        Ok(access.admit().await?.list_tokens(project, after, limit).await?)
    }

    /// Returns a token that the caller manages.
    pub async fn get_token(&self, caller: &Caller, id: &str) -> Result<TokenRecord, Error> {
        let client = require_client(caller)?;
        let access = self.store.authorize(caller, Action::ListTokens, &client.project)?;
        refuse_token(id)?;
        let found = access.admit().await?.get_token(TokenId::parse_or_unknown(id)).await?;
        let managed = found.filter(|token| may_manage(client, &token.grant));
        managed.ok_or_else(|| Error::NotFound(format!("Token {id} does not exist")))
    }

    /// Deletes a token that the caller manages, if it exists. All processes refuse it some seconds
    /// later at the latest.
    pub async fn delete_token(&self, caller: &Caller, id: &str) -> Result<(), Error> {
        let client = require_client(caller)?;
        let access = self.store.authorize(caller, Action::DeleteToken, &client.project)?;
        refuse_token(id)?;
        let store = access.admit().await?;
        let id = TokenId::parse_or_unknown(id);
        // The grant of a token never changes.
        let is_managed =
            client.is_admin() || store.get_token(id).await?.is_some_and(|token| may_manage(client, &token.grant));
        if !is_managed {
            return Ok(());
        }
        self.run_to_completion(async move { Ok(store.delete_token(id).await?) }).await
    }

    /// Returns the token that a request presents, for its authentication.
    pub async fn find_token(&self, caller: &Caller, id: TokenId) -> Result<Option<TokenRecord>, Error> {
        let store = self.store.authorize(caller, Action::FindToken, Resource::Store)?.admit().await?;
        Ok(store.get_token(id).await?)
    }
}

/// Refuses a token in place of its id. Deleting an unknown id succeeds, and the token would stay
/// valid.
fn refuse_token(id: &str) -> Result<(), Error> {
    if id.starts_with(TOKEN_PREFIX) { Err(InvalidToken::WholeToken.into()) } else { Ok(()) }
}

/// Returns whether the client manages tokens with this grant.
fn may_manage(client: &Client, grant: &TokenGrant) -> bool {
    let is_own = |project: &ProjectId| *project == client.project;
    client.is_admin() || grant.project.as_ref().is_some_and(is_own)
}

/// Returns whether the client may give all these roles to a token.
fn may_give(client: &Client, roles: &[String]) -> bool {
    let has = |role: &str| client.roles.iter().any(|own| own.eq_ignore_ascii_case(role));
    let is_manager = has(MANAGER);
    let is_included = |role: &String| is_manager && ROLES_OF_MANAGERS.iter().any(|own| own.eq_ignore_ascii_case(role));
    client.is_admin() || roles.iter().all(|role| has(role) || is_included(role))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(roles: &[&str]) -> Client {
        Client::of_test("own", roles)
    }

    fn grant(project: Option<&str>) -> TokenGrant {
        TokenGrant { name: String::new(), project: project.and_then(ProjectId::new), roles: Vec::new() }
    }

    #[test]
    fn only_admins_manage_tokens_of_other_projects_and_of_all() {
        for (roles, project, may) in [
            ("admin", Some("other"), true),
            ("admin", None, true),
            ("manager", Some("own"), true),
            ("manager", Some("other"), false),
            ("manager", None, false),
        ] {
            assert_eq!(may_manage(&client(&[roles]), &grant(project)), may, "{roles} {project:?}");
        }
    }

    #[test]
    fn only_own_roles_and_those_that_they_include_can_be_given() {
        let may = |own: &[&str], given: &[&str]| {
            may_give(&client(own), &given.iter().map(|&role| role.to_owned()).collect::<Vec<_>>())
        };

        assert!(may(&["Admin"], &["admin", "anything"]));
        assert!(may(&["manager"], &["manager", "worker", "Producer", "reader"]));
        assert!(may(&["manager", "billing"], &["billing"]));
        for (own, given) in [("manager", "admin"), ("manager", "billing"), ("worker", "reader"), ("producer", "worker")]
        {
            assert!(!may(&[own], &[given]), "{own} gives {given}");
        }
        assert!(!may(&["manager"], &["worker", "admin"]));
    }
}
