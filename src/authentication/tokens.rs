//! The strategy `tokens`: API keys that the service itself has issued.
//!
//! Tokens that exist are cached for a short time, so a deleted token is soon refused by all
//! processes. Few ids without a token are looked up at the same time, so invented tokens do not
//! burden the store.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::lookups::{Bounds, Lookups};
use super::token::TokenStrategy;
use crate::auth::{AuthenticationError, Caller, Identity};
use crate::broker::{self, Broker};
use sukkal_domain::{Token, TokenHash, TokenId, TokenRecord};

/// Time after its lookup for which a token is valid without another one. A deletion must take
/// effect within five seconds, and event streams present their tokens again only once a second.
const VALID_FOR: Duration = Duration::from_secs(2);
/// Time for which an id without a token is not looked up again.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);
/// Maximum number of lookups in flight, of tokens that were valid before.
const LOOKUPS_OF_KNOWN_MAX: usize = 64;
/// Maximum number of other lookups in flight.
const LOOKUPS_OF_NEW_MAX: usize = 16;
/// Maximum number of lookups that wait or are in flight, beyond which only those of tokens that
/// were valid before are accepted.
const LOOKUPS_MAX: usize = 1_000;
/// Maximum time that a request waits for a lookup.
const LOOKUP_WAIT_MAX: Duration = Duration::from_secs(2);
/// The role of the token that the operator has configured.
const ADMIN: &str = "admin";

/// Finds a token in the store.
type Find = dyn Fn(TokenId) -> BoxFuture<'static, Result<Option<TokenRecord>, broker::Error>> + Send + Sync;

/// Verifies tokens. Clones share their caches.
#[derive(Clone)]
pub struct Tokens(Arc<TokenParts>);

struct TokenParts {
    find: Box<Find>,
    /// The token that the operator has configured, which is valid without being stored.
    admin: Option<(TokenId, TokenHash)>,
    lookups: Lookups<TokenId, Known>,
    permits_for_known: Semaphore,
    permits_for_new: Semaphore,
}

/// A token that existed when it was looked up.
struct Known {
    hash: TokenHash,
    identity: Identity,
}

impl Tokens {
    /// Verifies the tokens that the broker has issued, and the one that the operator has
    /// configured, whose holder is an admin.
    #[must_use]
    pub fn new(broker: Broker, admin: Option<&Token>) -> Self {
        let find = move |id| {
            let broker = broker.clone();
            async move { broker.find_token(&Caller::System, id).await }.boxed()
        };
        Self::over(Box::new(find), admin)
    }

    fn over(find: Box<Find>, admin: Option<&Token>) -> Self {
        Self(Arc::new(TokenParts {
            find,
            admin: admin.map(|admin| (admin.id(), admin.hash())),
            lookups: Lookups::new(Bounds {
                refused_for: UNKNOWN_FOR,
                lookups_max: LOOKUPS_MAX,
                wait_max: LOOKUP_WAIT_MAX,
                too_many: "too many requests present unknown tokens",
                late: "the store has not returned a token in time",
            }),
            permits_for_known: Semaphore::new(LOOKUPS_OF_KNOWN_MAX),
            permits_for_new: Semaphore::new(LOOKUPS_OF_NEW_MAX),
        }))
    }

    /// Returns what the token proves.
    pub async fn identify(&self, token: &str) -> Result<Identity, AuthenticationError> {
        let malformed = || AuthenticationError::Refused("The token is not of the form skt_ID_SECRET.".to_owned());
        let token = Token::parse(token).ok_or_else(malformed)?;
        let id = token.id();
        if let Some((admin_id, hash)) = &self.0.admin
            && *admin_id == id
        {
            return if token.matches(hash) { Ok(admin(id)) } else { Err(refused()) };
        }
        let look_up = |was_valid| self.0.clone().look_up(id, was_valid);
        let known = self.0.lookups.get(id, look_up).await?;
        if token.matches(&known.hash) { Ok(known.identity.clone()) } else { Err(refused()) }
    }
}

#[async_trait]
impl TokenStrategy for Tokens {
    async fn identify(&self, token: &str, _service_token: Option<&str>) -> Result<Identity, AuthenticationError> {
        self.identify(token).await
    }
}

impl TokenParts {
    /// Finds a token in the store, and returns until when it is valid without another lookup.
    async fn look_up(self: Arc<Self>, id: TokenId, was_valid: bool) -> Result<(Known, Instant), AuthenticationError> {
        let permits = if was_valid { &self.permits_for_known } else { &self.permits_for_new };
        let _permit = permits.acquire().await.expect("the semaphore is never closed");
        let start = Instant::now();
        let found = (self.find)(id).await.map_err(|error| AuthenticationError::Unavailable(error.to_string()))?;
        let token = found.ok_or_else(refused)?;
        let identity = Identity {
            subject: subject(id),
            project: token.grant.project,
            roles: token.grant.roles,
            expires_at: token.life_left.and_then(|life_left| SystemTime::now().checked_add(life_left)),
        };
        let valid_for = token.life_left.map_or(VALID_FOR, |life_left| life_left.min(VALID_FOR));
        Ok((Known { hash: token.hash, identity }, start + valid_for))
    }
}

fn refused() -> AuthenticationError {
    AuthenticationError::Refused("The token is not valid. It may have expired or have been deleted.".to_owned())
}

fn admin(id: TokenId) -> Identity {
    Identity { subject: subject(id), project: None, roles: vec![ADMIN.to_owned()], expires_at: None }
}

fn subject(id: TokenId) -> String {
    format!("token:{id}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::super::lookups::REMEMBERED_MAX;
    use super::*;
    use crate::broker::StoreError;
    use sukkal_domain::{ProjectId, TokenGrant};

    /// A store whose lookups can be stopped and counted.
    struct Store {
        records: Mutex<HashMap<TokenId, TokenRecord>>,
        lookups: AtomicUsize,
        is_down: AtomicBool,
        permits: Semaphore,
    }

    impl Store {
        fn new(permits: usize) -> Arc<Self> {
            let permits = Semaphore::new(permits);
            Arc::new(Self { records: Mutex::default(), lookups: AtomicUsize::new(0), is_down: false.into(), permits })
        }

        fn tokens(self: &Arc<Self>, admin: Option<&Token>) -> Tokens {
            let store = self.clone();
            Tokens::over(Box::new(move |id| store.clone().find(id).boxed()), admin)
        }

        async fn find(self: Arc<Self>, id: TokenId) -> Result<Option<TokenRecord>, broker::Error> {
            self.lookups.fetch_add(1, Ordering::SeqCst);
            let _permit = self.permits.acquire().await.unwrap();
            if self.is_down.load(Ordering::SeqCst) {
                return Err(StoreError::Unavailable("it is down".to_owned()).into());
            }
            Ok(self.records.lock().unwrap().get(&id).cloned())
        }

        fn issue(&self, life_left: Option<Duration>) -> Token {
            let token = Token::random();
            let (project, roles) = (ProjectId::new("p"), vec!["worker".to_owned()]);
            let grant = TokenGrant { name: "n".to_owned(), project, roles };
            let (id, hash) = (token.id(), token.hash());
            let record = TokenRecord { id, grant, hash, created_s: 1, expires_s: None, life_left };
            self.records.lock().unwrap().insert(id, record);
            token
        }

        fn lookups(&self) -> usize {
            self.lookups.load(Ordering::SeqCst)
        }
    }

    fn text(token: &Token) -> String {
        token.reveal().to_string()
    }

    /// Returns a token with the id of another one, and another secret.
    fn with_other_secret(token: &Token) -> String {
        let (own, other) = (text(token), text(&Token::random()));
        format!("{}{}", &own[..41], &other[41..])
    }

    async fn is_refused(tokens: &Tokens, token: &str) -> bool {
        matches!(tokens.identify(token).await, Err(AuthenticationError::Refused(_)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_proves_its_grant_and_needs_its_secret() {
        let store = Store::new(1);
        let (tokens, token) = (store.tokens(None), store.issue(Some(Duration::from_secs(60))));

        let identity = tokens.identify(&text(&token)).await.unwrap();

        assert_eq!((identity.subject, identity.project), (format!("token:{}", token.id()), ProjectId::new("p")));
        assert_eq!(identity.roles, ["worker"]);
        assert!(identity.expires_at.unwrap() > SystemTime::now());
        assert!(is_refused(&tokens, &with_other_secret(&token)).await);
        assert_eq!(store.lookups(), 1, "a wrong secret costs no lookup");
        for malformed in ["skt_", "skt_a_b", &format!("{}x", text(&token)), &"skt_".repeat(100_000)] {
            assert!(is_refused(&tokens, malformed).await);
        }
        assert_eq!(store.lookups(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_share_a_lookup_and_a_deleted_token_is_soon_refused() {
        let store = Store::new(1);
        let (tokens, token) = (store.tokens(None), store.issue(None));
        let token = text(&token);

        let outcomes = join_all((0..100).map(|_| tokens.identify(&token))).await;
        assert!(outcomes.iter().all(Result::is_ok));
        assert_eq!(store.lookups(), 1);

        store.records.lock().unwrap().clear();
        advance(VALID_FOR).await;
        assert!(is_refused(&tokens, &token).await);
        assert_eq!(store.lookups(), 2);
        assert!(is_refused(&tokens, &token).await);
        assert_eq!(store.lookups(), 2, "it is known to be deleted");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_not_valid_beyond_its_expiry() {
        let store = Store::new(1);
        let (tokens, token) = (store.tokens(None), store.issue(Some(Duration::from_millis(300))));
        assert!(tokens.identify(&text(&token)).await.is_ok());

        store.records.lock().unwrap().clear();
        advance(Duration::from_millis(300)).await;

        assert!(is_refused(&tokens, &text(&token)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn during_an_outage_cached_tokens_go_on_and_others_are_unavailable() {
        let store = Store::new(1);
        let operator = Token::random();
        let (tokens, [used, unused]) = (store.tokens(Some(&operator)), [store.issue(None), store.issue(None)]);
        assert!(tokens.identify(&text(&used)).await.is_ok());
        store.is_down.store(true, Ordering::SeqCst);

        assert!(tokens.identify(&text(&used)).await.is_ok());
        let unavailable = |outcome| matches!(outcome, Err(AuthenticationError::Unavailable(_)));
        assert!(unavailable(tokens.identify(&text(&unused)).await));
        assert_eq!(tokens.identify(&text(&operator)).await.unwrap().roles, ["admin"]);
        assert!(is_refused(&tokens, &with_other_secret(&operator)).await);
        advance(VALID_FOR).await;
        assert!(unavailable(tokens.identify(&text(&used)).await));

        store.is_down.store(false, Ordering::SeqCst);
        assert!(tokens.identify(&text(&used)).await.is_ok(), "a failure is not cached");
    }

    #[tokio::test(start_paused = true)]
    async fn invented_tokens_neither_burden_the_store_nor_delay_valid_ones() {
        let store = Store::new(1);
        let (tokens, token) = (store.tokens(None), text(&store.issue(None)));
        assert!(tokens.identify(&token).await.is_ok());
        // From now on, lookups of the store wait until they get a permit.
        let permit = store.permits.acquire().await.unwrap();
        let requests: Vec<_> = (0..2 * LOOKUPS_MAX)
            .map(|_| {
                let (tokens, invented) = (tokens.clone(), text(&Token::random()));
                tokio::spawn(async move { tokens.identify(&invented).await })
            })
            .collect();
        while tokens.0.lookups.counts()[2] < LOOKUPS_MAX {
            yield_now().await;
        }
        for _ in 0..10 * LOOKUPS_MAX {
            yield_now().await;
        }

        assert_eq!(store.lookups(), 1 + LOOKUPS_OF_NEW_MAX);
        advance(VALID_FOR).await;
        let again = tokio::spawn({
            let (tokens, token) = (tokens.clone(), token.clone());
            async move { tokens.identify(&token).await }
        });
        while store.lookups() < 2 + LOOKUPS_OF_NEW_MAX {
            yield_now().await;
        }
        drop(permit);
        assert!(again.await.unwrap().is_ok());
        for request in requests {
            assert!(request.await.unwrap().is_err());
        }
        while tokens.0.lookups.counts()[2] > 0 {
            yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_caches_are_bounded_and_invented_tokens_displace_no_valid_one() {
        let store = Store::new(1);
        let (tokens, token) = (store.tokens(None), text(&store.issue(None)));
        assert!(tokens.identify(&token).await.is_ok());

        for _ in 0..REMEMBERED_MAX + 100 {
            assert!(is_refused(&tokens, &text(&Token::random())).await);
        }

        let before = store.lookups();
        assert!(tokens.identify(&token).await.is_ok());
        assert_eq!(store.lookups(), before);
        let [valid, refused, _] = tokens.0.lookups.counts();
        assert!(refused <= REMEMBERED_MAX && valid == 1);
    }
}
