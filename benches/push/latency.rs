//! The time from the response to a post to the notification.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::contestant::Contestant;
use super::deployment::{Deployment, Service};
use super::endpoint::Endpoint;
use super::figures::Table;
use crate::Length;
use crate::statistics::percentile;

const WARM_UP_POSTS: u64 = 20;

/// A service with one subscription, and the times of each message, in milliseconds.
struct Run {
    deployment: Deployment,
    endpoint: Endpoint,
    from_request: Vec<f64>,
    from_response: Vec<f64>,
}

pub(crate) async fn measure(length: Length) -> String {
    let posts = length.choose(3_000, 200, 20);
    let mut contestants = Vec::new();
    for &service in Service::all(length) {
        contestants.push(Contestant::start(service.name(), Run::start(service)).await);
    }
    for number in 0..posts + WARM_UP_POSTS {
        for contestant in &mut contestants {
            contestant.step(async |run: &mut Run| run.post(number).await).await;
        }
    }
    let mut table = Table::new(&[
        "service",
        "from the 201, p50, ms",
        "from the 201, p99, ms",
        "from the request, p50, ms",
        "from the request, p99, ms",
    ]);
    for contestant in contestants {
        table.add(vec![contestant.name.to_owned()], contestant.figures(Run::figures));
    }
    format!(
        "\n### From the 201 to the endpoint\n\nOne subscription, {posts} messages one after the other. The services \
         take turns after each message. The time from the 201 is 0 if the notification comes before the response.\n\n{}",
        table.into_text(length)
    )
}

impl Run {
    async fn start(service: Service) -> Result<Self, String> {
        let (deployment, endpoint) = (Deployment::start(service).await, Endpoint::start().await);
        deployment.subscribe([("q".to_owned(), endpoint.url.clone())], &json!({})).await?;
        Ok(Self { deployment, endpoint, from_request: Vec::new(), from_response: Vec::new() })
    }

    async fn post(&mut self, number: u64) -> Result<(), String> {
        let asked = Instant::now();
        self.deployment.post("q", number, 1).await?;
        let answered = Instant::now();
        for at in self.endpoint.wait_for_each(number, 1).await? {
            if number >= WARM_UP_POSTS {
                self.from_request.push(at.duration_since(asked).as_secs_f64() * 1e3);
                self.from_response.push(at.saturating_duration_since(answered).as_secs_f64() * 1e3);
            }
        }
        sleep(Duration::from_millis(2)).await;
        Ok(())
    }

    fn figures(mut self) -> Vec<String> {
        let of = |times: &mut [f64]| [50, 99].map(|percent| format!("{:.2}", percentile(times, percent)));
        [of(&mut self.from_response), of(&mut self.from_request)].concat()
    }
}
