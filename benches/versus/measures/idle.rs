//! Memory of a service with many idle connections.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio::time::sleep;

use super::{KB, Pace};
use crate::client::Connection;
use crate::processes;
use crate::versus::contestants::Contestant;
use crate::versus::results::Measure;

pub(crate) const COLUMN: &str = "MB with them";
const CONNECTIONS: usize = 3000;
const MEGA: f64 = 1e6;
/// Pause for work that ends shortly after the responses.
const REST: Duration = Duration::from_secs(2);

pub(super) async fn connections(pace: Pace) -> Measure {
    let title = "Resident memory of the service, 3 000 keep-alive connections, idle after one POST of 1 KB each";
    let document = json!({ "messages": [{ "ttl": 3600, "body": "x".repeat(KB) }] }).to_string();
    let mut measure = Measure::new("idle", title);
    for _ in 0..pace.rounds {
        for contestant in [Contestant::sukkal_over_redis(), Contestant::zaqar().await] {
            contestant.reset(1).await;
            let before = processes::resident_bytes(&contestant.service);
            let mut open = Vec::new();
            for _ in 0..CONNECTIONS {
                open.push(Connection::open(&contestant.url).await);
            }
            let path = "/v2/queues/q-0/messages";
            join_all(open.iter_mut().map(|connection| connection.request("POST", path, &document))).await;
            sleep(REST).await;
            let after = processes::resident_bytes(&contestant.service);
            drop(open);
            measure.add(contestant.name, vec![("MB before", before / MEGA), (COLUMN, after / MEGA)]);
        }
    }
    measure
}
