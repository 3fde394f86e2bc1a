//! Memory of a service with many idle connections.

use std::time::Duration;

use tokio::time::sleep;

use super::{KB, Pace};
use crate::contestants::Contestant;
use crate::idle::post_on_each;
use crate::processes;
use crate::results::Measure;

pub(crate) const COLUMN: &str = "MB with them";
const CONNECTIONS: usize = 3000;
const MEGA: f64 = 1e6;
/// Pause for work that ends shortly after the responses.
const REST: Duration = Duration::from_secs(2);

pub(super) async fn connections(pace: Pace) -> Measure {
    let title = "Resident memory of the service, 3 000 keep-alive connections, idle after one POST of 1 KB each";
    let mut measure = Measure::new("idle", title);
    for _ in 0..pace.rounds {
        for contestant in [Contestant::sukkal_over_redis(), Contestant::zaqar().await] {
            contestant.reset(1).await;
            let before = processes::resident_bytes(&contestant.service);
            let open = post_on_each(&contestant.url, CONNECTIONS, KB).await;
            sleep(REST).await;
            let after = processes::resident_bytes(&contestant.service);
            assert_eq!(open.len(), CONNECTIONS);
            measure.add(contestant.name, vec![("MB before", before / MEGA), (COLUMN, after / MEGA)]);
        }
    }
    measure
}
