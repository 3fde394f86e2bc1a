//! What a message costs in memory, all told: what Redis holds after so many more of them.

use super::{KB, Pace, SMALL};
use crate::contestants::Contestant;
use crate::results::Measure;

pub(crate) const OF_KB: &str = "bytes per message of 1 KB";
pub(crate) const OF_SMALL: &str = "of 100 B";
/// Redis takes memory in steps: what is a little below a step in one layout may be above it in another.
const COLUMNS: [(&str, usize); 3] = [(OF_KB, KB), ("of 1 000 B", 1000), (OF_SMALL, SMALL)];
const BATCH: usize = 10;

pub(super) async fn per_message(pace: Pace) -> Measure {
    let title = format!("Memory in Redis per message, by {} messages posted over HTTP", pace.weighed);
    let mut measure = Measure::new("bytes", title);
    for contestant in [Contestant::sukkal_over_redis(), Contestant::zaqar().await] {
        let mut sample = Vec::new();
        for (column, bytes) in COLUMNS {
            contestant.reset(1).await;
            // What comes once only: caches, connections, the queue itself.
            contestant.fill_over_http(BATCH * 100, bytes, BATCH).await;
            let before = contestant.place.info("memory", "used_memory");
            contestant.fill_over_http(pace.weighed, bytes, BATCH).await;
            let grown = contestant.place.info("memory", "used_memory") - before;
            sample.push((column, grown / pace.weighed as f64));
        }
        measure.add(contestant.name, sample);
    }
    measure
}
