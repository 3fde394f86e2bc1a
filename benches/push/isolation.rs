//! How dead subscribers affect the others.

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::contestant::Contestant;
use crate::deployment::{Deployment, SUKKAL, Service, UNTIL_IDLE};
use crate::endpoint::{Endpoint, dead_subscribers};
use crate::figures::{Table, percentile};

const PER_QUEUE: usize = 10;
const ROUNDS: u64 = 3;

/// A service with its subscriptions, and the times of notifications, in milliseconds.
struct Run {
    deployment: Deployment,
    endpoint: Endpoint,
    /// The first queues have one dead subscriber each.
    dead: usize,
    beside_dead: Vec<f64>,
    elsewhere: Vec<f64>,
}

pub(crate) async fn measure(is_quick: bool) -> String {
    let (queues, dead) = if is_quick { (100, 10) } else { (1_000, 100) };
    let mut table = Table::new(&["service", "dead subscribers", "queues", "deliveries", "p50, ms", "p99, ms"]);
    for service in SUKKAL {
        let mut contestants = Vec::new();
        for dead in [0, dead] {
            contestants.push(Contestant::start(service.name(), Run::start(service, queues, dead)).await);
        }
        sleep(UNTIL_IDLE).await;
        for round in 0..ROUNDS {
            for queue in 0..queues {
                let number = round * queues as u64 + queue as u64;
                // They take turns at being first.
                let order = if (round + queue as u64).is_multiple_of(2) { [0, 1] } else { [1, 0] };
                for index in order {
                    contestants[index].step(async |run: &mut Run| run.post(queue, number).await).await;
                }
            }
        }
        add_rows(&mut table, contestants, dead);
    }
    format!(
        "\n## Dead subscribers\n\n{} subscriptions on {queues} queues. One message is posted to each queue, one after \
         the other, {ROUNDS} times. In one of two deployments, {dead} queues have a dead subscriber each: it has an \
         address of its own, accepts connections and never answers. The deployments run side by side and take turns \
         after each message. The time is from the 201 to each notification of the other subscribers.\n\n{}",
        PER_QUEUE * queues,
        table.into_text()
    )
}

fn add_rows(table: &mut Table, contestants: Vec<Contestant<Run>>, dead: usize) {
    for (contestant, dead) in contestants.into_iter().zip([0, dead]) {
        let labels = |queues: &str| vec![contestant.name.to_owned(), dead.to_string(), queues.to_owned()];
        let labels = if dead == 0 {
            vec![labels("all")]
        } else {
            vec![labels("without a dead subscriber"), labels("with a dead subscriber")]
        };
        let figures = contestant.figures(|run| [run.elsewhere, run.beside_dead].map(figures));
        for (row, labels) in labels.into_iter().enumerate() {
            table.add(labels, figures.clone().map(|figures| figures[row].clone()));
        }
    }
}

fn figures(mut times: Vec<f64>) -> Vec<String> {
    let at = [0.5, 0.99].map(|share| format!("{:.2}", percentile(&mut times, share)));
    [times.len().to_string()].into_iter().chain(at).collect()
}

impl Run {
    async fn start(service: Service, queues: usize, dead: usize) -> Result<Self, String> {
        let (deployment, endpoint) = (Deployment::start(service).await, Endpoint::start().await);
        let dead_urls = dead_subscribers(dead).await;
        let subscribers = (0..queues).flat_map(|queue| {
            let (dead_url, url) = (dead_urls.get(queue), &endpoint.url);
            (0..PER_QUEUE).map(move |subscriber| {
                let url = dead_url.filter(|_| subscriber == 0).unwrap_or(url);
                (format!("q{queue}"), format!("{url}/{subscriber}"))
            })
        });
        deployment.subscribe(subscribers, &json!({})).await?;
        Ok(Self { deployment, endpoint, dead, beside_dead: Vec::new(), elsewhere: Vec::new() })
    }

    async fn post(&mut self, queue: usize, number: u64) -> Result<(), String> {
        self.deployment.post(&format!("q{queue}"), number, 1).await?;
        let answered = Instant::now();
        let is_beside_dead = queue < self.dead;
        let arrivals = self.endpoint.wait_for_each(number, PER_QUEUE - usize::from(is_beside_dead)).await?;
        let times = if is_beside_dead { &mut self.beside_dead } else { &mut self.elsewhere };
        times.extend(arrivals.iter().map(|at| at.saturating_duration_since(answered).as_secs_f64() * 1e3));
        Ok(())
    }
}
