//! Everything of a queue is the same after a move, whatever it has and however large it is.

use serde_json::{Value, json};
use sukkal_storage::Moved;

use super::{Deployment, Management, PROJECT, keys_of, move_queue, mover};
use crate::http::{answered, send};
use crate::migration::view::{assert_equal_views, view_of};
use crate::migration::workload::{self, post};
use crate::migration::{OPTIONS, equality::subscribe};
use crate::push::endpoint::Received;
use support::random::{Random, seed};
use support::redis::child_command;
use support::sukkal::{MOVABLE_CLOCK, POOLING};

/// More than a chunk has, and less than the largest message needs twice.
const BUFFER_BYTES_MAX: &str = "2097152";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_the_same_after_each_move() {
    let deployment = Deployment::start(&[0, 0]).await;
    let server = deployment.serve_with(&[&OPTIONS[..], &[("SUKKAL_POOLING__VIRTUAL_POOL", "true")]].concat());
    let api = server.project(PROJECT);
    let mut random = Random::new(seed(), 0, 0);
    let known = workload::fill(&api, &mut random).await;
    let endpoint = subscribe(&api).await;
    let mover = mover(&deployment.url()).await;
    let Management::Redis(management) = &deployment.management else { unreachable!() };
    let list = answered(api.get("/v2/queues?limit=20"), 200).await.json();
    let queues: Vec<&str> = list["queues"].as_array().unwrap().iter().map(|q| q["name"].as_str().unwrap()).collect();
    assert!(queues.len() > 8, "{queues:?}");

    let before = view_of(&api).await;
    for (pool, source) in [("a", management), ("b", &*deployment.pools[0]), ("a", &*deployment.pools[1])] {
        for queue in &queues {
            assert_eq!(move_queue(&mover, queue, pool).await, Ok(Moved::Done), "{queue}");
            assert_eq!(move_queue(&mover, queue, pool).await, Ok(Moved::Done), "{queue} is there");
            assert_eq!(deployment.pools_of(PROJECT, queue), [pool]);
            assert_eq!(keys_of(source, PROJECT, queue), [""; 0], "what {queue} has left");
        }
        assert_equal_views(&before, &view_of(&api).await);
    }

    for (path, key, document, receipt) in known.idempotent {
        let again = answered(api.post(&path, &document).header("Idempotency-Key", key), 201).await.json();
        assert_eq!(again, receipt, "a repeated post");
    }
    for (claim, messages) in known.claims {
        assert!([200, 204].contains(&send(api.get(&claim)).await.status), "{claim}");
        for message in messages {
            answered(api.delete(&message), 204).await;
        }
    }
    let received = endpoint.received().len();
    post(&api, "subscribed", &json!([{ "body": "fifth" }])).await;
    let received = endpoint.wait_for(received + 1).await.split_off(received);
    let bodies: Vec<Value> = received.iter().map(Received::body).collect();
    assert_eq!(bodies, ["fifth"], "no message was delivered twice");
    let mut check = child_command(support::sukkal::binary());
    let output =
        check.args(["check", "--store", &deployment.url()]).envs(POOLING).envs([MOVABLE_CLOCK]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_queue_moves_in_chunks() {
    let deployment = Deployment::start(&[1, 0]).await;
    let server = deployment.serve_with(&OPTIONS);
    let api = server.project(PROJECT);
    let small: Vec<Value> = (0..1_000).map(|number| json!({ "body": number })).collect();
    for _ in 0..100 {
        post(&api, "large", &small.clone().into()).await;
    }
    for _ in 0..20 {
        post(&api, "large", &json!([{ "body": "x".repeat(200_000) }])).await;
    }
    let claim = send(api.post("/v2/queues/large/claims?limit=20", &json!({ "ttl": 600, "grace": 60 }))).await;
    assert_eq!(claim.status, 201);
    let stats = answered(api.get("/v2/queues/large/stats"), 200).await.json();

    // Larger replies and commands would close their connections.
    let [source, target] = [0, 1].map(|at| &deployment.pools[at]);
    source.command(&["CONFIG", "SET", "client-output-buffer-limit", &format!("normal {BUFFER_BYTES_MAX} 0 0")]);
    target.command(&["CONFIG", "SET", "client-query-buffer-limit", BUFFER_BYTES_MAX]);
    assert_eq!(move_queue(&mover(&deployment.url()).await, "large", "b").await, Ok(Moved::Done));

    assert_eq!(keys_of(source, PROJECT, "large"), [""; 0]);
    let moved = answered(api.get("/v2/queues/large/stats"), 200).await.json();
    for part in ["free", "claimed", "total"] {
        assert_eq!(moved["messages"][part], stats["messages"][part], "{part}");
    }
    let mut check = child_command(support::sukkal::binary());
    let output =
        check.args(["check", "--store", &deployment.url()]).envs(POOLING).envs([MOVABLE_CLOCK]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
