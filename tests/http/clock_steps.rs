//! What happens when the clock of the store steps, as docs/operating.md says.

use super::*;

const HOUR_S: i64 = 3_600;

/// Returns a project whose queue has a message claimed for 300 s, one returned with a delay of 60
/// s, one with a delay of 60 s, and one that is available.
async fn with_timed_messages() -> (Project, Claim) {
    let project = new_movable_project();
    project.set_clock_ahead(HOUR_S).await;
    project.create("q", &json!({ "_enable_message_delay": true })).await;
    let messages = json!([
        { "body": "claimed", "ttl": 1_000 },
        { "body": "returned", "ttl": 1_000 },
        { "body": "delayed", "ttl": 1_000, "delay": 60 },
        { "body": "free", "ttl": 1_000 },
    ]);
    let ids = project.post_messages("q", &messages).await;
    let claim = project.claim(2).await;
    answered(project.delete(&format!("{}/messages/{}?delay=60", claim.path, ids[1])), 204).await;
    (project, claim)
}

async fn available(project: &Project) -> Vec<Value> {
    project.feed("q", "").await
}

/// The clock was ahead and is corrected.
#[tokio::test]
async fn after_a_step_back_claims_returns_and_lifetimes_last_longer_and_delays_do_not() {
    let (project, claim) = with_timed_messages().await;
    project.set_clock_ahead(0).await;
    assert_eq!(available(&project).await, ["free"]);

    project.set_clock_ahead(62).await;
    assert_eq!(available(&project).await, ["free", "delayed"]);
    project.post_bodies("q", &[json!("new")]).await;
    assert_eq!(available(&project).await, ["free", "delayed", "new"], "new messages come last");
    project.set_clock_ahead(1_062).await;
    assert_eq!(project.stats("q").await["claimed"], 2);
    answered(project.delete(&claim.path), 204).await;
    assert_eq!(available(&project).await[0], "claimed", "a claim can be released");

    project.set_clock_ahead(HOUR_S + 62).await;
    assert_eq!(available(&project).await[..2], ["claimed", "returned"]);
}
