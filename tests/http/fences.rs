//! Fences: the header `Claim-Fence` and the parameter `include_fence` (extensions).

use reqwest::Method;
use serde_json::json;

use super::{Answer, CLAIMS, INVALID_PARAMETER, answered, pick, refused, with_messages};

fn fence(answer: &Answer) -> u64 {
    answer.header("claim-fence").expect("the response has a fence").parse().expect("a fence is a number")
}

#[tokio::test]
async fn a_claim_has_the_same_fence_when_it_is_created_shown_and_renewed() {
    let (api, _) = with_messages(2).await;

    let first = answered(api.post(&format!("{CLAIMS}?limit=1&include_fence=true"), &json!({})), 201).await;
    let second = answered(api.post(&format!("{CLAIMS}?limit=1"), &json!({})), 201).await;

    assert!(fence(&first) < fence(&second));
    assert_eq!(first.json()["fence"], fence(&first));
    let path = first.header("location").unwrap();
    let shown = answered(api.get(&format!("{path}?include_fence=true")), 200).await;
    let renewed = answered(api.request(Method::PATCH, path).json(&json!({})), 204).await;
    assert_eq!((fence(&shown), fence(&renewed)), (fence(&first), fence(&first)));
    assert_eq!(shown.json()["fence"], fence(&first));
    assert_eq!(answered(api.post(CLAIMS, &json!({})), 204).await.header("claim-fence"), None);
}

#[tokio::test]
async fn documents_have_a_fence_only_on_request() {
    let (api, _) = with_messages(4).await;
    let keys = |answer: Answer| answer.json().as_object().unwrap().keys().cloned().collect::<Vec<_>>();

    for query in ["", "&include_fence=false", "&include_fence="] {
        let claimed = answered(api.post(&format!("{CLAIMS}?limit=1{query}"), &json!({})), 201).await;
        let path = claimed.header("location").unwrap().to_owned();

        assert_eq!(keys(claimed), ["messages"], "{query}");
        let shown = answered(api.get(&format!("{path}?{query}")), 200).await;
        assert_eq!(keys(shown), ["age", "ttl", "messages", "href"], "{query}");
    }
    let invalid = format!("{CLAIMS}?include_fence=perhaps");
    refused(api.post(&invalid, &json!({})), 400, INVALID_PARAMETER).await;
    let claim = api.claim(4).await;
    assert_eq!(pick(&claim.messages, "body"), [3], "the refused request claims nothing");
    refused(api.get(&format!("{}?include_fence=perhaps", claim.path)), 400, INVALID_PARAMETER).await;
}
