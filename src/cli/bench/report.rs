//! The figures as a self-contained HTML page, without scripts and without references to other
//! files.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::error::Error;
use super::options::Options;
use super::summary::{KindSummary, Summary};
use super::{plot, table};

/// Styles for light and dark displays. The class of a section selects the color of its plots.
const STYLE: &str = "
:root {
    color-scheme: light dark;
    --page: #f6f7f9; --card: #ffffff; --text: #1b2330; --faint: #667085; --rule: #e4e7ec;
    --produce: #2f6fde; --observe: #0d9373; --claim: #c2700a; --delete: #b83280; --bad: #c92a2a;
}
@media (prefers-color-scheme: dark) {
    :root {
        --page: #12161d; --card: #1a202a; --text: #e6eaf0; --faint: #98a2b3; --rule: #2c3543;
        --produce: #6ea0ff; --observe: #3ecfa8; --claim: #f0a94b; --delete: #f07bbd; --bad: #ff8787;
    }
}
* { box-sizing: border-box; }
body {
    margin: 0; background: var(--page); color: var(--text);
    font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif;
}
main { max-width: 1240px; margin: 0 auto; padding: 36px 24px 56px; }
h1 { margin: 0; font-size: 26px; font-weight: 650; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { margin: 0; font-size: 18px; font-weight: 650; text-transform: capitalize; }
h3 { margin: 0 0 4px; font-size: 13px; font-weight: 600; color: var(--faint); }
p { margin: 6px 0 0; color: var(--faint); }
.card { margin-top: 24px; padding: 22px 24px; background: var(--card); border: 1px solid var(--rule); border-radius: 12px; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th { padding: 0 10px 8px; font-size: 12.5px; font-weight: 600; color: var(--faint); text-align: right; }
td { padding: 9px 10px; border-top: 1px solid var(--rule); text-align: right; }
th:first-child, td:first-child { padding-left: 0; text-align: left; font-weight: 600; }
th:last-child, td:last-child { padding-right: 0; }
td.bad { color: var(--bad); font-weight: 600; white-space: normal; }
.dot { display: inline-block; width: 10px; height: 10px; margin-right: 9px; border-radius: 3px; background: var(--kind); }
.produce { --kind: var(--produce); } .observe { --kind: var(--observe); }
.claim { --kind: var(--claim); } .delete { --kind: var(--delete); }
.figures { display: flex; flex-wrap: wrap; gap: 6px 36px; margin: 12px 0 18px; padding: 0; }
.figures div { display: flex; flex-direction: column-reverse; }
.figures dt { font-size: 12.5px; color: var(--faint); }
.figures dd { margin: 0; font-size: 22px; font-weight: 650; font-variant-numeric: tabular-nums; }
.figures .bad dd { color: var(--bad); font-size: 16px; line-height: 33px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 24px; }
svg { display: block; width: 100%; height: auto; }
svg .grid { stroke: var(--rule); } svg .axis { stroke: var(--faint); }
svg .line { fill: none; stroke: var(--kind); stroke-width: 2.25; stroke-linejoin: round; }
svg .mark { fill: var(--card); stroke: var(--kind); stroke-width: 2; }
svg .figure { fill: var(--text); font-weight: 600; paint-order: stroke; stroke: var(--card); stroke-width: 4; }
svg .area { fill: var(--kind); opacity: 0.14; }
svg text { fill: var(--faint); font-size: 11.5px; }
svg .tick { font-variant-numeric: tabular-nums; }
@media print { body { background: none; } .card { break-inside: avoid; } }
";

/// The file that the page is written to.
pub(super) struct Report {
    path: PathBuf,
    file: File,
}

impl Report {
    /// Creates the empty file.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|source| Error::Report { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes the page.
    pub(super) fn write(mut self, options: &Options, summary: &Summary) -> Result<(), Error> {
        let page = page(options, summary).into_string();
        let written: io::Result<()> = self.file.write_all(page.as_bytes());
        written.map_err(|source| Error::Report { path: self.path, source })
    }
}

fn page(options: &Options, summary: &Summary) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "sukkal bench: " (options.url()) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (options.url()) }
                    p { (table::conditions(options, summary)) }
                    div.card {
                        (overview(summary))
                        @for remark in table::remarks(summary) {
                            p { (remark) }
                        }
                    }
                    @for kind in &summary.kinds {
                        (section(kind, summary.seconds))
                    }
                }
            }
        }
    }
}

fn overview(summary: &Summary) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for column in table::COLUMNS {
                            th { (column) }
                        }
                    }
                }
                tbody {
                    @for kind in &summary.kinds {
                        tr class=(kind.kind.name()) {
                            @for (n, cell) in table::cells(kind).iter().enumerate() {
                                td.bad[n + 1 == table::COLUMNS.len() && !kind.errors.is_empty()] {
                                    @if n == 0 {
                                        span.dot {}
                                    }
                                    (cell)
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn section(kind: &KindSummary, seconds: f64) -> Markup {
    let cells = table::cells(kind);
    let [_, connections, requests, messages, _, _, p50, p99, _, max, errors] = &cells;
    let figures = [
        ("connections", connections),
        ("requests/s", requests),
        ("messages/s", messages),
        ("p50, ms", p50),
        ("p99, ms", p99),
        ("max, ms", max),
    ];
    html! {
        section class=(format!("card {}", kind.kind.name())) {
            h2 { span.dot {} (kind.kind.name()) }
            dl.figures {
                @for (name, figure) in figures {
                    div { dt { (name) } dd { (figure) } }
                }
                @if !kind.errors.is_empty() {
                    div.bad { dt { "errors" } dd { (errors) } }
                }
            }
            div.plots {
                div { h3 { "Latency by percentile" } (plot::latency(kind)) }
                div { h3 { "Throughput over time" } (plot::throughput(kind, seconds)) }
            }
        }
    }
}
