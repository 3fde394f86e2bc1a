//! Memory of a message in Redis: how much the total memory grows with the number of messages.

use super::{KB, Pace, SMALL};
use crate::versus::contestants::Contestant;
use crate::versus::results::Measure;

pub(crate) const OF_KB: &str = "bytes per message of 1 KB";
pub(crate) const OF_SMALL: &str = "of 100 B";
/// Redis allocates memory in size classes. A size slightly below the limit of a class in one layout
/// may be above it in another.
const COLUMNS: [(&str, usize); 3] = [(OF_KB, KB), ("of 1 000 B", 1000), (OF_SMALL, SMALL)];
const BATCH: usize = 10;

pub(super) async fn per_message(pace: Pace) -> Measure {
    let title = format!("Memory in Redis per message, by {} messages posted over HTTP", pace.weighed);
    let mut measure = Measure::new("bytes", title);
    for contestant in [Contestant::sukkal_over_redis(), Contestant::zaqar().await] {
        let mut sample = Vec::new();
        for (column, bytes) in COLUMNS {
            contestant.reset(1).await;
            // Allocates what is needed only once: caches, connections, the queue.
            contestant.fill_over_http(BATCH * 100, bytes, BATCH).await;
            let before = contestant.store.info("memory", "used_memory");
            contestant.fill_over_http(pace.weighed, bytes, BATCH).await;
            let grown = contestant.store.info("memory", "used_memory") - before;
            sample.push((column, grown / pace.weighed as f64));
        }
        measure.add(contestant.name, sample);
    }
    measure
}
