//! The strategy `tokens`: API keys that the service itself has issued.
//!
//! Tokens that exist are cached for a short time, so a deleted token is soon refused by all
//! processes. Ids without a token have a cache of their own, and few of them are looked up at the
//! same time. So invented tokens neither displace valid ones nor burden the store.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::token::TokenStrategy;
use crate::auth::{AuthenticationError, Caller, Identity};
use crate::broker::{self, Broker};
use crate::domain::{Token, TokenHash, TokenId, TokenRecord};

/// Time after its lookup for which a token is valid without another one. A deletion must take effect
/// within five seconds, and event streams present their tokens again only once a second.
const VALID_FOR: Duration = Duration::from_secs(2);
/// Time for which an id without a token is not looked up again.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);
/// Maximum number of tokens that are cached.
const VALID_MAX: usize = 10_000;
/// Maximum number of ids without a token that are cached.
const UNKNOWN_MAX: usize = 10_000;
/// Maximum number of lookups in flight, of tokens that were valid before.
const LOOKUPS_OF_KNOWN_MAX: usize = 64;
/// Maximum number of other lookups in flight.
const LOOKUPS_OF_NEW_MAX: usize = 16;
/// Maximum number of lookups that wait or are in flight, beyond which only those of tokens that were
/// valid before are accepted.
const LOOKUPS_MAX: usize = 1_000;
/// Maximum time that a request waits for a lookup.
const LOOKUP_WAIT_MAX: Duration = Duration::from_secs(2);
/// The role of the token that the operator has configured.
const ADMIN: &str = "admin";

/// Finds a token in the store.
type Find = dyn Fn(TokenId) -> BoxFuture<'static, Result<Option<TokenRecord>, broker::Error>> + Send + Sync;
/// The outcome of a lookup, or why there is none.
type Outcome = Result<Option<Arc<Known>>, String>;
type Lookup = Shared<BoxFuture<'static, Outcome>>;

/// Verifies tokens. Clones share their caches.
#[derive(Clone)]
pub struct Tokens(Arc<Parts>);

struct Parts {
    find: Box<Find>,
    /// The token that the operator has configured, which is valid without being stored.
    admin: Option<(TokenId, TokenHash)>,
    valid: Cache<TokenId, Arc<Known>>,
    /// When an id without a token may be looked up again.
    unknown: Cache<TokenId, Instant>,
    lookups: Mutex<HashMap<TokenId, Lookup>>,
    turns_of_known: Semaphore,
    turns_of_new: Semaphore,
}

/// A token that existed when it was looked up.
struct Known {
    hash: TokenHash,
    identity: Identity,
    valid_until: Instant,
}

impl Tokens {
    /// Verifies the tokens that the broker has issued, and the one that the operator has configured,
    /// whose holder is an admin.
    #[must_use]
    pub fn new(broker: Broker, admin: Option<&Token>) -> Self {
        let find = move |id| {
            let broker = broker.clone();
            async move { broker.find_token(&Caller::System, id).await }.boxed()
        };
        Self::over(Box::new(find), admin)
    }

    fn over(find: Box<Find>, admin: Option<&Token>) -> Self {
        Self(Arc::new(Parts {
            find,
            admin: admin.map(|admin| (admin.id(), admin.hash())),
            valid: Cache::new(VALID_MAX),
            unknown: Cache::new(UNKNOWN_MAX),
            lookups: Mutex::default(),
            turns_of_known: Semaphore::new(LOOKUPS_OF_KNOWN_MAX),
            turns_of_new: Semaphore::new(LOOKUPS_OF_NEW_MAX),
        }))
    }

    /// Returns what the token proves.
    pub async fn identify(&self, token: &str) -> Result<Identity, AuthenticationError> {
        let malformed = || AuthenticationError::Refused("The token is not of the form skt_ID_SECRET.".to_owned());
        let token = Token::parse(token).ok_or_else(malformed)?;
        let refused = || {
            let reason = "The token is not valid. It may have expired or have been deleted.";
            AuthenticationError::Refused(reason.to_owned())
        };
        if let Some((id, hash)) = &self.0.admin
            && *id == token.id()
        {
            return if token.matches(hash) { Ok(admin(*id)) } else { Err(refused()) };
        }
        let outcome = match self.0.cached(token.id()) {
            Some(outcome) => outcome,
            None => self.look_up(token.id()).await,
        };
        let known = outcome
            .map_err(AuthenticationError::Unavailable)?
            .filter(|known| token.matches(&known.hash))
            .ok_or_else(refused)?;
        Ok(known.identity.clone())
    }

    /// Finds a token in the store. Concurrent requests share one lookup, which goes on if they disconnect.
    async fn look_up(&self, id: TokenId) -> Outcome {
        let lookup = {
            let mut lookups = self.0.lock();
            if let Some(running) = lookups.get(&id) {
                running.clone()
            } else {
                let was_valid = self.0.valid.peek(&id).is_some();
                if !was_valid && lookups.len() >= LOOKUPS_MAX {
                    return Err("too many requests present unknown tokens".to_owned());
                }
                lookups.entry(id).or_insert(self.start_lookup(id, was_valid)).clone()
            }
        };
        let late = |_| Err("the store has not returned a token in time".to_owned());
        timeout(LOOKUP_WAIT_MAX, lookup).await.unwrap_or_else(late)
    }

    fn start_lookup(&self, id: TokenId, was_valid: bool) -> Lookup {
        let parts = self.0.clone();
        let task = tokio::spawn(async move {
            let running = Running { parts, id };
            let parts = &running.parts;
            let turns = if was_valid { &parts.turns_of_known } else { &parts.turns_of_new };
            let _turn = turns.acquire().await.map_err(|error| error.to_string())?;
            let start = Instant::now();
            let found = (parts.find)(id).await.map_err(|error| error.to_string())?;
            Ok(parts.remember(id, found, start))
        });
        task.map(|outcome| outcome.unwrap_or_else(|error| Err(error.to_string()))).boxed().shared()
    }
}

impl TokenStrategy for Tokens {
    fn identify<'a>(
        &'a self,
        token: &'a str,
        _service_token: Option<&'a str>,
    ) -> Pin<Box<dyn Future<Output = Result<Identity, AuthenticationError>> + Send + 'a>> {
        Box::pin(Self::identify(self, token))
    }
}

/// A lookup that has not ended.
struct Running {
    parts: Arc<Parts>,
    id: TokenId,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.parts.lock().remove(&self.id);
    }
}

impl Parts {
    /// Returns the outcome of the last lookup; `None` if there was none recently.
    fn cached(&self, id: TokenId) -> Option<Outcome> {
        if let Some(known) = self.valid.get(&id) {
            return (Instant::now() < known.valid_until).then_some(Ok(Some(known)));
        }
        self.unknown.get(&id).filter(|until| Instant::now() < *until).map(|_| Ok(None))
    }

    /// Remembers the outcome of a lookup that began at this time.
    fn remember(&self, id: TokenId, found: Option<TokenRecord>, start: Instant) -> Option<Arc<Known>> {
        let Some(token) = found else {
            self.valid.remove(&id);
            self.unknown.insert(id, start + UNKNOWN_FOR);
            return None;
        };
        let known = Arc::new(Known {
            hash: token.hash,
            valid_until: start + token.life_left.map_or(VALID_FOR, |life_left| life_left.min(VALID_FOR)),
            identity: Identity {
                subject: subject(id),
                project: token.grant.project,
                roles: token.grant.roles,
                expires_at: token.life_left.and_then(|life_left| SystemTime::now().checked_add(life_left)),
            },
        });
        self.valid.insert(id, known.clone());
        Some(known)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TokenId, Lookup>> {
        self.lookups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn admin(id: TokenId) -> Identity {
    Identity { subject: subject(id), project: None, roles: vec![ADMIN.to_owned()], expires_at: None }
}

fn subject(id: TokenId) -> String {
    format!("token:{id}")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;
    use crate::broker::StoreError;
    use crate::domain::{ProjectId, TokenGrant};

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
        while tokens.0.lock().len() < LOOKUPS_MAX {
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
        while !tokens.0.lock().is_empty() {
            yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_caches_are_bounded_and_invented_tokens_displace_no_valid_one() {
        let store = Store::new(1);
        let (tokens, token) = (store.tokens(None), text(&store.issue(None)));
        assert!(tokens.identify(&token).await.is_ok());

        for _ in 0..UNKNOWN_MAX + 100 {
            assert!(is_refused(&tokens, &text(&Token::random())).await);
        }

        let before = store.lookups();
        assert!(tokens.identify(&token).await.is_ok());
        assert_eq!(store.lookups(), before);
        assert!(tokens.0.unknown.len() <= UNKNOWN_MAX && tokens.0.valid.len() == 1);
    }
}
