//! The creation and the deletion of a token, killed at each store call.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::{Scene, kill_at_each_call};
use crate::faults::gate::KillPoint;
use crate::http::answered;
use support::sukkal::Api;

/// A part of all commands on tokens, and the project of the requests.
const TOKENS: &str = "tokens";
const PATH: &str = "/v2/tokens";

fn create(api: &Api) -> RequestBuilder {
    as_admin(api.post(PATH, &json!({ "name": "a token", "roles": ["worker"], "ttl": 600 })))
}

fn as_admin(request: RequestBuilder) -> RequestBuilder {
    request.header("X-Roles", "admin")
}

async fn listed(api: &Api) -> Vec<Value> {
    let mut page = answered(as_admin(api.get(PATH)), 200).await.json();
    page["tokens"].as_array_mut().map(std::mem::take).unwrap_or_default()
}

/// Returns the number of entries of each key of the tokens.
fn entries(scene: &Scene) -> [i64; 4] {
    [("HLEN", "records"), ("ZCARD", "ids"), ("ZCARD", "projects"), ("ZCARD", "ends")]
        .map(|(command, key)| scene.redis.command(&[command, &format!("sukkal:{{tokens}}:{key}")]).as_int())
}

#[tokio::test]
async fn a_killed_creation_leaves_a_whole_token_or_none() {
    let prepare = async |_: &Scene, _: &Api| {};
    let request = |api: &Api, (): &()| create(api);

    kill_at_each_call(TOKENS, 2, prepare, request, async |scene, outcome, ()| {
        let tokens = listed(&outcome.api).await;
        assert!(tokens.len() <= 1 && (tokens.len() == 1 || !outcome.acknowledged()), "{tokens:?}");
        assert_eq!(entries(scene), [i64::try_from(tokens.len()).unwrap(); 4]);
    })
    .await;
}

#[tokio::test]
async fn a_killed_deletion_deletes_a_token_wholly_or_not_at_all() {
    let prepare = async |_: &Scene, api: &Api| {
        let created = answered(create(api), 201).await.json();
        format!("{PATH}/{}", created["id"].as_str().unwrap())
    };
    let delete = |api: &Api, path: &String| as_admin(api.delete(path));

    kill_at_each_call(TOKENS, 2, prepare, delete, async |scene, outcome, path| {
        let left = listed(&outcome.api).await.len();
        assert!(left == 0 || !outcome.acknowledged(), "an acknowledged deletion had no effect");
        // The first call reads the token.
        assert!(left == 0 || !matches!(outcome.kill_point, KillPoint::BeforeReply(1..)), "it was executed");
        assert_eq!(entries(scene), [i64::try_from(left).unwrap(); 4]);
        answered(delete(&outcome.api, &path), 204).await;
        assert_eq!(entries(scene), [0; 4]);
    })
    .await;
}
