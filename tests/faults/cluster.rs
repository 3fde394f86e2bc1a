//! A Redis Cluster of which a node is down, or a slot is moving.

use std::time::Duration;

use serde_json::{Value, json};
use sukkal_storage::{Maintenance, Schedule};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::requests::{self, Answer, Kind, Requests, all_done};
use crate::http::answered;
use support::cluster::RedisCluster;
use support::exposition::Exposition;
use support::redis::{RedisServer, Reply};
use support::sukkal::{Api, MOVABLE_CLOCK, Sukkal};
use support::test_bed::{open_movable, queue_id, set_clock};
use support::waiting::{block_until, until};

const MANY: usize = 64;
/// A key of the queue that is read.
const KEPT: &str = "sukkal:{faults/kept}:queue";

#[tokio::test]
async fn requests_get_503_until_a_killed_node_is_back() {
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
async fn a_promoted_replica_is_found_while_other_nodes_respond() {
    let cluster = RedisCluster::start();
    let replica = cluster.add_replica(cluster.node_of(KEPT));
    for node in cluster.nodes().iter().chain([&replica]) {
        node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let sukkal = Sukkal::start(&cluster.url());
    let requests = Requests::prepare(&sukkal).await;
    // The other nodes respond all the time, and the dead one receives requests all the time.
    let dead = |queue: &String| {
        cluster.node_of(&format!("sukkal:{{faults/{queue}}}:queue")).port() == cluster.node_of(KEPT).port()
    };
    let (of_dead, of_others): (Vec<_>, Vec<_>) = (0..64).map(|queue| format!("busy-{queue}")).partition(dead);
    let traffic: JoinSet<()> = (0..16)
        .map(|task| if task % 2 == 0 { of_dead.clone() } else { of_others.clone() })
        .map(|queues| read_all_the_time(sukkal.project("faults"), queues))
        .collect();

    cluster.node_of(KEPT).pause();
    block_until("the replica has taken over", || {
        replica.command(&["INFO", "replication"]).as_text().contains("role:master")
    });

    requests.all_work_again(&[("GET messages", |r| r.api.get("/v2/queues/kept/messages?echo=true"))]).await;
    drop(traffic);
}

async fn read_all_the_time(api: Api, queues: Vec<String>) {
    for queue in queues.iter().cycle() {
        let _answer = api.get(&format!("/v2/queues/{queue}")).send().await;
        // Responses may be immediate, and the machine has other work.
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn queues_work_while_the_slot_of_another_queue_moves() {
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

    // Keys that do not exist yet belong to the new node during the move. This queue can wait; the
    // others cannot.
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

/// A node that hands a slot over runs a script only if all its keys exist, and ends it in the
/// middle when it uses a key that it has emptied itself.
#[tokio::test]
async fn no_script_is_interrupted_by_the_move_of_a_slot() {
    let cluster = RedisCluster::start();
    let sukkal = Sukkal::start(&cluster.url());
    let api = sukkal.project("faults");
    let shards = json!({ "_shards": 8, "_default_message_delay": 1 });
    answered(api.put("/v2/queues/whole").json(&shards), 201).await;
    let messages = json!({ "messages": [
        { "body": 1, "delay": 0 }, { "body": 2, "delay": 0 }, { "body": 3, "delay": 600 }
    ] });
    answered(api.post("/v2/queues/whole/messages", &messages), 201).await;
    let claim = api.post("/v2/queues/whole/claims?limit=1", &json!({ "ttl": 600 })).send().await.unwrap();
    let claim = claim.headers()["location"].to_str().unwrap().to_owned();
    let key = "sukkal:{faults/whole}:queue";
    let from = cluster.node_of(key);
    let to = cluster.nodes().iter().find(|node| node.port() != from.port()).unwrap();
    let to_id = to.command(&["CLUSTER", "MYID"]).as_text().to_owned();
    let slot = from.command(&["CLUSTER", "KEYSLOT", key]).as_int().to_string();
    let ok = Reply::Status("OK".to_owned());
    assert_eq!(from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]), ok);

    // The release empties keys and uses them again.
    let refused = api.delete(&claim).send().await.unwrap().status();
    assert_eq!(from.command(&["CLUSTER", "SETSLOT", &slot, "STABLE"]), ok);

    assert_eq!(refused, 503);
    answered(api.delete(&claim), 204).await;
    let stats: Value = api.get("/v2/queues/whole/stats").send().await.unwrap().json().await.unwrap();
    assert_eq!(stats["messages"]["free"], 3, "{stats}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_of_other_nodes_work_while_a_node_is_down() {
    let scene = PartlyDownCluster::start(40).await;
    let (of_dead, of_others): (Vec<_>, Vec<_>) =
        (0..40).map(|n| format!("q{n}")).partition(|q| scene.is_on_killed_node(q));
    let (waited_for, others) = of_others.split_first().unwrap();
    let api = scene.sukkal.project(&scene.project);
    let claim = |queue: &str, query| api.post(&format!("/v2/queues/{queue}/claims{query}"), &json!({ "ttl": 60 }));
    let post = |queue| api.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": [{ "body": 1 }] }));
    answered(claim(waited_for, ""), 201).await;

    scene.dead().kill();
    // The dead node receives requests all the time.
    let traffic: JoinSet<()> =
        (0..8).map(|_| read_all_the_time(scene.sukkal.project(&scene.project), of_dead.clone())).collect();
    for queue in others.iter().chain(others).chain(others) {
        let list = api.get(&format!("/v2/queues/{queue}/messages?echo=true&include_claimed=true"));
        for (request, status) in [(list, 200), (post(queue), 201), (claim(queue, ""), 201)] {
            assert_eq!(request.send().await.unwrap().status(), status, "{queue}");
        }
    }
    let waiter = tokio::spawn(claim(waited_for, "?wait=20").send());
    let waiting = async || Exposition::of(&scene.sukkal.url("")).await.value("sukkal_waiting_requests");
    until("the claim waits", async || waiting().await == Some(1.0)).await;
    answered(post(waited_for), 201).await;

    assert_eq!(waiter.await.unwrap().unwrap().status(), 201);
    drop(traffic);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_janitor_maintains_queues_of_other_nodes_while_a_node_is_down() {
    let scene = PartlyDownCluster::start(30).await;
    let key = |queue: usize, part: &str| format!("sukkal:{{{}/q{queue}}}:{part}", scene.project);
    let store = open_movable(&scene.cluster.url());
    for queue in 0..30 {
        let id = queue_id(&scene.project, &format!("q{queue}"));
        set_clock(&store, &id, 62_000_000).await;
    }
    // Half of the queues are found by the index of due queues, the others by the full round.
    for node in scene.cluster.nodes() {
        for due in node.command(&["KEYS", "sukkal:{*}:due"]).items() {
            for tag in node.command(&["ZRANGE", due.as_text(), "0", "-1"]).items() {
                let is_even = tag.as_text().ends_with(['0', '2', '4', '6', '8']);
                let time = if is_even { "1" } else { "9e15" };
                node.command(&["ZADD", due.as_text(), "XX", time, tag.as_text()]);
            }
        }
    }
    let on_live_nodes: Vec<usize> = (0..30).filter(|queue| !scene.is_on_killed_node(&format!("q{queue}"))).collect();
    let homes: Vec<_> = on_live_nodes.iter().map(|queue| scene.cluster.node_of(&key(*queue, "queue"))).collect();
    let left = |rest: usize| {
        let is_left = |(queue, node): &(&usize, &&RedisServer)| {
            *queue % 2 == rest && node.command(&["EXISTS", &key(**queue, "messages")]).as_int() == 1
        };
        on_live_nodes.iter().zip(&homes).filter(is_left).count()
    };

    scene.dead().pause();
    let due_only = Schedule { pause: Duration::ZERO, walk: Duration::from_secs(3_600) };
    // On a busy machine, a node that lives may be skipped once too.
    until("due queues of other nodes are maintained", async || {
        store.maintain(&due_only).await.unwrap();
        left(0) == 0
    })
    .await;
    let mut reached = store.maintain_step(None).await.unwrap();
    while reached.is_some() {
        reached = store.maintain_step(reached.as_ref()).await.unwrap();
    }
    assert_eq!(left(1), 0, "the walk has left queues of other nodes");
    scene.dead().resume();
}

/// A cluster of which one node will be killed. That node has queues of the project, but none of the
/// registers.
struct PartlyDownCluster {
    cluster: RedisCluster,
    dead: u16,
    project: String,
    sukkal: Sukkal,
}

impl PartlyDownCluster {
    /// Starts a cluster with queues `q0`, `q1` and so on, each with a message that lives for a
    /// minute.
    async fn start(queues: usize) -> Self {
        let cluster = RedisCluster::start();
        for node in cluster.nodes() {
            node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
        }
        let registers =
            ["sukkal:{janitor}", "sukkal:layout", "sukkal:{projects}"].map(|key| cluster.node_of(key).port());
        let dead = cluster.nodes().iter().map(RedisServer::port).find(|port| !registers.contains(port));
        let dead = dead.expect("the keys of the registers are on two nodes");
        let lives = |project: &String| cluster.node_of(&format!("sukkal:{{{project}}}:queues")).port() != dead;
        let project = (0..1_000).map(|number| format!("p{number}")).find(lives).unwrap();
        let sukkal = Sukkal::start_with(&cluster.url(), &[("SUKKAL_JANITOR__PAUSE", "86400"), MOVABLE_CLOCK]);
        let janitor = "sukkal:{janitor}";
        block_until("the janitor has finished a round", || {
            cluster.node_of(janitor).command(&["HEXISTS", janitor, "w"]).as_int() == 1
        });
        let scene = Self { cluster, dead, project, sukkal };
        let api = scene.sukkal.project(&scene.project);
        for queue in 0..queues {
            let batch = json!({ "messages": [{ "ttl": 60, "body": "short-lived" }] });
            answered(api.post(&format!("/v2/queues/q{queue}/messages"), &batch), 201).await;
        }
        let on_dead = (0..queues).filter(|queue| scene.is_on_killed_node(&format!("q{queue}"))).count();
        assert!(on_dead > 0 && on_dead < queues, "{on_dead} queues on one node");
        scene
    }

    fn dead(&self) -> &RedisServer {
        self.cluster.nodes().iter().find(|node| node.port() == self.dead).unwrap()
    }

    /// Asks the node that will be killed whether it has the queue.
    fn is_on_killed_node(&self, queue: &str) -> bool {
        self.cluster.node_of(&format!("sukkal:{{{}/{queue}}}:queue", self.project)).port() == self.dead
    }
}
