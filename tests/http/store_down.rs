//! Each operation during an outage of the store: 503, with a description of what failed.

use std::sync::Arc;

use futures::future::join_all;
use uuid::Uuid;

use super::{Project, Server, send};
use crate::auth::matrix::read_table;
use support::redis::RedisServer;
use support::sukkal::Sukkal;

const UNAVAILABLE: &str = "Service temporarily unavailable";

/// Returns the text of `matrix.txt` with ids and names that nothing has.
fn filled(text: &str) -> String {
    let id = Uuid::new_v4().to_string();
    let names = ["queue_name", "topic_name", "pool_name", "flavor_name", "pool_of_flavor"].map(|name| (name, "name"));
    let ids = ["message_id", "claimed_id", "claim_id", "subscription_id", "task_id", "token_id"];
    let ids = ids.into_iter().chain(["topic_message_id", "topic_subscription_id"]).map(|name| (name, &*id));
    names
        .into_iter()
        .chain(ids)
        .chain([("pool_uri", "redis://h")])
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// Rows 4.1-16, 4.2-10, 4.3-6, 4.5-5, 4.7-9, 6.1-20, 6.2-11, 6.5-13, 6.6-9, 7.1-17, 8.3-16.
#[tokio::test]
async fn every_operation_describes_the_outage() {
    let redis = RedisServer::start();
    let options = [
        ("SUKKAL_ADMIN_MODE", "true"),
        ("SUKKAL_AUTH__STRATEGIES", "none,tokens"),
        ("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"),
        ("SUKKAL_POOLING__ENABLED", "true"),
    ];
    let sukkal = Sukkal::start_with(&redis.url(), &options);
    redis.kill();
    let server = Arc::new(Server { sukkal, redis: Arc::new(redis) });
    let api = Project::of(&server, "p");

    let rows: Vec<_> = read_table().into_iter().filter_map(|row| Some((row.outage?, row))).collect();
    let requests = rows.iter().map(|(failure, row)| (row.request(&api, filled), *failure));
    let malformed = [
        (api.delete("/v2/queues/q/tasks/x"), "Task could not be stopped or removed."),
        (api.delete("/v2/tokens/x"), "Token could not be deleted."),
    ];
    let answers = requests
        .chain(malformed)
        .map(|(request, failure)| async move { (send(request.header("X-Roles", "admin")).await, failure) });

    for (answer, failure) in join_all(answers).await {
        let description = answer.refusal(503, UNAVAILABLE);
        assert_eq!(description, format!("{failure} Please try again in a few seconds."));
        assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
    }
}
