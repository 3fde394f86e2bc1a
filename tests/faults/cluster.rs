//! A Redis Cluster of which a part is gone, or on the move.

use tokio::task::JoinSet;

use super::requests::{self, Answer, Kind, Requests, all_done};
use crate::support::cluster::RedisCluster;
use crate::support::redis::{Reply, poll_until};
use crate::support::sukkal::{Api, Sukkal};

const MANY: usize = 64;
/// A key of the queue that is asked for.
const KEPT: &str = "sukkal:{faults/kept}:queue";

#[tokio::test]
async fn a_node_that_is_gone_is_answered_with_503_until_it_is_back() {
    let cluster = RedisCluster::start();
    let sukkal = Sukkal::start(&cluster.url());
    let requests = Requests::prepare(&sukkal).await;
    all_done(&requests.send(&requests::all(), MANY).await);

    cluster.node_of(KEPT).pause();
    requests.send(&requests::all(), MANY).await.iter().for_each(Answer::check);
    cluster.node_of(KEPT).resume();
    cluster.wait_until_ok();

    requests.all_work_again(&requests::all()).await;
    all_done(&requests.send(&requests::all(), MANY).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_took_over_is_found_while_other_nodes_answer() {
    let cluster = RedisCluster::start();
    let replica = RedisCluster::add_replica(cluster.node_of(KEPT));
    for node in cluster.nodes().iter().chain([&replica]) {
        node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let sukkal = Sukkal::start(&cluster.url());
    let requests = Requests::prepare(&sukkal).await;
    // The others answer all the time, and the dead one is asked all the time.
    let dead = |queue: &String| {
        cluster.node_of(&format!("sukkal:{{faults/{queue}}}:queue")).port() == cluster.node_of(KEPT).port()
    };
    let (of_dead, of_others): (Vec<_>, Vec<_>) = (0..64).map(|queue| format!("busy-{queue}")).partition(dead);
    let traffic: JoinSet<()> = (0..16)
        .map(|task| if task % 2 == 0 { of_dead.clone() } else { of_others.clone() })
        .map(|queues| read_all_the_time(sukkal.project("faults"), queues))
        .collect();

    cluster.node_of(KEPT).pause();
    poll_until("the replica has taken over", || {
        replica.command(&["INFO", "replication"]).as_text().contains("role:master")
    });

    requests.all_work_again(&[("GET messages", |r| r.api.get("/v2/queues/kept/messages?echo=true"))]).await;
    drop(traffic);
}

async fn read_all_the_time(api: Api, queues: Vec<String>) {
    for queue in queues.iter().cycle() {
        let _answer = api.get(&format!("/v2/queues/{queue}")).send().await;
    }
}

#[tokio::test]
async fn queues_work_while_the_slot_of_another_moves_and_that_one_afterwards() {
    let cluster = RedisCluster::start();
    let sukkal = Sukkal::start(&cluster.url());
    let requests = Requests::prepare(&sukkal).await;
    let moving = "sukkal:{faults/moving}:queue";
    let from = cluster.node_of(moving);
    let to = cluster.nodes().iter().find(|node| node.port() != from.port()).unwrap();
    let [from_id, to_id] = [from, to].map(|node| node.command(&["CLUSTER", "MYID"]).as_text().to_owned());
    let slot = from.command(&["CLUSTER", "KEYSLOT", moving]).as_int().to_string();
    let ok = Reply::Status("OK".to_owned());
    assert_eq!(to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]), ok);
    assert_eq!(from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]), ok);

    // What is not there yet would be in its future place; it can wait, the others cannot.
    let moving_kinds: [Kind; 1] = [("GET moving queue", |r| r.api.get("/v2/queues/moving"))];
    let other_kinds = requests::all();
    let (waited, others) = tokio::join!(requests.send(&moving_kinds, 8), requests.send(&other_kinds, MANY));
    waited.iter().for_each(Answer::check);
    all_done(&others);
    for node in [to, from] {
        assert_eq!(node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]), ok);
    }

    requests.all_work_again(&[("PUT moving queue", |r| r.api.put("/v2/queues/moving"))]).await;
    assert_eq!(to.command(&["EXISTS", moving]), Reply::Int(1));
    all_done(&requests.send(&requests::all(), MANY).await);
}
