//! The goals for performance, and whether they are reached.

use super::contestants::{NATIVE, STORE, SUKKAL, SUKKAL_DURABLE, SUKKAL_EMBEDDED, ZAQAR};
use super::measures::{bytes, claims, embedded, idle, posts, size};
use super::results::{Results, shown};

/// One row of the table of goals.
pub(crate) struct Goal {
    pub(crate) measure: &'static str,
    pub(crate) wanted: &'static str,
    /// Returns the figures with their bounds, or `None` if they were not measured.
    parts: fn(&Results) -> Option<Vec<Part>>,
}

/// A figure and its bound.
struct Part {
    reached: f64,
    bound: Bound,
    unit: &'static str,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

use Bound::{AtLeast, AtMost};

impl Goal {
    /// Returns the figures that were reached, and whether the goal is met.
    pub(crate) fn reached(&self, results: &Results) -> Option<(String, bool)> {
        let parts = (self.parts)(results)?;
        let met = parts.iter().all(|part| match part.bound {
            AtLeast(bound) => part.reached >= bound,
            AtMost(bound) => part.reached <= bound,
        });
        let texts: Vec<_> = parts.iter().map(Part::text).collect();
        Some((texts.join(", "), met))
    }
}

impl Part {
    fn text(&self) -> String {
        // A factor by which a figure is smaller is shown as a fraction.
        if self.unit.ends_with("1/") {
            return self.unit.replace("1/", &format!("1/{}", shown(self.reached)));
        }
        format!("{} {}", shown(self.reached), self.unit).trim_end().to_owned()
    }
}

fn part(reached: f64, bound: Bound, unit: &'static str) -> Part {
    Part { reached, bound, unit }
}

/// Ratio of a figure of Sukkal to that of another contestant.
fn ratio(results: &Results, measure: &str, ours: &str, theirs: &str, column: &str) -> Option<f64> {
    Some(results.figure(measure, ours, column)? / results.figure(measure, theirs, column)?)
}

fn rate(results: &Results, measure: &str, ours: &str, theirs: &str) -> Option<f64> {
    ratio(results, measure, ours, theirs, "req/s")
}

/// Factor by which a figure of Sukkal is smaller than that of Zaqar.
fn less(results: &Results, measure: &str, column: &str) -> Option<f64> {
    ratio(results, measure, ZAQAR, SUKKAL, column)
}

fn cpu(results: &Results, measure: &str, contestant: &str) -> Option<f64> {
    let of = |column| results.figure(measure, contestant, column);
    Some(of("service µs")? + of("Redis µs").unwrap_or_default())
}

/// Factor by which the processor time of service and store is smaller than with Zaqar.
fn less_cpu(results: &Results, measure: &str, bound: f64) -> Option<Vec<Part>> {
    let ratio = cpu(results, measure, ZAQAR)? / cpu(results, measure, SUKKAL)?;
    Some(vec![part(ratio, AtLeast(bound), "×")])
}

/// Ratio of the processor time of Redis to that of its own stream commands.
fn above_native(results: &Results, measure: &str, bound: f64) -> Option<Vec<Part>> {
    Some(vec![part(ratio(results, measure, SUKKAL, NATIVE, "Redis µs")?, AtMost(bound), "×")])
}

/// All goals.
pub(crate) const GOALS: [Goal; 21] = [
    Goal {
        measure: "POST of one 1 KB message, 64 connections",
        wanted: "≥ 25 × req/s, p99 ≤ 1/15",
        parts: |r| {
            Some(vec![
                part(rate(r, "post-64", SUKKAL, ZAQAR)?, AtLeast(25.0), "× req/s"),
                part(less(r, "post-64", "p99 ms")?, AtLeast(15.0), "p99 1/"),
            ])
        },
    },
    Goal {
        measure: "the same, 3 000 connections",
        wanted: "≥ 20 × req/s, p99 ≤ 1/20, max ≤ 1/30",
        parts: |r| {
            Some(vec![
                part(rate(r, "post-3000", SUKKAL, ZAQAR)?, AtLeast(20.0), "× req/s"),
                part(less(r, "post-3000", "p99 ms")?, AtLeast(20.0), "p99 1/"),
                part(less(r, "post-3000", "max ms")?, AtLeast(30.0), "max 1/"),
            ])
        },
    },
    Goal {
        measure: "CPU per POST, service + Redis",
        wanted: "≤ 22 µs",
        parts: |r| Some(vec![part(cpu(r, "post-64", SUKKAL)?, AtMost(22.0), "µs")]),
    },
    Goal {
        measure: "CPU of service + store per POST, Zaqar ÷ Sukkal",
        wanted: "≥ 40 ×",
        parts: |r| less_cpu(r, "post-64", 40.0),
    },
    Goal {
        measure: "the same per list of 10 after a marker", wanted: "≥ 20 ×", parts: |r| less_cpu(r, "list", 20.0)
    },
    Goal { measure: "the same per claim of 10 + delete", wanted: "≥ 35 ×", parts: |r| less_cpu(r, "claim", 35.0) },
    Goal {
        measure: "CPU of Redis per POST, Sukkal ÷ XADD",
        wanted: "≤ 2 ×",
        parts: |r| above_native(r, "post-64", 2.0),
    },
    Goal {
        measure: "the same per list of 10 after a marker, ÷ XRANGE",
        wanted: "≤ 2.5 ×",
        parts: |r| above_native(r, "list", 2.5),
    },
    Goal {
        measure: "the same per claim of 10 + delete, ÷ XREADGROUP, XACK and XDEL",
        wanted: "≤ 2.5 ×",
        parts: |r| above_native(r, "claim", 2.5),
    },
    Goal {
        measure: "list of 10 after a marker",
        wanted: "≥ 22 ×",
        parts: |r| Some(vec![part(rate(r, "list", SUKKAL, ZAQAR)?, AtLeast(22.0), "×")]),
    },
    Goal {
        measure: "claim of 10 + delete",
        wanted: "≥ 25 ×",
        parts: |r| Some(vec![part(rate(r, "claim", SUKKAL, ZAQAR)?, AtLeast(25.0), "×")]),
    },
    Goal {
        measure: "claim of 10 with 100 000 claimed ahead ÷ with none ahead: mean latency, CPU of service + Redis",
        wanted: "≤ 1.2",
        parts: |r| {
            let (many, none) = (claims::MANY_AHEAD, claims::NONE_AHEAD);
            Some(vec![
                part(ratio(r, "claim-ahead", many, none, "mean ms")?, AtMost(1.2), ""),
                part(cpu(r, "claim-ahead", many)? / cpu(r, "claim-ahead", none)?, AtMost(1.2), ""),
            ])
        },
    },
    Goal {
        measure: "1 000 queues at random ÷ one queue",
        wanted: "≥ 0.8",
        parts: |r| Some(vec![part(rate(r, "queues", posts::MANY_QUEUES, posts::ONE_QUEUE)?, AtLeast(0.8), "")]),
    },
    Goal {
        measure: "bytes in Redis per message, all told, 1 KB / 100 B",
        wanted: "≤ 0.62 / ≤ 0.35",
        parts: |r| {
            let of = |column| ratio(r, "bytes", SUKKAL, ZAQAR, column);
            Some(vec![part(of(bytes::OF_KB)?, AtMost(0.62), ""), part(of(bytes::OF_SMALL)?, AtMost(0.35), "")])
        },
    },
    Goal {
        measure: "Redis AOF `always`, 64 connections, ratio to Zaqar without persistence",
        wanted: "≥ 12 ×",
        parts: |r| Some(vec![part(rate(r, "post-durable", SUKKAL_DURABLE, ZAQAR)?, AtLeast(12.0), "×")]),
    },
    Goal {
        measure: "memory at 3 000 keep-alive connections, idle after one post each",
        wanted: "≤ 60 MB",
        parts: |r| Some(vec![part(r.figure("idle", SUKKAL, idle::COLUMN)?, AtMost(60.0), "MB")]),
    },
    Goal {
        measure: "queue of 10 000 000 messages of 100 B: post, list, claim ÷ the same at 1 000, CPU of service + Redis",
        wanted: "≤ 1.3",
        parts: |r| {
            let of = |(_, column, _)| Some(part(ratio(r, "size", size::MANY, size::FEW, column)?, AtMost(1.3), ""));
            size::COLUMNS.into_iter().map(of).collect()
        },
    },
    Goal {
        measure: "without a server, every write on disk: POST, 64 connections, ratio to Zaqar without persistence",
        wanted: "≥ 12 ×",
        parts: |r| Some(vec![part(rate(r, "post-durable", SUKKAL_EMBEDDED, ZAQAR)?, AtLeast(12.0), "×")]),
    },
    Goal {
        measure: "without a server: list of 10 after a marker",
        wanted: "≥ 22 ×",
        parts: |r| Some(vec![part(rate(r, "list", SUKKAL_EMBEDDED, ZAQAR)?, AtLeast(22.0), "×")]),
    },
    Goal {
        measure: "without a server, every write on disk: claim of 10 + delete",
        wanted: "≥ 25 ×",
        parts: |r| Some(vec![part(rate(r, "claim", SUKKAL_EMBEDDED, ZAQAR)?, AtLeast(25.0), "×")]),
    },
    Goal {
        measure: "without a server, 1 000 000 messages: ready again after a SIGKILL under load",
        wanted: "≤ 1 s",
        parts: |r| Some(vec![part(r.figure("embedded-size", SUKKAL_EMBEDDED, embedded::RESTART)?, AtMost(1.0), "s")]),
    },
];

/// Ratio of the rate over HTTP to that of the store without HTTP.
pub(crate) fn share_of_store(results: &Results) -> Option<f64> {
    rate(results, "post-64", SUKKAL, STORE)
}
