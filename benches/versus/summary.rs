//! The figures that most readers look for, which come first in the document.

use super::contestants::{SUKKAL, SUKKAL_EMBEDDED, ZAQAR};
use super::measures::idle;
use super::results::{Results, shown};

/// Returns the table, and the latency of a service that has nothing else to do.
pub(crate) fn summary(results: &Results) -> String {
    let figure = |measure, contestant, column, factor: f64| {
        results.figure(measure, contestant, column).map_or_else(|| "–".to_owned(), |value| shown(value * factor))
    };
    let row = |what: &str, cells: [String; 3]| format!("| {what} | {} |\n", cells.join(" | "));
    // Zaqar and Sukkal over Redis do not sync each write.
    let posts = [("post-64", SUKKAL), ("post-durable", SUKKAL_EMBEDDED), ("post-64", ZAQAR)];
    let [lists, claims, memory] = ["list", "claim", "idle"]
        .map(|measure| [SUKKAL, SUKKAL_EMBEDDED, ZAQAR].map(|contestant| (measure, contestant)));
    let latency = |(measure, contestant)| {
        let [median, most] = ["p50 ms", "p99 ms"].map(|column| figure(measure, contestant, column, 1.0));
        format!("{median} ms, {most} ms")
    };
    let table = [
        format!("| | {SUKKAL} over Redis | {SUKKAL_EMBEDDED} | {ZAQAR} |\n|---|---|---|---|\n"),
        row("posts of one message of 1 KB per second", posts.map(|(measure, one)| figure(measure, one, "req/s", 1.0))),
        row("lists of ten messages per second", lists.map(|(measure, one)| figure(measure, one, "req/s", 1.0))),
        // Every other request is a deletion.
        row(
            "claims of ten messages per second, each with the deletion of the ten",
            claims.map(|(measure, one)| figure(measure, one, "req/s", 0.5)),
        ),
        row("latency of a post: half of them below, 99 % below", posts.map(latency)),
        row(
            "memory of the service with 3 000 idle connections, in MB",
            memory.map(|(measure, one)| figure(measure, one, idle::COLUMN, 1.0)),
        ),
    ]
    .concat();
    let alone = figure("post-1", SUKKAL, "p50 ms", 1.0);
    format!("{table}\nWith one connection instead of 64, half of the posts over Redis take less than {alone} ms.")
}
