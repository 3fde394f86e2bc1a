//! What a million messages need without a server: memory and disk.

use super::{KB, Pace};
use crate::contestants::Contestant;
use crate::processes;
use crate::results::Measure;

const BATCH: usize = 20;
const MEGA: f64 = 1e6;

pub(super) async fn with_many(pace: Pace) -> Measure {
    let sukkal = Contestant::sukkal_embedded();
    let title = format!(
        "Sukkal without a server, with {} messages of 1 KB posted over HTTP",
        crate::results::shown(pace.embedded as f64)
    );
    let mut measure = Measure::new("embedded-size", title);
    sukkal.reset(1).await;
    sukkal.fill_over_http(pace.embedded, KB, BATCH).await;
    let resident = processes::resident_bytes(&sukkal.service) / MEGA;
    let file = sukkal.place.file_bytes() as f64;
    let sample = vec![
        ("MB in memory", resident),
        ("MB on disk", file / MEGA),
        ("bytes on disk per message", file / pace.embedded as f64),
    ];
    measure.add(sukkal.name, sample);
    measure
}
