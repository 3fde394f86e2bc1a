//! The registrations of projects and queues in Redis: they are restored after a fail-over has lost
//! them, and removed when they are no longer needed.

use std::sync::Arc;
use std::time::Duration;

use sukkal_domain::{ClaimId, ProjectId};
use sukkal_storage::Schedule;

use super::keys::{register_key, registrations};
use crate::conformance::support::drivers::{redis, redis_at, redis_with_url};
use crate::conformance::support::subject::{LONG_S, Subject, messages};
use support::cluster::RedisCluster;
use support::redis::{RedisServer, Reply};
use support::waiting::until;

const PROJECTS: &str = "sukkal:{projects}";

/// Returns the registrations of a project with the store: one or none.
fn projects_registered(server: &RedisServer, project: &ProjectId) -> Vec<Reply> {
    let (from, to) = (format!("[{project}\0"), format!("({project}\x01"));
    match server.command(&["ZRANGEBYLEX", PROJECTS, &from, &to]) {
        Reply::Array(found) => found,
        other => panic!("ZRANGEBYLEX gives a list: {other:?}"),
    }
}

/// Produces the state after a fail-over to a replica that has never received these registrations.
fn lose_registrations(server: &RedisServer, subject: &Subject) {
    for member in projects_registered(server, subject.project()) {
        server.command(&["ZREM", PROJECTS, member.as_text()]);
    }
    assert_eq!(server.command(&["DEL", &register_key(subject.project())]).as_int(), 1);
}

async fn wait_until_listed(subject: &Subject, names: &[&str]) {
    until("the queue is listed again", async || subject.names(subject.project(), None, 10).await == names).await;
}

#[tokio::test]
async fn a_queue_in_use_is_registered_again_with_its_own_version() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    let before = registrations(&server, &subject);
    lose_registrations(&server, &subject);

    subject.list(&queue, None, 1).await;

    wait_until_listed(&subject, &["q"]).await;
    assert_eq!(registrations(&server, &subject), before);
    assert_eq!(projects_registered(&server, subject.project()).len(), 1);
    // A deletion finds it again.
    subject.delete(&queue).await;
    assert_eq!(registrations(&server, &subject), []);
}

#[tokio::test]
async fn after_a_reconnection_each_queue_in_use_is_confirmed_again() {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    lose_registrations(&server, &subject);
    wait_until_listed(&subject, &["q"]).await;
    lose_registrations(&server, &subject);

    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);

    until("the queue is registered again", async || {
        subject.store().get_queue(&queue).await.expect("the store answers");
        let _claimed_nothing = subject.store().pop_messages(&queue, ClaimId::random(), 1).await;
        !registrations(&server, &subject).is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_queue_is_created_although_the_clock_has_stepped_back_since_its_deletion() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let clock = format!("sukkal:{{{}}}:clock", subject.project());
    server.command(&["SET", &clock, "3600000000"]);
    let queue = subject.queue("q").await;
    let (_name, ahead) = registrations(&server, &subject).remove(0);
    subject.delete(&queue).await;
    server.command(&["DEL", &clock]);

    subject.create(&queue).await;

    let (_name, version) = registrations(&server, &subject).remove(0);
    assert!(version.parse::<u64>().unwrap() > ahead.parse().unwrap(), "{version} is not above {ahead}");
    subject.run_maintenance().await;
    assert_eq!(subject.names(subject.project(), None, 10).await, ["q"]);
}

#[tokio::test]
async fn a_maintenance_round_removes_projects_without_queues() {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.delete(&queue).await;

    assert_eq!(subject.store().maintain_step(None).await, Ok(None));

    assert_eq!(server.command(&["EXISTS", PROJECTS, &register_key(subject.project())]).as_int(), 0);
    let Reply::Array(keys) = server.command(&["KEYS", "sukkal:*"]) else {
        panic!("KEYS returns a list");
    };
    let stays = |key: &&Reply| server.command(&["TTL", key.as_text()]).as_int() == -1;
    let stay: Vec<&str> = keys.iter().filter(stays).map(Reply::as_text).collect();
    assert!(stay.iter().all(|key| *key == "sukkal:layout" || key.ends_with(":due")), "{stay:?} do not expire");
}

/// Removes the registration of a queue from the server that has it. Asserts that a check finds this
/// and a repair fixes it, and that the walk of the janitor fixes it, too.
async fn assert_found_and_mended(subject: &Subject, register: &RedisServer) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 3)).await;
    let lose = || assert_eq!(register.command(&["DEL", &register_key(subject.project())]).as_int(), 1);
    let (finding, store) = (format!("{queue}: exists and is not registered"), subject.store());
    let is_it = |one: &String| one.starts_with(&finding);
    lose();

    assert!(store.check().await.unwrap().findings.iter().any(is_it));
    let repair = store.repair().await.unwrap();

    assert!(repair.repaired.iter().any(is_it) && !repair.findings.iter().any(is_it), "{repair:?}");
    assert!(!store.check().await.unwrap().findings.iter().any(is_it));
    assert_eq!(subject.names(subject.project(), None, 10).await, ["q"]);

    lose();
    store.maintain(&Schedule { pause: Duration::ZERO, walk: Duration::ZERO }).await.unwrap();

    assert_eq!(subject.names(subject.project(), None, 10).await, ["q"]);
}

#[tokio::test]
async fn a_queue_that_is_not_registered_is_found_by_a_check_and_by_the_janitor() {
    let server = Arc::new(RedisServer::start());

    assert_found_and_mended(&redis_at(server.clone()), &server).await;
}

#[tokio::test]
async fn a_queue_of_a_cluster_that_is_not_registered_is_found_by_a_check_and_by_the_janitor() {
    let cluster = Arc::new(RedisCluster::start());
    let subject = redis_with_url(&cluster.url(), cluster.clone());

    assert_found_and_mended(&subject, cluster.node_of(&register_key(subject.project()))).await;
}
