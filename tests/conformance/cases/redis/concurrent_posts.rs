//! Concurrent posts over Redis: they share scripts, and an unreadable queue does not affect the
//! other posts of its script.

use std::sync::Arc;

use futures::future::join_all;
use sukkal_domain::QueueId;
use sukkal_storage::{Error, PostOutcome};

use super::keys::key;
use crate::conformance::support::drivers::{redis, redis_at};
use crate::conformance::support::subject::{LONG_S, Subject, client, messages};
use support::redis::RedisServer;

const POSTS: usize = 200;

async fn post_to_all(subject: &Subject, queues: &[QueueId]) -> Vec<Result<PostOutcome, Error>> {
    let mut revisions = Vec::new();
    for queue in queues {
        revisions.push(subject.revision(queue).await);
    }
    let by = client(1);
    let batch = messages(LONG_S, 1);
    let posts = queues.iter().zip(revisions).map(|(queue, revision)| subject.try_post(queue, revision, &by, &batch));
    join_all(posts).await
}

#[tokio::test]
async fn posts_that_wait_for_a_running_script_share_the_next_one() {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let mut queues = Vec::new();
    for number in 0..20 {
        queues.push(subject.queue(&format!("q-{number}")).await);
    }
    let all: Vec<QueueId> = queues.iter().cycle().take(POSTS).cloned().collect();
    post_to_all(&subject, &queues).await;
    server.command(&["CONFIG", "RESETSTAT"]);

    let outcomes = post_to_all(&subject, &all).await;

    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(PostOutcome::Posted(ids)) if ids.len() == 1)));
    let stats = server.command(&["INFO", "commandstats"]);
    let scripts = stats.as_text().lines().find_map(|line| line.strip_prefix("cmdstat_fcall:calls=")).unwrap();
    let scripts: usize = scripts.split(',').next().unwrap().parse().unwrap();
    assert!(scripts <= POSTS / 8, "{scripts} scripts for {POSTS} concurrent posts");
}

#[tokio::test]
async fn an_unreadable_queue_fails_only_its_own_posts() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (good, bad) = (subject.queue("good").await, subject.queue("bad").await);
    server.command(&["SET", &key(&bad, "ready"), "no sorted set"]);
    let all: Vec<QueueId> = [good.clone(), bad].into_iter().cycle().take(POSTS).collect();

    let outcomes = post_to_all(&subject, &all).await;

    for pair in outcomes.chunks(2) {
        assert!(matches!(&pair[0], Ok(PostOutcome::Posted(_))), "{:?}", pair[0]);
        assert!(matches!(&pair[1], Err(Error::Corrupt(what)) if what.contains("WRONGTYPE")), "{:?}", pair[1]);
    }
    assert_eq!(subject.count(&good).await, POSTS / 2);
}
