//! What a million messages need without a server: memory, disk, and time until a process that was killed is back.

use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::{KB, Pace};
use crate::contestants::Contestant;
use crate::processes;
use crate::results::Measure;
use crate::support::sukkal::Api;

const BATCH: usize = 20;
const MEGA: f64 = 1e6;
pub(crate) const RESTART: &str = "s until ready after SIGKILL";
const PRODUCERS: usize = 16;
/// How many posts are answered before the process is killed.
const ANSWERS: usize = 500;

pub(super) async fn with_many(pace: Pace) -> Measure {
    let mut sukkal = Contestant::sukkal_embedded();
    let title = format!(
        "Sukkal without a server, with {} messages of 1 KB posted over HTTP, killed while more are posted",
        crate::results::shown(pace.embedded as f64)
    );
    let mut measure = Measure::new("embedded-size", title);
    sukkal.reset(1).await;
    sukkal.fill_over_http(pace.embedded, KB, BATCH).await;
    let resident = processes::resident_bytes(&sukkal.service) / MEGA;
    let file = sukkal.place.file_bytes() as f64;
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

/// Kills the service while it is posted to; how long it takes until it is ready again.
async fn killed_under_load(sukkal: &mut Contestant) -> f64 {
    let (tell, mut told) = unbounded_channel();
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        producers.spawn(produce(sukkal.api(), tell.clone()));
    }
    drop(tell);
    for _ in 0..ANSWERS {
        told.recv().await.expect("somebody posts");
    }
    let ready_s = sukkal.restart().await;
    producers.join_all().await;
    ready_s
}

/// Posts until nobody answers.
async fn produce(api: Api, tell: UnboundedSender<()>) {
    let document = json!({"messages": [{"ttl": 3600, "body": "x".repeat(KB)}]});
    while let Ok(reply) = api.post("/v2/queues/q-0/messages", &document).send().await {
        assert_eq!(reply.status(), 201);
        let _enough = tell.send(());
    }
}
