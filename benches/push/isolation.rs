//! How dead subscribers affect the others.

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::contestant::Contestant;
use super::deployment::{Deployment, Service, until_idle};
use super::endpoint::{Endpoint, dead_subscribers};
use super::figures::Table;
use crate::Length;
use crate::statistics::percentile;

const PER_QUEUE: usize = 10;
/// Every tenth queue is marked. In one of two deployments, the marked queues have a dead
/// subscriber.
const MARKED: usize = 10;

/// A service with its subscriptions, and the times of notifications, in milliseconds.
struct Run {
    deployment: Deployment,
    endpoint: Endpoint,
    has_dead: bool,
    in_marked: Vec<f64>,
    elsewhere: Vec<f64>,
}

pub(crate) async fn measure(length: Length) -> String {
    // The first round is not measured, because it opens connections and fills caches.
    let (queues, rounds) = length.choose((1_000, 6), (100, 6), (10, 2));
    let mut table = Table::new(&["service", "queues", "dead subscribers", "deliveries", "p50, ms", "p99, ms"]);
    for &service in Service::sukkal(length) {
        let mut contestants = Vec::new();
        for has_dead in [false, true] {
            contestants.push(Contestant::start(service.name(), Run::start(service, queues, has_dead)).await);
        }
        sleep(until_idle(length)).await;
        for round in 0..rounds {
            for queue in 0..queues {
                let number = round * queues as u64 + queue as u64;
                // They take turns at being first.
                let order = if (round + queue as u64).is_multiple_of(2) { [0, 1] } else { [1, 0] };
                for index in order {
                    contestants[index].step(async |run: &mut Run| run.post(queue, number, round > 0).await).await;
                }
            }
        }
        add_rows(&mut table, contestants, queues / MARKED);
    }
    format!(
        "\n### Dead subscribers\n\n{} subscriptions on {queues} queues. One message is posted to each queue, one after \
         the other, {} times. In one of two deployments, every tenth queue has a dead subscriber: it has an address of \
         its own, accepts connections and never answers. The deployments run side by side and take turns after each \
         message. The time is from the 201 to each notification of the other subscribers.\n\n{}",
        PER_QUEUE * queues,
        rounds - 1,
        table.into_text(length)
    )
}

fn add_rows(table: &mut Table, contestants: Vec<Contestant<Run>>, dead: usize) {
    let mut rows = [Vec::new(), Vec::new()];
    for (contestant, dead) in contestants.into_iter().zip([0, dead]) {
        let name = contestant.name;
        let figures = contestant.figures(|run| [run.in_marked, run.elsewhere].map(figures));
        for (row, queues) in ["every tenth", "the others"].into_iter().enumerate() {
            let labels = [name, queues, &dead.to_string()].map(str::to_owned).into();
            rows[row].push((labels, figures.clone().map(|figures| figures[row].clone())));
        }
    }
    for (labels, figures) in rows.into_iter().flatten() {
        table.add(labels, figures);
    }
}

fn figures(mut times: Vec<f64>) -> Vec<String> {
    let at = [50, 99].map(|percent| format!("{:.2}", percentile(&mut times, percent)));
    [times.len().to_string()].into_iter().chain(at).collect()
}

impl Run {
    async fn start(service: Service, queues: usize, has_dead: bool) -> Result<Self, String> {
        let (deployment, endpoint) = (Deployment::start(service).await, Endpoint::start().await);
        let dead_urls = dead_subscribers(if has_dead { queues / MARKED } else { 0 }).await;
        let subscribers = (0..queues).flat_map(|queue| {
            let (dead_url, url) = (dead_urls.get(queue / MARKED).filter(|_| is_marked(queue)), &endpoint.url);
            (0..PER_QUEUE).map(move |subscriber| {
                let url = dead_url.filter(|_| subscriber == 0).unwrap_or(url);
                (format!("q{queue}"), format!("{url}/{subscriber}"))
            })
        });
        deployment.subscribe(subscribers, &json!({})).await?;
        Ok(Self { deployment, endpoint, has_dead, in_marked: Vec::new(), elsewhere: Vec::new() })
    }

    async fn post(&mut self, queue: usize, number: u64, is_measured: bool) -> Result<(), String> {
        self.deployment.post(&format!("q{queue}"), number, 1).await?;
        let answered = Instant::now();
        let is_beside_dead = self.has_dead && is_marked(queue);
        let arrivals = self.endpoint.wait_for_each(number, PER_QUEUE - usize::from(is_beside_dead)).await?;
        if is_measured {
            let times = if is_marked(queue) { &mut self.in_marked } else { &mut self.elsewhere };
            times.extend(arrivals.iter().map(|at| at.saturating_duration_since(answered).as_secs_f64() * 1e3));
        }
        Ok(())
    }
}

fn is_marked(queue: usize) -> bool {
    queue.is_multiple_of(MARKED)
}
