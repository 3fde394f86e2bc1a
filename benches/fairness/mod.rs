//! Measures the benefit and the cost of fair queues. `--write` writes a section of
//! `docs/behavior-under-load.md`, and `docs/fairness.svg`.

mod costs;
mod deployment;
mod flood;
mod plot;

use self::costs::Effort;
use self::deployment::Deployment;
use crate::DocumentOptions;
use crate::report::Report;
use crate::service::Store;

pub(crate) async fn run(options: &DocumentOptions, report: &mut Report) {
    let length = options.length(report);
    let stores = [Store::redis as fn() -> Store, Store::cluster, Store::embedded];
    let deployments = stores[..length.choose(3, 3, 1)].iter().map(|store| Deployment::start(store()));
    let deployments: Vec<_> = deployments.collect();
    let floods = flood::measure(report, &deployments, length.choose(100_000, 5_000, 1_000)).await;
    let effort = Effort { rounds: length.choose(9, 3, 1), divisor: length.choose(1, 1, 100) };
    costs::of_empty_polls(report, &deployments, effort).await;
    costs::of_pages(report, &deployments, effort).await;
    costs::of_posts_and_claims(report, &deployments, effort).await;
    if options.write || report.is_short {
        report.write("behavior-under-load.md", "fairness");
        report.write_plot("fairness.svg", plot::of(&floods));
    }
}
