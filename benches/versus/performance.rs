//! Writes the sections of `docs/performance.md` that have results of this benchmark.

use std::fmt::Write as _;

use super::goals::{GOALS, share_of_store};
use super::measures::Pace;
use super::rabbitmq;
use super::results::{Results, shown};
use super::summary::summary;
use crate::report::{Report, command, date, field, output_of, processors};
use crate::service::info;
use crate::wrk;
use support::redis::RedisServer;

pub(crate) fn write(report: &Report, results: &Results, pace: Pace) {
    let tables: Vec<_> = results.measures.iter().map(|measure| format!("### {}", measure.table())).collect();
    let sections =
        [("summary", summary(results)), ("run", run(pace)), ("goals", goals(results)), ("tables", tables.join("\n"))];
    for (name, text) in sections {
        report.write_section("performance.md", name, &text);
    }
}

/// Returns the table of the goals that were measured.
pub(crate) fn goals(results: &Results) -> String {
    let mut table = "| measure | goal | reached | |\n|---|---|---|---|".to_owned();
    for goal in &GOALS {
        if let Some((reached, met)) = goal.reached(results) {
            let verdict = if met { "yes" } else { "**no**" };
            write!(table, "\n| {} | {} | {reached} | {verdict} |", goal.measure, goal.wanted).unwrap();
        }
    }
    if let Some(share) = share_of_store(results) {
        write!(table, "\n\nOver HTTP, Sukkal reaches {} of the rate of the store without HTTP.", shown(share)).unwrap();
    }
    table
}

/// Returns a table of when, where and how the results were measured.
fn run(pace: Pace) -> String {
    let redis = info(&RedisServer::start(), "server", "redis_version");
    let python = output_of("python3", &["--version"]);
    let missing = || "not installed".to_owned();
    [
        ("date", date()),
        ("command", command()),
        ("runs", format!("{} rounds of {} s", pace.rounds, pace.seconds)),
        ("cores", processors()),
        ("memory", field("/proc/meminfo", "MemTotal")),
        ("kernel", output_of("uname", &["-sr"])),
        ("Redis", redis),
        ("Zaqar", format!("23.0.1, {python}, {}", packages())),
        ("RabbitMQ", rabbitmq::version().unwrap_or_else(missing)),
        ("wrk", wrk::version().unwrap_or_else(missing)),
        ("rustc", output_of("rustc", &["--version"])),
    ]
    .map(|(what, value)| format!("| {what} | {value} |"))
    .into_iter()
    .fold("| | |\n|---|---|".to_owned(), |table, row| format!("{table}\n{row}"))
}

/// Returns the versions of Zaqar's packages that matter for its speed.
fn packages() -> String {
    let list = include_str!("../zaqar.txt");
    let matters = |line: &&str| {
        ["falcon", "hiredis", "pyuwsgi", "redis"].iter().any(|name| line.starts_with(&format!("{name}==")))
    };
    list.lines().filter(matters).map(|line| line.replace("==", " ")).collect::<Vec<_>>().join(", ")
}
