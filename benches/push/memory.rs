//! The memory of subscriptions without messages.

use serde_json::json;
use tokio::time::sleep;

use crate::contestant::Contestant;
use crate::deployment::{Deployment, SUKKAL, Service, UNTIL_IDLE};
use crate::figures::Table;

const QUEUES: usize = 10;
const WARM_UP_SUBSCRIPTIONS: usize = 1_000;

pub(crate) async fn measure(is_quick: bool) -> String {
    let subscriptions = if is_quick { 1_000 } else { 10_000 };
    let mut table = Table::new(&["service", "service, bytes", "Redis, bytes"]);
    for service in SUKKAL {
        let contestant = Contestant::start(service.name(), per_subscription(service, subscriptions)).await;
        table.add(vec![contestant.name.to_owned()], contestant.figures(|figures| figures));
    }
    format!(
        "\n## Memory of an idle subscription\n\n{subscriptions} subscriptions of {QUEUES} queues, after \
         {WARM_UP_SUBSCRIPTIONS} others. A figure of 0 or below means that the process had enough free memory.\n\n{}",
        table.into_text()
    )
}

async fn per_subscription(service: Service, subscriptions: usize) -> Result<Vec<String>, String> {
    let deployment = Deployment::start(service).await;
    let url = |number: usize| format!("http://127.0.0.1:9999/{number}");
    // The first ones fill the caches of the process.
    let first = (0..WARM_UP_SUBSCRIPTIONS).map(|number| ("warm".to_owned(), url(number)));
    deployment.subscribe(first, &json!({})).await?;
    sleep(UNTIL_IDLE).await;
    let before = deployment.memory_bytes();
    let others = (0..subscriptions).map(|number| (format!("q{}", number % QUEUES), url(number)));
    deployment.subscribe(others, &json!({})).await?;
    sleep(UNTIL_IDLE).await;
    let after = deployment.memory_bytes();
    let per_subscription = |before: f64, after: f64| format!("{:.0}", (after - before) / subscriptions as f64);
    Ok(vec![per_subscription(before.0, after.0), per_subscription(before.1, after.1)])
}
