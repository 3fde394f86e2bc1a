//! What a post costs in a queue whose subscriptions are paused.

use serde_json::json;
use tokio::time::sleep;

use super::SETTLE;
use super::contestant::Contestant;
use super::deployment::{Deployment, Service};
use super::figures::Table;
use crate::Length;
use crate::statistics::median;

const SUBSCRIPTIONS: [usize; 4] = [0, 1, 100, 1_000];
const WARM_UP_POSTS: usize = 20;

/// A service with a queue, its paused subscriptions, and the costs of a post in each round.
struct Run {
    deployment: Deployment,
    service_us: Vec<f64>,
    redis_us: Vec<f64>,
}

pub(crate) async fn measure(length: Length) -> String {
    let (rounds, posts) = length.choose((9, 300), (3, 100), (1, 10));
    let subscriptions = &SUBSCRIPTIONS[..length.choose(4, 4, 2)];
    let mut table = Table::new(&["service", "subscriptions", "service, µs/post", "Redis, µs/post"]);
    for &service in Service::sukkal(length) {
        let mut contestants = Vec::new();
        for &subscriptions in subscriptions {
            contestants.push(Contestant::start(service.name(), Run::start(service, subscriptions)).await);
        }
        for _ in 0..rounds {
            for contestant in &mut contestants {
                contestant.step(async |run: &mut Run| run.round(posts).await).await;
            }
        }
        for (contestant, subscriptions) in contestants.into_iter().zip(subscriptions) {
            let labels = vec![contestant.name.to_owned(), subscriptions.to_string()];
            table.add(labels, contestant.figures(Run::figures));
        }
    }
    format!(
        "\n### What subscriptions cost a post\n\nProcessor time of a post of one message: the median of {rounds} rounds \
         of {posts} posts, one after the other. The subscriptions are paused, so that only the post and its signal are \
         measured. The deployments take turns after each round.\n\n{}",
        table.into_text(length)
    )
}

impl Run {
    async fn start(service: Service, subscriptions: usize) -> Result<Self, String> {
        let deployment = Deployment::start(service).await;
        let subscribers = (0..subscriptions).map(|number| ("q".to_owned(), format!("http://127.0.0.1:9999/{number}")));
        let subscriptions = deployment.subscribe(subscribers, &json!({})).await?;
        deployment.pause(subscriptions).await?;
        for _ in 0..WARM_UP_POSTS {
            deployment.post("q", 0, 1).await?;
        }
        Ok(Self { deployment, service_us: Vec::new(), redis_us: Vec::new() })
    }

    async fn round(&mut self, posts: usize) -> Result<(), String> {
        sleep(SETTLE).await;
        let before = self.deployment.cpu();
        for _ in 0..posts {
            self.deployment.post("q", 0, 1).await?;
        }
        sleep(SETTLE).await;
        let after = self.deployment.cpu();
        self.service_us.push((after.service_us - before.service_us) / posts as f64);
        self.redis_us.push((after.redis_us - before.redis_us) / posts as f64);
        Ok(())
    }

    fn figures(self) -> Vec<String> {
        [self.service_us, self.redis_us].map(|costs| format!("{:.0}", median(costs))).into()
    }
}
