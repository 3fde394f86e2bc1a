//! The strategy `jwt` with a provider that rotates its keys and misbehaves.

use std::time::{Duration, SystemTime};

use futures::future::join_all;
use sukkal::auth::{AuthenticationError, Identity};
use sukkal::authentication::jwt::Jwt;
use tokio::time::{Instant, sleep, timeout};

use super::stub_provider::{Mood, StubProvider};
use support::waiting::advance;

/// Age at which keys are fetched again.
const REFRESH_AGE: Duration = Duration::from_secs(300);
/// Minimum time between two fetches.
const FETCH_PAUSE: Duration = Duration::from_secs(60);

/// An outcome in short.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Accepted,
    Refused,
    Unavailable,
    /// The keys are fetched again within a minute.
    NotYet,
}

fn short(outcome: &Result<Identity, AuthenticationError>) -> Outcome {
    match outcome {
        Ok(_) => Outcome::Accepted,
        Err(AuthenticationError::Refused(_) | AuthenticationError::NoProject) => Outcome::Refused,
        Err(AuthenticationError::UnknownKey(1..=60)) => Outcome::NotYet,
        Err(AuthenticationError::Unavailable(_) | AuthenticationError::UnknownKey(_)) => Outcome::Unavailable,
    }
}

async fn outcome(jwt: &Jwt, token: &str) -> Outcome {
    short(&jwt.identify(token).await)
}

#[tokio::test]
async fn a_token_proves_an_identity() {
    let provider = StubProvider::start(Mood::Well);
    let jwt = Jwt::new(provider.config()).unwrap();

    let identity = jwt.identify(&provider.token("first", "shop")).await.unwrap();

    assert_eq!((identity.subject.as_str(), identity.project.unwrap().as_str()), ("user-7", "shop"));
    assert_eq!(identity.roles, ["producer"]);
    assert!(identity.expires_at.unwrap() > SystemTime::now());
}

/// For each mood of the provider: a token while there are no keys, and later a token that names a
/// known key, one that was verified before, and one that names an unknown key.
#[tokio::test]
async fn a_provider_that_misbehaves_affects_only_unknown_keys() {
    use Outcome::{Accepted, Refused, Unavailable};
    for (mood, without_keys, unknown) in [
        (Mood::Well, Accepted, Refused),
        (Mood::Down, Unavailable, Unavailable),
        (Mood::Fails, Unavailable, Unavailable),
        (Mood::RedirectsElsewhere, Unavailable, Unavailable),
        (Mood::SendsNonsense, Unavailable, Unavailable),
        (Mood::SendsTooMuch, Unavailable, Unavailable),
        (Mood::SendsNoKeys, Unavailable, Unavailable),
        (Mood::NamesAnotherIssuer, Unavailable, Unavailable),
    ] {
        let provider = StubProvider::start(mood);
        let jwt = Jwt::new(provider.config()).unwrap();
        let token = provider.token("first", "shop");
        assert_eq!(outcome(&jwt, &token).await, without_keys, "{mood:?}");

        provider.set_mood(Mood::Well);
        let jwt = Jwt::new(provider.config()).unwrap();
        assert_eq!(outcome(&jwt, &token).await, Accepted, "{mood:?}");
        provider.set_mood(mood);

        assert_eq!(outcome(&jwt, &token).await, Accepted, "{mood:?}, verified before");
        assert_eq!(outcome(&jwt, &provider.token("first", "other")).await, Accepted, "{mood:?}, known key");
        assert_eq!(outcome(&jwt, &provider.token("unknown", "shop")).await, unknown, "{mood:?}, unknown key");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_is_waited_for_in_bounded_time() {
    let provider = StubProvider::start(Mood::Hangs);
    let jwt = Jwt::new(provider.config()).unwrap();
    let began = Instant::now();

    assert_eq!(outcome(&jwt, &provider.token("first", "shop")).await, Outcome::Unavailable);
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn keys_that_could_not_be_fetched_at_first_are_fetched_soon() {
    let provider = StubProvider::start(Mood::Down);
    let jwt = Jwt::new(provider.config()).unwrap();
    let token = provider.token("first", "shop");
    assert_eq!(outcome(&jwt, &token).await, Outcome::Unavailable);
    provider.set_mood(Mood::Well);

    advance(Duration::from_secs(5)).await;

    assert_eq!(outcome(&jwt, &token).await, Outcome::Accepted);
}

#[tokio::test]
async fn unknown_keys_cause_one_fetch_a_minute() {
    let provider = StubProvider::start(Mood::Well);
    let jwt = Jwt::new(provider.config()).unwrap();
    assert_eq!(outcome(&jwt, &provider.token("first", "shop")).await, Outcome::Accepted);
    assert_eq!(provider.fetches(), 1);
    let tokens: Vec<_> = (0..100).map(|number| provider.token(&format!("unknown-{number}"), "shop")).collect();

    for fetches in [2, 3] {
        let outcomes = join_all(tokens.iter().map(|token| outcome(&jwt, token))).await;
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Refused));
        let late = outcome(&jwt, &provider.token("late", "shop")).await;
        assert_eq!(late, Outcome::NotYet, "the key may be newer than the keys");
        assert_eq!(provider.fetches(), fetches);
        advance(FETCH_PAUSE).await;
    }
}

#[tokio::test]
async fn invented_tokens_do_not_get_tokens_of_a_new_key_refused() {
    let provider = StubProvider::start(Mood::Well);
    let jwt = Jwt::new(provider.config()).unwrap();
    assert_eq!(outcome(&jwt, &provider.token("first", "shop")).await, Outcome::Accepted);

    // A token whose claims are wrong causes no fetch.
    let expired = SystemTime::now() - Duration::from_secs(1);
    assert_eq!(outcome(&jwt, &provider.token_until("unknown", "shop", expired)).await, Outcome::Refused);
    assert_eq!(provider.fetches(), 1);

    assert_eq!(outcome(&jwt, &provider.token("unknown", "shop")).await, Outcome::Refused);
    provider.add_key("second");
    let new = provider.token("second", "shop");
    assert_eq!(outcome(&jwt, &new).await, Outcome::NotYet, "the client tries again");
    assert_eq!(provider.fetches(), 2);
    advance(FETCH_PAUSE).await;
    assert_eq!(outcome(&jwt, &new).await, Outcome::Accepted);
}

#[tokio::test]
async fn a_token_that_names_no_key_needs_an_issuer_with_one_key() {
    let provider = StubProvider::start(Mood::Well);
    let token = provider.token("", "shop");
    let one_key = Jwt::new(provider.config()).unwrap();
    assert_eq!(outcome(&one_key, &token).await, Outcome::Accepted);
    provider.add_key("second");

    let two_keys = Jwt::new(provider.config()).unwrap();
    let Err(AuthenticationError::Refused(reason)) = two_keys.identify(&token).await else { panic!("two keys fit") };

    assert!(reason.starts_with("the token names no key (kid in its header), so"), "{reason}");
}

#[tokio::test]
async fn keys_rotate_without_an_outage() {
    let provider = StubProvider::start(Mood::Well);
    let jwt = Jwt::new(provider.config()).unwrap();
    let old = provider.token("first", "shop");
    assert_eq!(outcome(&jwt, &old).await, Outcome::Accepted);

    provider.add_key("second");
    let new = provider.token("second", "shop");
    assert_eq!(outcome(&jwt, &new).await, Outcome::Accepted, "the key is fetched at once");
    assert_eq!(outcome(&jwt, &old).await, Outcome::Accepted);

    provider.withdraw_old_keys();
    advance(REFRESH_AGE).await;
    let withdrawn = async {
        // The fetch runs in the background.
        while outcome(&jwt, &old).await != Outcome::Refused {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), withdrawn).await.expect("a withdrawn key is not used any more");
    assert_eq!(outcome(&jwt, &new).await, Outcome::Accepted);
}

#[tokio::test]
async fn a_verified_token_is_not_accepted_after_its_end() {
    let provider = StubProvider::start(Mood::Well);
    let jwt = Jwt::new(provider.config()).unwrap();
    let end = SystemTime::now() + Duration::from_secs(3);
    let token = provider.token_until("first", "shop", end);
    assert_eq!(outcome(&jwt, &token).await, Outcome::Accepted);

    sleep(end.duration_since(SystemTime::now()).unwrap_or_default() + Duration::from_millis(1)).await;

    assert_eq!(outcome(&jwt, &token).await, Outcome::Refused);
}

#[tokio::test]
async fn keys_can_be_in_a_file_which_is_read_again() {
    let provider = StubProvider::start(Mood::Down);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), provider.jwks().to_string()).unwrap();
    let config = || {
        let mut config = provider.config();
        config.jwks = file.path().to_str().unwrap().to_owned();
        config
    };
    let jwt = Jwt::new(config()).unwrap();
    assert_eq!(outcome(&jwt, &provider.token("first", "shop")).await, Outcome::Accepted);

    provider.add_key("second");
    std::fs::write(file.path(), provider.jwks().to_string()).unwrap();
    assert_eq!(outcome(&jwt, &provider.token("second", "shop")).await, Outcome::Accepted);
    assert_eq!(provider.stub.requests().len(), 0);

    for (text, expected) in [("{}", "not a JSON Web Key Set"), ("{\"keys\": []}", "no key that can verify")] {
        std::fs::write(file.path(), text).unwrap();
        let error = Jwt::new(config()).err().unwrap();
        assert!(error.starts_with("jwt.jwks: ") && error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_configuration_that_accepts_no_token_is_refused() {
    let provider = StubProvider::start(Mood::Well);
    let error = |change: fn(&mut sukkal_domain::JwtConfig)| {
        let mut config = provider.config();
        change(&mut config);
        Jwt::new(config).err().unwrap()
    };

    assert!(error(|config| config.issuer.clear()).starts_with("jwt.issuer is empty"));
    assert!(error(|config| config.audience.clear()).starts_with("jwt.audience is empty"));
    assert!(error(|config| config.algorithms.clear()).starts_with("jwt.algorithms is empty"));
    assert!(error(|config| "me".clone_into(&mut config.issuer)).starts_with("jwt.jwks is empty"));
}

#[tokio::test]
async fn huge_and_malformed_tokens_are_refused_without_a_fetch() {
    let provider = StubProvider::start(Mood::Well);
    let jwt = Jwt::new(provider.config()).unwrap();
    assert_eq!(outcome(&jwt, &provider.token("first", "shop")).await, Outcome::Accepted);
    let huge = format!("{}{}", provider.token("first", "shop"), "A".repeat(16 * 1024));

    for token in [huge.as_str(), "", "a.b.c", "skt_1_2", "ä"] {
        let error = jwt.identify(token).await.unwrap_err();
        assert!(matches!(error, AuthenticationError::Refused(_)), "{error:?}");
    }
    assert_eq!(provider.fetches(), 1);
}
