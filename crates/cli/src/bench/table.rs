//! The figures as a table.

use std::fmt::Write;

use indicatif::{HumanCount, HumanFloatCount};

use super::options::Options;
use super::summary::{KindSummary, Summary};
use crate::client::table::{Align, Table};

/// Share of empty responses above which the figures need an explanation.
const EMPTY_SHARE: f64 = 0.05;
const COLUMNS: [&str; 11] =
    ["", "connections", "req/s", "msg/s", "mean ms", "stdev", "p50", "p99", "p99.9", "max", "errors"];

/// Renders the table, with the conditions of the run above it and remarks below it.
pub(super) fn render(options: &Options, summary: &Summary) -> String {
    let is_text = |column| column == COLUMNS[0] || column == COLUMNS[10];
    let columns = COLUMNS.map(|column| (column, if is_text(column) { Align::Left } else { Align::Right }));
    let mut table = Table::new(&columns);
    for kind in &summary.kinds {
        table.row(cells(kind).map(Into::into));
    }
    let mut text = format!("{}\n{}\n\n{}", summary.url, conditions(options, summary), table.render(false, None));
    for remark in remarks(summary) {
        // Writing to a string cannot fail.
        let _written = write!(text, "\n{remark}\n");
    }
    text
}

/// Describes the conditions of a run.
fn conditions(options: &Options, summary: &Summary) -> String {
    let pace = match options.rate {
        Some(rate) => {
            format!("open loop at {rate} requests/s of each kind, latency from the moment each request was due")
        }
        None => "closed loop".to_owned(),
    };
    let queues = match options.queues {
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
fn remarks(summary: &Summary) -> Vec<String> {
    let empty = summary.kinds.iter().filter(|kind| kind.empty_share() > EMPTY_SHARE);
    let mut remarks: Vec<String> = empty
        .map(|kind| {
            let share = kind.empty_share() * 100.0;
            format!(
                "{}: {share:.0} % of the responses contained no message; use --prefill to post more messages first.",
                kind.kind
            )
        })
        .collect();
    if let Some(microseconds) = summary.client_cpu_us_per_request {
        remarks.push(format!("sukkal bench itself used {microseconds:.1} µs of processor time per request."));
    }
    remarks
}

/// The cells of one kind of request, in the order of the columns.
fn cells(kind: &KindSummary) -> [String; COLUMNS.len()] {
    let [mean, stdev, p50, p99, p999, max] = match &kind.latency_ms {
        Some(latency) => latency.0.map(|(_, milliseconds)| format!("{milliseconds:.2}")),
        None => [(); 6].map(|()| "–".to_owned()),
    };
    let errors: Vec<_> = kind.errors.iter().map(|(error, n)| format!("{error} × {}", HumanCount(*n))).collect();
    [
        kind.kind.to_owned(),
        HumanCount(kind.connections as u64).to_string(),
        format!("{:.0}", HumanFloatCount(kind.requests_per_second)),
        format!("{:.0}", HumanFloatCount(kind.messages_per_second)),
        mean,
        stdev,
        p50,
        p99,
        p999,
        max,
        if errors.is_empty() { "0".to_owned() } else { errors.join(", ") },
    ]
}
