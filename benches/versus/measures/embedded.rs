//! The embedded store with a million messages: memory, disk, and the time until a killed process is
//! ready again.

use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::{KB, Pace};
use crate::processes;
use crate::versus::contestants::Contestant;
use crate::versus::results::Measure;
use support::sukkal::Api;

const BATCH: usize = 20;
const MEGA: f64 = 1e6;
pub(crate) const RESTART: &str = "s until ready after SIGKILL";
const PRODUCERS: usize = 16;
/// Number of posts that are answered before the process is killed.
const ANSWERS: usize = 500;

pub(super) async fn with_many(pace: Pace) -> Measure {
    let mut sukkal = Contestant::sukkal_embedded();
    let title = format!(
        "Sukkal without a server, with {} messages of 1 KB posted over HTTP, killed while more are posted",
        crate::versus::results::shown(pace.embedded as f64)
    );
    let mut measure = Measure::new("embedded-size", title);
    sukkal.reset(1).await;
    sukkal.fill_over_http(pace.embedded, KB, BATCH).await;
    let resident = processes::resident_bytes(&sukkal.service) / MEGA;
    let file = sukkal.store.file_bytes() as f64;
    for _ in 0..pace.rounds {
        let sample = vec![
            ("MB in memory", resident),
            ("MB on disk", file / MEGA),
            ("bytes on disk per message", file / pace.embedded as f64),
            (RESTART, killed_under_load(&mut sukkal).await),
        ];
        measure.add(sukkal.name, sample);
    }
    measure
}

/// Kills the service during posts. Returns the seconds until it is ready again.
async fn killed_under_load(sukkal: &mut Contestant) -> f64 {
    let (posted, mut posts) = unbounded_channel();
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        producers.spawn(produce(sukkal.api(), posted.clone()));
    }
    drop(posted);
    for _ in 0..ANSWERS {
        posts.recv().await.expect("producers post");
    }
    let ready_s = sukkal.restart().await;
    producers.join_all().await;
    ready_s
}

/// Posts until the service does not respond.
async fn produce(api: Api, posted: UnboundedSender<()>) {
    let document = json!({"messages": [{"ttl": 3600, "body": "x".repeat(KB)}]});
    while let Ok(reply) = api.post("/v2/queues/q-0/messages", &document).send().await {
        assert_eq!(reply.status(), 201);
        let _receiver_is_gone = posted.send(());
    }
}
