//! The strategy `keystone` with a Keystone that is slow, down, lies and rotates.

use std::time::{Duration, SystemTime};

use futures::future::join_all;
use serde_json::json;
use sukkal::auth::{AuthenticationError, Identity};
use sukkal::authentication::keystone::Keystone;
use tokio::time::{Instant, sleep, timeout};

use super::stub_keystone::{Mood, PASSWORD, StubKeystone, described, described_until};
use support::waiting::advance;

const HOUR: Duration = Duration::from_secs(3_600);
/// Time for which a valid token is accepted without asking Keystone again.
const VALID_AGE_MAX: Duration = Duration::from_secs(300);
/// Time for which a token stays refused.
const REFUSED_AGE_MAX: Duration = Duration::from_secs(30);
/// Maximum time to validate a token.
const VALIDATION_DURATION_MAX: Duration = Duration::from_secs(10);
/// Minimum time between two logins.
const LOGIN_PAUSE: Duration = Duration::from_secs(5);

/// An outcome in short.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Accepted,
    Refused,
    NoProject,
    Unavailable,
}

fn short(outcome: &Result<Identity, AuthenticationError>) -> Outcome {
    match outcome {
        Ok(_) => Outcome::Accepted,
        Err(AuthenticationError::Refused(_)) => Outcome::Refused,
        Err(AuthenticationError::NoProject) => Outcome::NoProject,
        Err(AuthenticationError::Unavailable(_) | AuthenticationError::UnknownKey(_)) => Outcome::Unavailable,
    }
}

async fn outcome(keystone: &Keystone, token: &str) -> Outcome {
    short(&keystone.identify(token, None).await)
}

/// Starts a Keystone with the tokens `known`, `fresh` and `other` of the project `shop`.
fn start() -> (StubKeystone, Keystone) {
    let stub = StubKeystone::start();
    for token in ["known", "fresh", "other"] {
        stub.issue(token, described("user-7", Some("shop"), &["member", "reader"], HOUR));
    }
    let keystone = Keystone::new(stub.config()).unwrap();
    (stub, keystone)
}

#[tokio::test]
async fn a_token_proves_an_identity() {
    let (_stub, keystone) = start();

    let identity = keystone.identify(" known ", None).await.unwrap();

    assert_eq!((identity.subject.as_str(), identity.project.unwrap().as_str()), ("user-7", "shop"));
    assert_eq!(identity.roles, ["member", "reader"]);
    assert!(identity.expires_at.unwrap() > SystemTime::now());
    assert_eq!(keystone.public_uri(), "https://keystone.example.com");
}

/// For each mood of Keystone: a token that was validated before, one that was not, and one that is
/// not valid.
#[tokio::test]
async fn a_keystone_that_misbehaves_affects_only_tokens_that_are_not_cached() {
    use Outcome::{Accepted, Refused, Unavailable};
    for (mood, fresh, invalid) in [
        (Mood::Well, Accepted, Refused),
        (Mood::Down, Unavailable, Unavailable),
        (Mood::Fails, Unavailable, Unavailable),
        (Mood::Forbids, Unavailable, Unavailable),
        (Mood::RedirectsElsewhere, Unavailable, Unavailable),
        (Mood::RefusesService, Unavailable, Unavailable),
        (Mood::SendsNonsense, Unavailable, Unavailable),
        (Mood::SendsTooMuch, Unavailable, Unavailable),
        (Mood::SendsNothing, Unavailable, Unavailable),
        (Mood::DescribesAnotherToken, Unavailable, Refused),
        (Mood::HasNoEnd, Unavailable, Refused),
        (Mood::HasAnInvalidProject, Unavailable, Refused),
    ] {
        let (stub, keystone) = start();
        assert_eq!(outcome(&keystone, "known").await, Accepted, "{mood:?}");
        stub.set_mood(mood);

        assert_eq!(outcome(&keystone, "known").await, Accepted, "{mood:?}, cached");
        assert_eq!(outcome(&keystone, "fresh").await, fresh, "{mood:?}, not cached");
        assert_eq!(outcome(&keystone, "invalid").await, invalid, "{mood:?}, not valid");

        stub.set_mood(Mood::Well);
        advance(LOGIN_PAUSE).await;
        assert_eq!(outcome(&keystone, "other").await, Accepted, "{mood:?}, recovered");
        assert_eq!(outcome(&keystone, "fresh").await, Accepted, "{mood:?}, an outage is not cached");
    }
}

#[tokio::test(start_paused = true)]
async fn a_keystone_that_hangs_is_waited_for_in_bounded_time() {
    let (stub, keystone) = start();
    stub.set_mood(Mood::Hangs);
    let began = Instant::now();

    let outcomes = join_all(["known", "fresh", "other", "known"].map(|token| outcome(&keystone, token))).await;

    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Unavailable));
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn invented_tokens_do_not_keep_out_a_token_that_was_valid_before() {
    let (stub, keystone) = start();
    assert_eq!(outcome(&keystone, "known").await, Outcome::Accepted);
    advance(VALID_AGE_MAX).await;
    stub.set_mood(Mood::HangsForInvalid);
    // More than are validated at the same time.
    let invented: Vec<_> = (0..1_100)
        .map(|number| {
            let keystone = keystone.clone();
            tokio::spawn(async move { outcome(&keystone, &format!("invented-{number}")).await })
        })
        .collect();
    let all_hang = async {
        while stub.validations() < 1 + 64 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(5), all_hang).await.expect("Keystone gets as many requests as are allowed");

    assert_eq!(outcome(&keystone, "known").await, Outcome::Accepted);
    assert_eq!(outcome(&keystone, "fresh").await, Outcome::Unavailable, "it cannot be told from invented ones");
    assert_eq!(stub.validations(), 1 + 64 + 1);
    advance(VALIDATION_DURATION_MAX).await;
    for request in invented {
        assert_eq!(request.await.unwrap(), Outcome::Unavailable);
    }
}

#[tokio::test]
async fn a_token_of_the_service_user_that_is_not_valid_any_more_is_renewed() {
    let (stub, keystone) = start();
    assert_eq!(outcome(&keystone, "known").await, Outcome::Accepted);
    advance(LOGIN_PAUSE).await;
    stub.revoke_service();

    let outcomes = join_all(["fresh", "other", "invalid"].map(|token| outcome(&keystone, token))).await;

    assert_eq!(outcomes, [Outcome::Accepted, Outcome::Accepted, Outcome::Refused]);
    assert_eq!(stub.logins(), 2, "requests share a login");
}

#[tokio::test]
async fn a_wrong_password_is_not_tried_for_each_request() {
    let (stub, keystone) = start();
    stub.set_password("another password");

    for number in 0..10 {
        assert_eq!(outcome(&keystone, &format!("token-{number}")).await, Outcome::Unavailable);
    }
    assert_eq!(stub.logins(), 1);

    stub.set_password(PASSWORD);
    advance(LOGIN_PAUSE).await;
    assert_eq!(outcome(&keystone, "known").await, Outcome::Accepted);
    assert_eq!((stub.logins(), stub.validations()), (2, 1));
}

#[tokio::test]
async fn a_token_has_one_validation_at_a_time_and_its_outcome_is_remembered() {
    let (stub, keystone) = start();

    let outcomes = join_all((0..50).map(|_| outcome(&keystone, "known"))).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Accepted));
    join_all((0..50).map(|_| outcome(&keystone, "invalid"))).await;
    assert_eq!((stub.logins(), stub.validations()), (1, 2));

    stub.revoke("known");
    stub.issue("invalid", described("user-7", Some("shop"), &[], HOUR));
    advance(REFUSED_AGE_MAX).await;
    assert_eq!(outcome(&keystone, "known").await, Outcome::Accepted);
    assert_eq!(outcome(&keystone, "invalid").await, Outcome::Accepted);
    advance(VALID_AGE_MAX.saturating_sub(REFUSED_AGE_MAX)).await;
    assert_eq!(outcome(&keystone, "known").await, Outcome::Refused);
    assert_eq!(stub.validations(), 4);
}

#[tokio::test]
async fn a_validation_goes_on_without_the_request_that_began_it() {
    let (stub, keystone) = start();
    {
        let first = keystone.identify("known", None);
        tokio::pin!(first);
        // The first poll begins the validation.
        assert!(futures::poll!(first.as_mut()).is_pending());
    }

    assert_eq!(outcome(&keystone, "known").await, Outcome::Accepted);
    assert_eq!(stub.validations(), 1);
}

#[tokio::test]
async fn a_remembered_token_is_not_accepted_after_its_end() {
    let (stub, keystone) = start();
    let end = SystemTime::now() + Duration::from_secs(3);
    stub.issue("short", described_until("user-7", Some("shop"), &[], end));
    assert_eq!(outcome(&keystone, "short").await, Outcome::Accepted);

    sleep(end.duration_since(SystemTime::now()).unwrap_or_default() + Duration::from_millis(1)).await;

    assert_eq!(outcome(&keystone, "short").await, Outcome::Refused);
}

#[tokio::test]
async fn an_expired_token_is_accepted_beside_the_token_of_a_service() {
    let (stub, keystone) = start();
    stub.issue("expired", described_until("user-7", Some("shop"), &["member"], SystemTime::now() - HOUR));
    stub.issue("service", described("heat", None, &["service"], HOUR));
    stub.issue("member", described("heat", Some("services"), &["member"], HOUR));
    stub.issue("unscoped", described("user-7", None, &[], HOUR));

    for (token, service_token, expected) in [
        ("known", "service", Outcome::Accepted),
        ("known", "member", Outcome::Accepted),
        ("known", "invalid", Outcome::Refused),
        ("expired", "service", Outcome::Accepted),
        ("expired", "member", Outcome::Refused),
        ("expired", "invalid", Outcome::Refused),
        ("expired", "expired", Outcome::Refused),
        ("invalid", "service", Outcome::Refused),
        ("unscoped", "service", Outcome::NoProject),
    ] {
        let outcome = short(&keystone.identify(token, Some(service_token)).await);
        assert_eq!(outcome, expected, "{token} with {service_token}");
    }
    assert_eq!(outcome(&keystone, "expired").await, Outcome::Refused);

    let identity = keystone.identify("expired", Some("service")).await.unwrap();
    assert_eq!((identity.subject.as_str(), identity.project.unwrap().as_str()), ("user-7", "shop"));
    assert!(identity.expires_at.unwrap() > SystemTime::now(), "it is valid as long as that of the service");
}

#[tokio::test]
async fn tokens_without_a_project_and_with_access_rules_are_not_accepted() {
    let (stub, keystone) = start();
    stub.issue("unscoped", described("user-7", None, &[], HOUR));
    let mut restricted = described("user-7", Some("shop"), &["member"], HOUR);
    restricted["token"]["application_credential"] = json!({ "id": "a", "access_rules": null });
    stub.issue("unrestricted", restricted.clone());
    restricted["token"]["application_credential"]["access_rules"] = json!([]);
    stub.issue("restricted", restricted);

    assert_eq!(outcome(&keystone, "unscoped").await, Outcome::NoProject);
    assert_eq!(outcome(&keystone, "unrestricted").await, Outcome::Accepted);
    assert_eq!(outcome(&keystone, "restricted").await, Outcome::Refused);
}

#[tokio::test]
async fn text_that_is_no_token_is_refused_without_a_request() {
    let (stub, keystone) = start();
    let huge = "x".repeat(8 * 1024 + 1);

    for token in ["", " ", "a b", "a\r\nX-Auth-Token: b", "ä", &huge] {
        assert_eq!(outcome(&keystone, token).await, Outcome::Refused, "{token:.20}");
    }
    assert_eq!(stub.stub.requests().len(), 0);
}

#[tokio::test]
async fn errors_show_neither_tokens_nor_the_password() {
    let (stub, keystone) = start();
    let config = format!("{:?}", stub.config());
    assert!(!config.contains(PASSWORD), "{config}");

    for mood in [Mood::Well, Mood::SendsNonsense, Mood::DescribesAnotherToken, Mood::RefusesService] {
        stub.set_mood(mood);
        let error = keystone.identify("confidential", None).await.unwrap_err();
        assert!(!format!("{error:?}").contains("confidential"), "{error:?}");
        advance(REFUSED_AGE_MAX).await;
    }
}

#[tokio::test]
async fn a_configuration_that_accepts_no_token_is_refused() {
    let stub = StubKeystone::start();
    let error = |change: fn(&mut sukkal_domain::KeystoneConfig)| {
        let mut config = stub.config();
        change(&mut config);
        Keystone::new(config).err().unwrap()
    };

    assert!(error(|config| config.auth_url.clear()).starts_with("keystone.auth_url is empty"));
    assert!(error(|config| config.username.clear()).starts_with("keystone.username is empty"));
    assert!(error(|config| config.password = sukkal_domain::Secret::new("")).starts_with("keystone.password is empty"));
}
