//! Four ways to post in our own service: by WATCH and retry, in two steps, in one script a request, and in one
//! script for the requests that wait together.

use super::Pace;
use crate::contestants::Contestant;
use crate::results::Measure;

pub(crate) const WATCH: &str = "WATCH and retry";
pub(crate) const TWO_STEPS: &str = "two steps";
pub(crate) const ONE_SCRIPT: &str = "one script a request";
pub(crate) const GROUP_COMMIT: &str = "group commit";

/// What did best: with more connections the attempts overtake each other more often (32 take a third of it).
const WATCHING_CONNECTIONS: usize = 2;

pub(super) async fn side_by_side(name: &'static str, connections: u32, pace: Pace) -> Measure {
    let plural = if connections == 1 { "" } else { "s" };
    let title = format!("Ways to post one message of 1 KB in our own service, {connections} connection{plural}");
    let contestants = [
        Contestant::front(WATCH, &format!("watch:{WATCHING_CONNECTIONS}")),
        Contestant::front(TWO_STEPS, "two-steps"),
        Contestant::front(ONE_SCRIPT, "one-script"),
        Contestant::front(GROUP_COMMIT, "group-commit"),
    ];
    pace.post_in_turns(Measure::new(name, title), &contestants, connections).await
}
