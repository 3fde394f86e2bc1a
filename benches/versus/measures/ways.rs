//! Compares four ways to post in the service: WATCH and retry, two steps, one script for each
//! request, and one script for all requests that wait at the same time (group commit).

use super::Pace;
use crate::versus::contestants::Contestant;
use crate::versus::results::Measure;

pub(crate) const WATCH: &str = "WATCH and retry";
pub(crate) const TWO_STEPS: &str = "two steps";
pub(crate) const ONE_SCRIPT: &str = "one script a request";
pub(crate) const GROUP_COMMIT: &str = "group commit";

/// The best number of connections. With more, attempts conflict more often (32 connections have a
/// third of the throughput). third of it).
const WATCHING_CONNECTIONS: usize = 2;

pub(super) async fn side_by_side(name: &'static str, connections: u32, pace: Pace) -> Measure {
    let plural = if connections == 1 { "" } else { "s" };
    let title = format!("Ways to post one message of 1 KB in our own service, {connections} connection{plural}");
    let contestants = [
        Contestant::variant(WATCH, &format!("watch:{WATCHING_CONNECTIONS}")),
        Contestant::variant(TWO_STEPS, "two-steps"),
        Contestant::variant(ONE_SCRIPT, "one-script"),
        Contestant::variant(GROUP_COMMIT, "group-commit"),
    ];
    pace.post_in_turns(Measure::new(name, title), &contestants, connections).await
}
