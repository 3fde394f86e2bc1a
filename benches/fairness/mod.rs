//! Measures the benefit and the cost of fair queues. `--write` writes `docs/fairness.md` and
//! `docs/fairness.svg`.

mod costs;
mod deployment;
mod flood;
mod plot;

use std::fmt::Write as _;

use self::costs::Effort;
use self::deployment::Deployment;
use crate::report::Report;
use crate::service::Store;
use crate::{COMMAND, DocumentOptions};

pub(crate) async fn run(options: &DocumentOptions, report: &mut Report) {
    let length = options.length(report);
    write!(
        report,
        "# Benefit and cost of fair queues\n\nWritten by `{COMMAND} fairness --write`. Clients, servers and \
         stores share the cores of one machine. \"Beside 1 shard\" is the ratio to a queue with one shard: the median of the \
         ratios in each round.\n"
    )
    .unwrap();
    let stores = [Store::redis as fn() -> Store, Store::cluster, Store::embedded];
    let deployments = stores[..length.choose(3, 3, 1)].iter().map(|store| Deployment::start(store()));
    let deployments: Vec<_> = deployments.collect();
    let floods = flood::measure(report, &deployments, length.choose(100_000, 5_000, 1_000)).await;
    let effort = Effort { rounds: length.choose(9, 3, 1), divisor: length.choose(1, 1, 100) };
    costs::of_empty_polls(report, &deployments, effort).await;
    costs::of_pages(report, &deployments, effort).await;
    costs::of_posts_and_claims(report, &deployments, effort).await;
    if options.write {
        report.write("fairness.md");
        report.write_plot("fairness.svg", plot::of(&floods));
    }
}
