//! `GET …/claims` (an extension): the live claims of a queue.

use std::time::Instant;

use serde_json::json;

use super::{
    CLAIMS, INVALID_PARAMETER, INVALID_REQUEST, OTHER_CLIENT, answered, follow, pick, refused, text, with_messages,
};
use support::sukkal::CLIENT;

#[tokio::test]
async fn a_list_of_claims_shows_who_holds_how_many_messages() {
    let (api, _) = with_messages(5).await;
    let began = Instant::now();
    let first = answered(api.post(&format!("{CLAIMS}?limit=2"), &json!({"ttl": 100})), 201).await;
    let other = api.client(OTHER_CLIENT);
    let second = answered(other.post(&format!("{CLAIMS}?limit=3"), &json!({"ttl": 200})), 201).await;
    answered(other.delete(text(&second.json()["messages"][0]["href"])), 204).await;

    let page = answered(api.get(CLAIMS), 200).await;

    let [first_path, second_path] = [&first, &second].map(|claim| claim.header("location").unwrap());
    let shown = page.json();
    let entry = |path: &str, client: &str, ttl: u32, messages: u32, fence: &str| {
        let id = path.rsplit('/').next().unwrap();
        let claim = shown["claims"].as_array().unwrap().iter().find(|claim| claim["id"] == id).unwrap();
        let age = claim["age"].as_u64().unwrap();
        assert!(age <= began.elapsed().as_secs() + 1, "{age} s");
        format!(
            r#"{{"id":"{id}","href":"{path}","client_id":"{client}","age":{age},"ttl":{ttl},"messages":{messages},"fence":{fence}}}"#
        )
    };
    let [first_fence, second_fence] = [&first, &second].map(|claim| claim.header("claim-fence").unwrap());
    let mut claims = [
        (first_path, entry(first_path, CLIENT, 100, 2, first_fence)),
        (second_path, entry(second_path, OTHER_CLIENT, 200, 2, second_fence)),
    ];
    claims.sort();
    let link = format!(r#"{{"rel":"next","href":"{CLAIMS}?marker={}"}}"#, claims[1].0.rsplit('/').next().unwrap());
    let claims = claims.map(|(_, entry)| entry).join(",");
    assert_eq!(page.text, format!(r#"{{"claims":[{claims}],"links":[{link}]}}"#));
    answered(api.get(text(&shown["claims"][0]["href"])), 200).await;
}

#[tokio::test]
async fn links_lead_through_all_claims() {
    let (api, _) = with_messages(13).await;
    let mut ids = Vec::new();
    for _ in 0..13 {
        ids.push(api.claim(1).await.id);
    }
    ids.sort();

    assert_eq!(answered(api.get(CLAIMS), 200).await.json()["claims"].as_array().unwrap().len(), 10);
    for query in ["", "?limit=1", "?limit=4", "?limit=20"] {
        let listed = follow(&api, &format!("{CLAIMS}{query}"), "claims").await;
        assert_eq!(pick(&listed.into(), "id"), ids, "{query}");
    }
    let second = answered(api.get(&format!("{CLAIMS}?limit=2&marker={}", ids[4])), 200).await.json();
    assert_eq!(second["links"][0]["href"], format!("{CLAIMS}?marker={}&limit=2", ids[6]));
}

#[tokio::test]
async fn a_queue_without_claims_has_an_empty_list() {
    let (api, _) = with_messages(1).await;
    let empty = json!({"claims": [], "links": []});

    for path in [CLAIMS, "/v2/queues/missing/claims", &format!("{CLAIMS}?marker=9f8c3c1e-0000-4000-8000-000000000000")]
    {
        assert_eq!(answered(api.get(path), 200).await.json(), empty, "{path}");
    }
    assert_eq!(pick(&api.snapshot().await, "name"), ["q"]);
}

#[tokio::test]
async fn an_invalid_limit_or_marker_is_refused() {
    let (api, _) = with_messages(1).await;
    let claim = api.claim(1).await;

    for limit in ["0", "-1", "21"] {
        refused(api.get(&format!("{CLAIMS}?limit={limit}")), 400, INVALID_REQUEST).await;
    }
    for query in ["limit=x", "marker=x", "marker=0", &format!("marker={}", claim.id.to_uppercase())] {
        refused(api.get(&format!("{CLAIMS}?{query}")), 400, INVALID_PARAMETER).await;
    }
    for marker in ["", "00000000-0000-0000-0000-000000000000"] {
        let page = answered(api.get(&format!("{CLAIMS}?marker={marker}")), 200).await.json();
        assert_eq!(pick(&page["claims"], "id"), [claim.id.as_str()], "{marker}");
    }
}
