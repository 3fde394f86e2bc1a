//! The figures as a self-contained HTML page, without scripts and without references to other
//! files.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plot;
use super::summary::Summary;

/// Styles for light and dark displays. The class of a section selects the color of its plots.
const STYLE: &str = "
:root {
    color-scheme: light dark;
    --page: #f6f7f9; --card: #ffffff; --text: #1b2330; --faint: #667085; --rule: #e4e7ec;
    --produce: #2f6fde; --observe: #0d9373; --claim: #c2700a; --delete: #b83280;
}
@media (prefers-color-scheme: dark) {
    :root {
        --page: #12161d; --card: #1a202a; --text: #e6eaf0; --faint: #98a2b3; --rule: #2c3543;
        --produce: #6ea0ff; --observe: #3ecfa8; --claim: #f0a94b; --delete: #f07bbd;
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
pre { white-space: pre-wrap; font-size: 13px; }
.card { margin-top: 24px; padding: 22px 24px; background: var(--card); border: 1px solid var(--rule); border-radius: 12px; }
.dot { display: inline-block; width: 10px; height: 10px; margin-right: 9px; border-radius: 3px; background: var(--kind); }
.produce { --kind: var(--produce); } .observe { --kind: var(--observe); }
.claim { --kind: var(--claim); } .delete { --kind: var(--delete); }
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

/// Returns the page, with the figures as in the terminal and plots of each kind of request.
pub(super) fn page(table: &str, summary: &Summary) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "sukkal bench: " (summary.url) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "sukkal bench" }
                    pre.card { (table) }
                    @for kind in &summary.kinds {
                        section class=(format!("card {}", kind.kind)) {
                            h2 { span.dot {} (kind.kind) }
                            div.plots {
                                div { h3 { "Latency by percentile" } (plot::latency(kind)) }
                                div { h3 { "Throughput over time" } (plot::throughput(kind, summary.seconds)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
