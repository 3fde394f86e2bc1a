//! The figures as a table, for a terminal.

use std::fmt::Write;

use indicatif::HumanCount;

use super::options::Options;
use super::summary::{KindSummary, Summary};

/// Share of empty responses above which the figures need an explanation.
const EMPTY_SHARE: f64 = 0.05;
pub(super) const COLUMNS: [&str; 11] =
    ["", "connections", "req/s", "msg/s", "mean ms", "stdev", "p50", "p99", "p99.9", "max", "errors"];
const GAP: usize = 2;

/// Renders the table, with the conditions of the run above it and remarks below it.
pub(super) fn render(options: &Options, summary: &Summary) -> String {
    let rows: Vec<[String; COLUMNS.len()]> = summary.kinds.iter().map(cells).collect();
    let mut text = format!("{}\n{}\n\n", options.url(), conditions(options, summary));
    let header = COLUMNS.map(str::to_owned);
    let all: Vec<_> = std::iter::once(&header).chain(&rows).collect();
    for row in &all {
        for (column, cell) in row.iter().enumerate() {
            let width = all.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
            let gap = if column == 0 { 0 } else { GAP };
            // Names are left-aligned, numbers right-aligned, and errors, which may be long,
            // left-aligned.
            let aligned = match column {
                0 => format!("{cell:<width$}"),
                _ if column == COLUMNS.len() - 1 => cell.clone(),
                _ => format!("{cell:>width$}"),
            };
            text += &" ".repeat(gap);
            text += &aligned;
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    for remark in remarks(summary) {
        // Writing to a string cannot fail.
        let _written = write!(text, "\n{remark}\n");
    }
    text
}

/// Describes the conditions of a run.
pub(super) fn conditions(options: &Options, summary: &Summary) -> String {
    let pace = match options.rate {
        Some(rate) => {
            format!("open loop at {rate} requests/s of each kind, latency from the moment each request was due")
        }
        None => "closed loop".to_owned(),
    };
    let queues = match options.queues() {
        1 => "1 queue".to_owned(),
        queues => format!("{} queues", HumanCount(queues as u64)),
    };
    let (seconds, warmup) = (summary.seconds, options.warmup.as_secs_f64());
    let (batch, bytes, limit) = (options.batch, options.message_bytes, options.limit);
    format!(
        "{seconds} s after {warmup} s of warm-up; {pace}; {queues}; {batch} × {bytes} bytes per post, {limit} messages per page or claim"
    )
}

/// What a reader has to know about the figures.
pub(super) fn remarks(summary: &Summary) -> Vec<String> {
    let empty = summary.kinds.iter().filter(|kind| kind.empty_share() > EMPTY_SHARE);
    let mut remarks: Vec<String> = empty
        .map(|kind| {
            let share = kind.empty_share() * 100.0;
            format!(
                "{}: {share:.0} % of the responses contained no message; use --prefill to post more messages first.",
                kind.kind.name()
            )
        })
        .collect();
    if let Some(microseconds) = summary.client_cpu_us_per_request {
        remarks.push(format!("sukkal bench itself used {microseconds:.1} µs of processor time per request."));
    }
    remarks
}

/// The cells of one kind of request, in the order of the columns.
pub(super) fn cells(kind: &KindSummary) -> [String; COLUMNS.len()] {
    let latency = |of: fn(&super::summary::Latency) -> f64| {
        kind.latency_ms.as_ref().map_or("–".to_owned(), |latency| format!("{:.2}", of(latency)))
    };
    [
        kind.kind.name().to_owned(),
        HumanCount(kind.connections as u64).to_string(),
        count(kind.requests_per_second),
        count(kind.messages_per_second),
        latency(|latency| latency.mean),
        latency(|latency| latency.stdev),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        latency(|latency| latency.p999),
        latency(|latency| latency.max),
        errors(kind),
    ]
}

fn errors(kind: &KindSummary) -> String {
    let errors = kind.errors.iter().map(|(error, requests)| format!("{error} × {}", HumanCount(*requests)));
    if kind.errors.is_empty() { "0".to_owned() } else { errors.collect::<Vec<_>>().join(", ") }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive and far below 2^64")]
fn count(rate: f64) -> String {
    HumanCount(rate.round() as u64).to_string()
}
