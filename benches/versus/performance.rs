//! Writes `docs/performance.md` from a template and the results. One part of it is written by hand.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use super::goals::{GOALS, share_of_store};
use super::measures::Pace;
use super::rabbitmq;
use super::results::{Results, shown};
use super::summary::summary;
use crate::report::Report;
use crate::service::info;
use crate::wrk;
use support::redis::RedisServer;

const TEMPLATE: &str = include_str!("performance.md");
const FILE: &str = "performance.md";
const BEGIN: &str = "<!-- By hand, from here -->";
const END: &str = "<!-- to here -->";

/// Writes the document, and keeps the text between the marks of the existing document.
pub(crate) fn write(report: &Report, results: &Results, pace: Pace) {
    let before = fs::read_to_string(support::root().join("docs").join(FILE)).unwrap_or_default();
    let by_hand = before.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map_or("\n", |(kept, _)| kept);
    let tables: Vec<_> = results.measures.iter().map(|measure| format!("### {}", measure.table())).collect();
    let text = TEMPLATE
        .replace("{summary}", &summary(results))
        .replace("{machine}", &machine())
        .replace("{rounds}", &pace.rounds.to_string())
        .replace("{seconds}", &pace.seconds.to_string())
        .replace("{goals}", &goals(results))
        .replace("{bounds}", &format!("{BEGIN}{by_hand}{END}"))
        .replace("{tables}", tables.join("\n").trim_end());
    report.write_file(FILE, &text);
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

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let redis = info(&RedisServer::start(), "server", "redis_version");
    let missing = || "not installed".to_owned();
    [
        ("cores", format!("{cores} × {}", field("/proc/cpuinfo", "model name"))),
        ("memory", field("/proc/meminfo", "MemTotal")),
        ("kernel", said("uname", &["-sr"])),
        ("Redis", redis),
        ("Zaqar", format!("23.0.1, {}, {}", said("python3", &["--version"]), packages())),
        ("RabbitMQ", rabbitmq::version().unwrap_or_else(missing)),
        ("wrk", wrk::version().unwrap_or_else(missing)),
        ("rustc", said("rustc", &["--version"])),
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

fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
    value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
