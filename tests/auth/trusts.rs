//! Fact sheet 8.7: subscribers with `trust+http` get a token of the user who has subscribed them.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::stub::{Reply, Stub};
use super::stub_keystone::{Mood, StubKeystone, described};
use super::verified::{with_keystone, with_token};
use crate::http::{Answer, answered, refused, send};
use support::sukkal::{Api, Sukkal};

const HOUR: Duration = Duration::from_secs(3_600);
/// Much longer than events that should happen at once may take.
const TIMEOUT: Duration = Duration::from_secs(20);
const SUBSCRIPTIONS: &str = "/v2/queues/q/subscriptions";
const INVALID: &str = "Invalid API request";

/// A service, its Keystone with the token `mine` of the user `u`, and a subscriber.
struct Scene {
    keystone: StubKeystone,
    subscriber: Stub,
    api: Api,
    _sukkal: Sukkal,
}

impl Scene {
    /// The subscriber answers with this status.
    fn start(status: u16) -> Self {
        let keystone = StubKeystone::start();
        keystone.issue("mine", described("u", Some("shop"), &["member", "reader"], HOUR));
        let (sukkal, api) = with_keystone(&keystone);
        let subscriber = Stub::start(move |request| {
            // A careless subscriber, which repeats the token.
            Reply::Text(status, request.header("x-auth-token").to_owned())
        });
        Self { keystone, subscriber, api, _sukkal: sukkal }
    }

    async fn subscribe(&self, token: &str, options: Value) -> Answer {
        let body = json!({"subscriber": format!("trust+{}/hook", self.subscriber.url), "ttl": 600, "options": options});
        send(with_token(self.api.post(SUBSCRIPTIONS, &body), token)).await
    }

    /// Subscribes, and returns the path of the subscription.
    async fn subscribed(&self) -> String {
        let answer = self.subscribe("mine", json!({"post_headers": {"X-Auth-Token": "another"}})).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        format!("{SUBSCRIPTIONS}/{}", answer.json()["subscription_id"].as_str().unwrap())
    }

    async fn get(&self, path: &str) -> Value {
        answered(with_token(self.api.get(path), "mine"), 200).await.json()
    }

    async fn post_message(&self) {
        let body = json!({"messages": [{"body": 1}]});
        answered(with_token(self.api.post("/v2/queues/q/messages", &body), "mine"), 201).await;
    }

    /// Waits until there are so many attempts, and returns the last one.
    async fn attempt(&self, path: &str, count: usize) -> Value {
        let attempts = async {
            loop {
                let attempts = self.get(&format!("{path}/attempts")).await["attempts"].take();
                if attempts.as_array().unwrap().len() >= count {
                    return attempts[0].clone();
                }
            }
        };
        timeout(TIMEOUT, attempts).await.expect("the attempts are made")
    }

    fn trust_logins(&self) -> usize {
        let requests = self.keystone.stub.requests();
        requests.iter().filter(|request| String::from_utf8_lossy(&request.body).contains("OS-TRUST:trust")).count()
    }
}

async fn until(mut is_true: impl FnMut() -> bool) {
    let wait = async {
        while !is_true() {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, wait).await.expect("it becomes true");
}

/// Rows 8.7-3, 8.7-4, 8.7-5.
#[tokio::test]
async fn a_subscriber_gets_messages_with_a_token_of_its_owner() {
    let scene = Scene::start(200);
    let path = scene.subscribed().await;

    let trusts = scene.keystone.trusts();
    let trust = &trusts["trust-0"];
    assert_eq!((&trust["trustor_user_id"], &trust["trustee_user_id"]), (&json!("u"), &json!("service-user")));
    assert_eq!((&trust["project_id"], &trust["impersonation"]), (&json!("shop"), &json!(true)));
    assert_eq!(trust["roles"], json!([{"name": "member"}, {"name": "reader"}]));
    assert!(trust["expires_at"].as_str().unwrap().ends_with('Z'), "{trust}");
    assert_eq!(scene.get(&path).await["options"]["trust_id"], "trust-0");

    for _ in 0..3 {
        scene.post_message().await;
    }
    let last = scene.attempt(&path, 3).await;
    assert_eq!((&last["status"], &last["response"]), (&json!(200), &json!("")), "{last}");
    for request in scene.subscriber.requests().iter() {
        assert_eq!((request.path_and_query.as_str(), request.header("x-auth-token")), ("/hook", "trust-token-0"));
    }
    assert_eq!(scene.trust_logins(), 1, "the token is kept until its end");

    answered(with_token(scene.api.delete(&path), "mine"), 204).await;
    until(|| scene.keystone.trusts().is_empty()).await;
}

#[tokio::test]
async fn a_deleted_trust_is_a_failed_attempt() {
    let scene = Scene::start(200);
    let path = scene.subscribed().await;
    scene.keystone.delete_trusts();

    scene.post_message().await;

    let attempt = scene.attempt(&path, 1).await;
    let error = attempt["error"].as_str().unwrap();
    assert!(error.contains("Keystone issues no token for the trust of the subscription (status 401)"), "{error}");
    assert_eq!(scene.subscriber.requests().len(), 0);
}

#[tokio::test]
async fn a_token_that_the_subscriber_refuses_is_replaced() {
    let scene = Scene::start(401);
    let path = scene.subscribed().await;

    scene.post_message().await;

    scene.attempt(&path, 2).await;
    assert!(scene.trust_logins() >= 2);
}

/// Row 8.7-4.
#[tokio::test]
async fn only_the_service_names_trusts_and_chooses_their_subscriber() {
    let scene = Scene::start(200);
    let path = scene.subscribed().await;

    let named = scene.subscribe("mine", json!({"trust_id": "trust-0"})).await;
    assert!(named.refusal(400, INVALID).starts_with("the option trust_id cannot be set"));
    // The subscription exists, so the second trust is not needed.
    assert_eq!(scene.subscribe("mine", json!({})).await.status, 201);
    until(|| scene.keystone.trusts().len() == 1).await;
    let change = async |path: &str, body: Value| {
        let description =
            refused(with_token(scene.api.request(Method::PATCH, path).json(&body), "mine"), 400, INVALID).await;
        assert!(description.starts_with("a subscription with a trust+ subscriber cannot be changed"), "{description}");
    };
    for body in [json!({"subscriber": "http://127.0.0.1:1024"}), json!({"ttl": 900}), json!({"options": {}})] {
        change(&path, body).await;
    }
    let plain = json!({"subscriber": "http://127.0.0.1:1024", "options": {"trust_id": "trust-0"}});
    let plain = answered(with_token(scene.api.post(SUBSCRIPTIONS, &plain), "mine"), 201).await.json();
    let plain = format!("{SUBSCRIPTIONS}/{}", plain["subscription_id"].as_str().unwrap());
    change(&plain, json!({"subscriber": "trust+http://127.0.0.1:1024"})).await;
}

#[tokio::test]
async fn without_a_trust_there_is_no_subscription() {
    let scene = Scene::start(200);
    scene.keystone.issue("without-roles", described("u", Some("shop"), &[], HOUR));

    let answer = scene.subscribe("without-roles", json!({})).await;
    let expected =
        "the subscriber needs a trust: Keystone does not let the owner of the token create a trust (status 403)";
    assert_eq!(answer.refusal(400, INVALID), expected);
    scene.get("/v2/queues").await;
    scene.keystone.set_mood(Mood::Down);
    let answer = scene.subscribe("mine", json!({})).await;
    assert_eq!(
        answer.refusal(503, "Service temporarily unavailable"),
        "Subscription could not be created. Please try again in a few seconds."
    );

    let listed = with_token(scene.api.request(Method::GET, SUBSCRIPTIONS), "mine");
    assert_eq!(answered(listed, 200).await.json()["subscriptions"], json!([]));
}
