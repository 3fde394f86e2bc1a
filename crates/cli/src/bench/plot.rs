//! Plots as inline SVG: latency by percentile, and throughput over time. `report.rs` sets the
//! colors.

use std::f64::consts::LOG10_2;

use indicatif::HumanFloatCount;
use maud::{Markup, html};

use super::stats::float;
use super::summary::KindSummary;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDTH - 22.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = HEIGHT - 46.0;
/// Distance between the text of a tick and its axis.
const TEXT_GAP: f64 = 8.0;
/// Approximate number of steps of an axis.
const STEPS: f64 = 5.0;
/// Number of round numbers from which on a logarithmic axis has only powers of ten.
const TICKS_MAX: usize = 11;
/// Percentiles on the axis, and how many nines each has: 0.9 is one nine.
const PERCENTILES: [(&str, f64); 9] = [
    ("0 %", 0.0),
    ("50 %", LOG10_2),
    ("90 %", 1.0),
    ("99 %", 2.0),
    ("99.9 %", 3.0),
    ("99.99 %", 4.0),
    ("99.999 %", 5.0),
    ("99.9999 %", 6.0),
    ("99.99999 %", 7.0),
];

/// An axis from 0 to 1.
struct Axis {
    label: &'static str,
    ticks: Vec<(f64, String)>,
}

/// Plots latency by percentile. Each step to the right excludes a tenth as many slow requests.
pub(super) fn latency(kind: &KindSummary) -> Markup {
    let Some(((first, last), latency)) = kind.curve.first().zip(kind.curve.last()).zip(kind.latency_ms.as_ref()) else {
        return nothing();
    };
    // Latencies span orders of magnitude, so the scale is logarithmic.
    let rounds = rounds(first.1, last.1);
    let (low, high) = (rounds[0], rounds[rounds.len() - 1]);
    let (x, y) = (|nines: f64| nines / last.0.max(1.0), |ms: f64| (ms.max(low) / low).ln() / (high / low).ln());
    let percentiles = PERCENTILES.iter().filter(|(_, nines)| *nines <= last.0.max(1.0));
    let [_, _, p50, p99, p999, _] = latency.0.map(|(_, milliseconds)| milliseconds);
    let marks = [(LOG10_2, p50), (2.0, p99), (3.0, p999)].into_iter().filter(|(nines, _)| *nines <= last.0);
    let is_power = |ms: f64| (ms.log10() - ms.log10().round()).abs() < 1e-6;
    let ticks = rounds.iter().filter(|ms| rounds.len() <= TICKS_MAX || is_power(**ms));
    let points: Vec<_> = kind.curve.iter().map(|(nines, ms)| (x(*nines), y(*ms))).collect();
    plot(
        &format!("Latency of {} by percentile, in milliseconds", kind.kind),
        &Axis {
            label: "percentile of requests",
            ticks: percentiles.map(|(name, nines)| (x(*nines), (*name).to_owned())).collect(),
        },
        &Axis { label: "latency, ms", ticks: ticks.map(|ms| (y(*ms), number(*ms))).collect() },
        &points,
        &html! {
            @for (nines, ms) in marks {
                circle.mark cx=(horizontal(x(nines))) cy=(vertical(y(ms))) r="4" {}
                text.figure x=(horizontal(x(nines))) y=(vertical(y(ms))) dy="-10" text-anchor="middle" { (format!("{ms:.2}")) }
            }
        },
    )
}

/// Plots the number of requests answered in each second.
pub(super) fn throughput(kind: &KindSummary, seconds: f64) -> Markup {
    if kind.throughput.is_empty() || seconds <= 0.0 {
        return nothing();
    }
    // The last second may be incomplete.
    let spans = (0_u32..).map(f64::from).map(|from| (from, (from + 1.0).min(seconds.max(from + 0.001))));
    let rates: Vec<_> =
        spans.zip(&kind.throughput).map(|((from, to), n)| (from, to, float(*n) / (to - from))).collect();
    let most = rates.iter().map(|(_, _, rate)| *rate).fold(1.0, f64::max);
    let (step, seconds_apart) = (round_step(most / STEPS), round_step(seconds / STEPS).max(1.0));
    let top = (most / step).ceil() * step;
    let points: Vec<_> =
        rates.iter().flat_map(|(from, to, rate)| [(from / seconds, rate / top), (to / seconds, rate / top)]).collect();
    let area = points.iter().copied().chain([(1.0, 0.0), (0.0, 0.0)]);
    plot(
        &format!("Requests of {} answered per second, over time", kind.kind),
        &Axis { label: "seconds since the end of the warm-up", ticks: multiples(seconds_apart, seconds) },
        &Axis { label: "requests/s", ticks: multiples(step, top) },
        &points,
        &html! { polygon.area points=(coordinates(area)) {} },
    )
}

fn plot(title: &str, x: &Axis, y: &Axis, points: &[(f64, f64)], marks: &Markup) -> Markup {
    let middle = f64::midpoint(TOP, BOTTOM);
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) {
            @for (share, text) in &y.ticks {
                line.grid x1=(LEFT) x2=(RIGHT) y1=(vertical(*share)) y2=(vertical(*share)) {}
                text.tick x=(LEFT - TEXT_GAP) y=(vertical(*share)) dy="0.32em" text-anchor="end" { (text) }
            }
            @for (share, text) in &x.ticks {
                line.grid x1=(horizontal(*share)) x2=(horizontal(*share)) y1=(TOP) y2=(BOTTOM) {}
                text.tick x=(horizontal(*share)) y=(BOTTOM + TEXT_GAP) dy="0.71em" text-anchor="middle" { (text) }
            }
            line.axis x1=(LEFT) x2=(RIGHT) y1=(BOTTOM) y2=(BOTTOM) {}
            polyline.line points=(coordinates(points.iter().copied())) {}
            (marks)
            text.label x=(f64::midpoint(LEFT, RIGHT)) y=(HEIGHT - TEXT_GAP) text-anchor="middle" { (x.label) }
            text.label x="14" y=(middle) text-anchor="middle" transform=(format!("rotate(-90 14 {middle})")) {
                (y.label)
            }
        }
    }
}

fn nothing() -> Markup {
    html! { p { "No request was answered." } }
}

fn horizontal(share: f64) -> String {
    format!("{:.1}", LEFT + share * (RIGHT - LEFT))
}

fn vertical(share: f64) -> String {
    format!("{:.1}", BOTTOM - share * (BOTTOM - TOP))
}

fn coordinates(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{},{}", horizontal(x), vertical(y))).collect::<Vec<_>>().join(" ")
}

/// The numbers 1, 2 and 5 and their multiples by powers of ten, from the last one that is not above
/// `least` to the first one above `most`. They are between a microsecond and three hours.
fn rounds(least: f64, most: f64) -> Vec<f64> {
    let all: Vec<f64> = (-3..=7).flat_map(|power| [1.0, 2.0, 5.0].map(|round| round * 10_f64.powi(power))).collect();
    let start = all.partition_point(|round| *round <= least).saturating_sub(1);
    let end = all.partition_point(|round| *round <= most).max(start + 1);
    all.into_iter().take(end + 1).skip(start).collect()
}

/// The smallest of 1, 2, 5, 10, 20, … that is not below `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0].map(|round| round * decade).into_iter().find(|step| *step >= least).unwrap_or(10.0 * decade)
}

/// The ticks of an axis that ends at `most`.
fn multiples(step: f64, most: f64) -> Vec<(f64, String)> {
    let multiples = (0_u32..).map(|n| f64::from(n) * step).take_while(|multiple| *multiple <= most * 1.001);
    multiples.map(|multiple| (multiple / most, number(multiple))).collect()
}

fn number(value: f64) -> String {
    format!("{:.3}", HumanFloatCount(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_latencies_begins_and_ends_at_round_numbers() {
        let texts = |least, most| rounds(least, most).into_iter().map(number).collect::<Vec<_>>();

        assert_eq!(texts(0.35, 4.2), ["0.2", "0.5", "1", "2", "5"]);
        assert_eq!(texts(0.0, 0.0), ["0.001", "0.002"]);
        let wide = texts(0.04, 2_600.0);
        assert_eq!((wide[0].as_str(), wide[wide.len() - 1].as_str()), ("0.02", "5,000"));
    }

    #[test]
    fn steps_are_round() {
        for (least, step) in [(0.7, 1.0), (1.0, 1.0), (13.0, 20.0), (14_000.0, 20_000.0), (60.0, 100.0)] {
            assert!((round_step(least) / step - 1.0).abs() < 1e-9, "{least}: {}", round_step(least));
        }
        assert_eq!(multiples(0.5, 1.0).into_iter().map(|(_, text)| text).collect::<Vec<_>>(), ["0", "0.5", "1"]);
    }
}
