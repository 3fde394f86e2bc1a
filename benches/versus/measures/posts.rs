//! Posts one message in each request: compared with all contestants, with persistence, and to many
//! queues.

use super::{KB, Pace};
use crate::processes;
use crate::versus::contestants::{Contestant, NATIVE, RABBITMQ, STORE, sample};
use crate::versus::direct::Direct;
use crate::versus::native::Native;
use crate::versus::rabbitmq::RabbitMq;
use crate::versus::results::{Measure, Sample};
use crate::wrk::Load;

pub(crate) const ONE_QUEUE: &str = "one queue";
pub(crate) const MANY_QUEUES: &str = "1 000 queues at random";
const MANY: usize = 1000;
/// Minimum duration with thousands of connections, because slow contestants need this time to
/// answer each connection once.
const CROWD_SECONDS_MIN: u32 = 6;

impl Pace {
    /// Returns the load of the warm-up and the load that is measured.
    pub(super) fn loads(self, script: &'static str, arguments: &[String], connections: u32) -> [Load; 2] {
        let seconds = if connections > 1000 { self.seconds.max(CROWD_SECONDS_MIN) } else { self.seconds };
        [self.warmup_s, seconds].map(|seconds| Load { script, arguments: arguments.to_vec(), connections, seconds })
    }

    /// Measures posts to one queue for each contestant in turn.
    pub(super) async fn post_in_turns(
        self,
        mut measure: Measure,
        contestants: &[Contestant],
        connections: u32,
    ) -> Measure {
        for _ in 0..self.rounds {
            self.post_round(&mut measure, contestants, connections).await;
        }
        measure
    }

    async fn post_round(self, measure: &mut Measure, contestants: &[Contestant], connections: u32) {
        let [warmup, load] = self.loads("post", &[KB.to_string(), "1".to_owned()], connections);
        for contestant in contestants {
            contestant.reset(1).await;
            if !self.is_short {
                contestant.run(&warmup);
            }
            measure.add(contestant.name, contestant.run(&load));
        }
    }
}

/// Measures all contestants with an HTTP API, and the store without HTTP.
pub(super) async fn against_all(name: &'static str, connections: u32, pace: Pace) -> Measure {
    let mut measure = Measure::new(name, format!("POST of one message of 1 KB, {connections} connections"));
    let mut contestants = vec![Contestant::sukkal_over_redis()];
    let mut rabbitmq = Err("not measured".to_owned());
    if !pace.is_short {
        contestants.push(Contestant::sukkal_over_cluster());
        contestants.push(Contestant::zaqar().await);
        rabbitmq = RabbitMq::start().await;
    }
    let direct = Direct::start();
    let native = Native::start().await;
    for _ in 0..pace.rounds {
        pace.post_round(&mut measure, &contestants, connections).await;
        match &mut rabbitmq {
            Ok(node) => {
                node.create_queue().await.unwrap();
                let [warmup, load] = pace.loads("publish", &[KB.to_string()], connections);
                warmup.send_to(&node.url);
                measure.add(RABBITMQ, node.run(&load));
            }
            Err(reason) => measure.miss(RABBITMQ, reason),
        }
        measure.add(STORE, direct.post(KB, pace.seconds).await);
        measure.add(NATIVE, native.post(KB, pace.seconds).await);
    }
    measure
}

impl RabbitMq {
    fn run(&self, load: &Load) -> Sample {
        let before_s = processes::cpu_s(&[self.process()]);
        let outcome = load.send_to(&self.url);
        let service_s = processes::cpu_s(&[self.process()]) - before_s;
        processes::wait_until_idle(&[self.process()]);
        sample(&outcome, service_s, None)
    }
}

/// Compares Sukkal with durable writes and Zaqar without persistence.
pub(super) async fn durable(pace: Pace) -> Measure {
    let title = "POST of one message of 1 KB, 64 connections; with Sukkal every write is on disk, with Zaqar none";
    let contestants = [Contestant::sukkal_durable(), Contestant::sukkal_embedded(), Contestant::zaqar().await];
    pace.post_in_turns(Measure::new("post-durable", title), &contestants, 64).await
}

/// Measures posts of a client that has the service to itself.
pub(super) async fn alone(pace: Pace) -> Measure {
    let measure = Measure::new("post-1", "POST of one message of 1 KB, 1 connection");
    pace.post_in_turns(measure, &[Contestant::sukkal_over_redis()], 1).await
}

/// Compares posts to one queue and to many queues.
pub(super) async fn to_many_queues(pace: Pace) -> Measure {
    let sukkal = Contestant::sukkal_over_redis();
    let mut measure = Measure::new("queues", "POST of one message of 1 KB, 64 connections, Sukkal");
    for _ in 0..pace.rounds {
        for (row, queues) in [(ONE_QUEUE, 1), (MANY_QUEUES, MANY)] {
            sukkal.reset(queues).await;
            let [warmup, load] = pace.loads("post", &[KB.to_string(), queues.to_string()], 64);
            sukkal.run(&warmup);
            measure.add(row, sukkal.run(&load));
        }
    }
    measure
}
