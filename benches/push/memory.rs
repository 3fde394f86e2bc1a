//! The memory of subscriptions without messages.

use serde_json::json;
use tokio::time::sleep;

use super::contestant::Contestant;
use super::deployment::{Deployment, Service, until_idle};
use super::figures::Table;
use crate::Length;

const QUEUES: usize = 10;

pub(crate) async fn measure(length: Length) -> String {
    let (warm_up, subscriptions) = length.choose((1_000, 10_000), (1_000, 1_000), (10, 10));
    let mut table = Table::new(&["service", "service, bytes", "Redis, bytes"]);
    for &service in Service::sukkal(length) {
        let contestant =
            Contestant::start(service.name(), per_subscription(service, length, warm_up, subscriptions)).await;
        table.add(vec![contestant.name.to_owned()], contestant.figures(|figures| figures));
    }
    format!(
        "\n### Memory of an idle subscription\n\n{subscriptions} subscriptions of {QUEUES} queues, after \
         {warm_up} others. A figure of 0 or below means that the process had enough free memory.\n\n{}",
        table.into_text(length)
    )
}

async fn per_subscription(
    service: Service,
    length: Length,
    warm_up: usize,
    subscriptions: usize,
) -> Result<Vec<String>, String> {
    let deployment = Deployment::start(service).await;
    let url = |number: usize| format!("http://127.0.0.1:9999/{number}");
    // The first ones fill the caches of the process.
    let first = (0..warm_up).map(|number| ("warm".to_owned(), url(number)));
    deployment.subscribe(first, &json!({})).await?;
    sleep(until_idle(length)).await;
    let before = deployment.memory_bytes();
    let others = (0..subscriptions).map(|number| (format!("q{}", number % QUEUES), url(number)));
    deployment.subscribe(others, &json!({})).await?;
    sleep(until_idle(length)).await;
    let after = deployment.memory_bytes();
    let per_subscription = |before: f64, after: f64| format!("{:.0}", (after - before) / subscriptions as f64);
    Ok(vec![per_subscription(before.0, after.0), per_subscription(before.1, after.1)])
}
