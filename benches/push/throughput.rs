//! How fast messages of one queue are delivered.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::SETTLE;
use super::contestant::Contestant;
use super::deployment::{Deployment, Service};
use super::endpoint::Endpoint;
use super::figures::Table;
use crate::Length;
use crate::statistics::median;

/// Number of posts at the same time.
const CLIENTS: usize = 4;
const MESSAGES_PER_POST_MAX: usize = 20;
/// Enough that each process of Zaqar has posted once.
const WARM_UP_POSTS: usize = 8;

/// A service with a queue, its subscriptions, and the figures of each round.
struct Run {
    deployment: Deployment,
    endpoint: Endpoint,
    subscriptions: usize,
    /// Number of messages in a round.
    messages: usize,
    deliveries_per_s: Vec<f64>,
    service_us: Vec<f64>,
    redis_us: Vec<f64>,
}

pub(crate) async fn measure(length: Length) -> String {
    let rounds = length.choose(5, 3, 1);
    let mut table = Table::new(&[
        "service",
        "subscriptions",
        "deliveries in a round",
        "deliveries/s",
        "service, µs/delivery",
        "Redis, µs/delivery",
    ]);
    for subscriptions in [1, length.choose(1_000, 1_000, 10)] {
        let mut contestants = Vec::new();
        for &service in Service::all(length) {
            let start = Run::start(service, subscriptions, messages(service, subscriptions, length));
            contestants.push(Contestant::start(service.name(), start).await);
        }
        for round in 1..=rounds {
            for contestant in &mut contestants {
                contestant.step(async |run: &mut Run| run.round(round).await).await;
            }
        }
        for contestant in contestants {
            let labels = vec![contestant.name.to_owned(), subscriptions.to_string()];
            table.add(labels, contestant.figures(Run::figures));
        }
    }
    format!(
        "\n### Throughput\n\nMessages of 100 bytes are posted to one queue by {CLIENTS} clients. A request has up to \
         {MESSAGES_PER_POST_MAX} messages. The time is from the first post to the last notification. The processor \
         time includes the posts. Each figure is the median of {rounds} rounds, in which the services take turns. All \
         subscribers are one host, so Sukkal uses at most 64 connections. Zaqar opens a connection for each \
         notification. It waits 10 s for a reply of Redis, not 0.1 s as by default: with that limit, one late reply \
         makes a request fail.\n\n{}",
        table.into_text(length)
    )
}

/// Returns the number of messages in a round. A round takes some seconds if the run is full.
fn messages(service: Service, subscriptions: usize, length: Length) -> usize {
    let messages = match (service, subscriptions) {
        (Service::Zaqar, 1) => 4_000,
        (Service::Zaqar, _) => 8,
        (_, 1) => 40_000,
        (_, _) => 80,
    };
    length.choose(messages, messages / 4, messages / 40)
}

impl Run {
    async fn start(service: Service, subscriptions: usize, messages: usize) -> Result<Self, String> {
        let (deployment, mut endpoint) = (Deployment::start(service).await, Endpoint::start().await);
        let subscribers = (0..subscriptions).map(|number| ("q".to_owned(), format!("{}/{number}", endpoint.url)));
        deployment.subscribe(subscribers, &json!({ "concurrency": 64 })).await?;
        for _ in 0..WARM_UP_POSTS {
            deployment.post("q", 0, 1).await?;
        }
        endpoint.wait_for(0, WARM_UP_POSTS * subscriptions).await?;
        let (deliveries_per_s, service_us, redis_us) = Default::default();
        Ok(Self { deployment, endpoint, subscriptions, messages, deliveries_per_s, service_us, redis_us })
    }

    /// Posts messages whose number is that of the round.
    async fn round(&mut self, round: u64) -> Result<(), String> {
        sleep(SETTLE).await;
        let (began, before) = (Instant::now(), self.deployment.cpu());
        let per_post = self.messages.div_ceil(CLIENTS).min(MESSAGES_PER_POST_MAX);
        let posts = (0..self.messages / per_post).map(async |_| self.deployment.post("q", round, per_post).await);
        stream::iter(posts).buffer_unordered(CLIENTS).try_collect::<()>().await?;
        let deliveries = self.messages / per_post * per_post * self.subscriptions;
        let last = self.endpoint.wait_for(round, deliveries).await?;
        sleep(SETTLE).await;
        let after = self.deployment.cpu();

        let deliveries = deliveries as f64;
        self.deliveries_per_s.push(deliveries / last.duration_since(began).as_secs_f64());
        self.service_us.push((after.service_us - before.service_us) / deliveries);
        self.redis_us.push((after.redis_us - before.redis_us) / deliveries);
        Ok(())
    }

    fn figures(self) -> Vec<String> {
        let deliveries = self.messages * self.subscriptions;
        let medians = [self.deliveries_per_s, self.service_us, self.redis_us].map(median);
        [deliveries.to_string()].into_iter().chain(medians.map(|figure| format!("{figure:.0}"))).collect()
    }
}
