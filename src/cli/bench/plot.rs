//! Plots as inline SVG: latency by percentile, and throughput over time. `report.rs` sets the
//! colors.

use maud::{Markup, html};

use super::summary::{KindSummary, float};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// Distance between the text of a tick and its axis.
const TEXT_GAP: f64 = 8.0;
/// Approximate number of steps of an axis.
const STEPS: f64 = 5.0;
/// Approximate number of labels on the time axis.
const SECONDS_LABELS: f64 = 10.0;

/// A plot with two axes. Coordinates are those of the SVG.
struct Plot {
    title: String,
    points: Vec<(f64, f64)>,
    /// Points that are labeled with their value.
    marks: Vec<Mark>,
    /// Whether the area between the line and the axis is filled.
    is_filled: bool,
    x_label: &'static str,
    y_label: &'static str,
    x_ticks: Vec<(f64, String)>,
    y_ticks: Vec<(f64, String)>,
}

/// A point that is labeled with its value.
struct Mark {
    x: f64,
    y: f64,
    figure: String,
    /// Whether the label is below and to the right, because the axis is too near on the other side.
    is_below: bool,
}

/// Plots latency by percentile. Each step to the right excludes a tenth as many slow requests.
pub(super) fn latency(kind: &KindSummary) -> Markup {
    let Some((first, last)) = kind.curve.first().zip(kind.curve.last()) else { return nothing() };
    // Latencies span orders of magnitude, so the scale is logarithmic.
    let scale = LogScale::new(first.latency_ms, last.latency_ms);
    let nines_max = last.nines.max(1.0);
    let x = |nines: f64| LEFT + nines / nines_max * (WIDTH - LEFT - RIGHT);
    let points = kind.curve.iter().map(|point| (x(point.nines), scale.y(point.latency_ms)));
    let mark = |(nines, latency_ms): (f64, f64)| Mark {
        x: x(nines),
        y: scale.y(latency_ms),
        figure: figure(latency_ms),
        is_below: nines < 1.0,
    };
    let figures =
        kind.latency_ms.map(|latency| [(2_f64.log10(), latency.p50), (2.0, latency.p99), (3.0, latency.p999)]);
    let marks = figures.into_iter().flatten().filter(|(nines, _)| *nines <= last.nines).map(mark).collect();
    let percentiles = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"];
    let mut x_ticks: Vec<(f64, String)> = (0_u32..)
        .map(f64::from)
        .take_while(|nines| *nines <= nines_max)
        .zip(percentiles)
        .map(|(nines, percentile)| (x(nines), format!("{percentile} %")))
        .collect();
    x_ticks.push((x(2_f64.log10()), "50 %".to_owned()));
    Plot {
        title: format!("Latency of {} by percentile, in milliseconds", kind.kind.name()),
        points: points.collect(),
        marks,
        is_filled: false,
        x_label: "percentile of requests",
        y_label: "latency, ms",
        x_ticks,
        y_ticks: scale.ticks(),
    }
    .render()
}

/// Plots the number of requests answered in each second.
pub(super) fn throughput(kind: &KindSummary, seconds: f64) -> Markup {
    if kind.throughput.is_empty() || seconds <= 0.0 {
        return nothing();
    }
    // The last second may be incomplete.
    let spans = (0_u32..).map(f64::from).zip(&kind.throughput);
    let rates: Vec<(f64, f64, f64)> = spans
        .map(|(from, requests)| (from, (from + 1.0).min(seconds.max(from + 0.001)), *requests))
        .map(|(from, to, requests)| (from, to, float(requests) / (to - from)))
        .collect();
    let top = rates.iter().map(|(_, _, rate)| *rate).fold(1.0, f64::max);
    let step = round_step(top / STEPS);
    let top = (top / step).ceil() * step;
    let end = rates.last().map_or(seconds, |(_, to, _)| *to);
    let x = |second: f64| LEFT + second / end * (WIDTH - LEFT - RIGHT);
    let y = |rate: f64| HEIGHT - BOTTOM - rate / top * (HEIGHT - TOP - BOTTOM);
    let points = rates.iter().flat_map(|(from, to, rate)| [(x(*from), y(*rate)), (x(*to), y(*rate))]);
    let seconds_apart = round_step(end / SECONDS_LABELS).max(1.0);
    Plot {
        title: format!("Requests of {} answered per second, over time", kind.kind.name()),
        points: points.collect(),
        marks: Vec::new(),
        is_filled: true,
        x_label: "seconds since the end of the warm-up",
        y_label: "requests/s",
        x_ticks: multiples(seconds_apart, end).map(|second| (x(second), number(second))).collect(),
        y_ticks: multiples(step, top).map(|rate| (y(rate), number(rate))).collect(),
    }
    .render()
}

impl Plot {
    fn render(&self) -> Markup {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let line: Vec<String> = self.points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let line = line.join(" ");
        let area = self.points.first().zip(self.points.last()).filter(|_| self.is_filled);
        let middle = f64::midpoint(TOP, bottom);
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(self.title) {
                @for (y, text) in &self.y_ticks {
                    line.grid x1=(LEFT) x2=(right) y1=(short(*y)) y2=(short(*y)) {}
                    text.tick x=(LEFT - TEXT_GAP) y=(short(*y)) dy="0.32em" text-anchor="end" { (text) }
                }
                @for (x, text) in &self.x_ticks {
                    line.grid x1=(short(*x)) x2=(short(*x)) y1=(TOP) y2=(bottom) {}
                    text.tick x=(short(*x)) y=(bottom + TEXT_GAP) dy="0.71em" text-anchor="middle" { (text) }
                }
                line.axis x1=(LEFT) x2=(right) y1=(bottom) y2=(bottom) {}
                @if let Some((first, last)) = area {
                    polygon.area points=(format!("{:.1},{bottom} {line} {:.1},{bottom}", first.0, last.0)) {}
                }
                polyline.line points=(line) {}
                @for Mark { x, y, figure, is_below } in &self.marks {
                    @let (side, aside, anchor) = if *is_below { (1.0, 2.0, "start") } else { (-1.0, -1.0, "end") };
                    circle.mark cx=(short(*x)) cy=(short(*y)) r="4" {}
                    text.figure x=(short(x + side * TEXT_GAP)) y=(short(y + aside * TEXT_GAP)) text-anchor=(anchor) {
                        (figure)
                    }
                }
                text.label x=(f64::midpoint(LEFT, right)) y=(HEIGHT - TEXT_GAP) text-anchor="middle" { (self.x_label) }
                text.label x="14" y=(middle) text-anchor="middle" transform=(format!("rotate(-90 14 {middle})")) {
                    (self.y_label)
                }
            }
        }
    }
}

/// A logarithmic scale from one round number to another.
struct LogScale {
    low: f64,
    high: f64,
}

impl LogScale {
    /// The round numbers within a power of ten.
    const ROUND: [f64; 3] = [1.0, 2.0, 5.0];

    fn new(least: f64, most: f64) -> Self {
        // Latencies below a microsecond cannot be distinguished from zero.
        let low = Self::rounds(least.max(1e-3)).rev().find(|round| *round <= least.max(1e-3));
        let high = Self::rounds(most.max(1e-3)).find(|round| *round > most.max(1e-3));
        let low = low.unwrap_or(1e-3);
        Self { low, high: high.unwrap_or(most).max(low * 10.0) }
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).log10() / (self.high / self.low).log10();
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let decades = (self.high / self.low).log10();
        let rounds = Self::rounds(self.low).chain(Self::rounds(self.low * 1e3)).chain(Self::rounds(self.low * 1e6));
        let mut rounds: Vec<f64> =
            rounds.filter(|round| *round >= self.low * 0.999 && *round <= self.high * 1.001).collect();
        rounds.sort_by(f64::total_cmp);
        rounds.dedup_by(|a, b| (*a / *b - 1.0).abs() < 1e-6);
        // Over many orders of magnitude there is only space for the powers of ten.
        rounds.retain(|round| decades < 3.5 || (round.log10() - round.log10().round()).abs() < 1e-6);
        rounds.into_iter().map(|round| (self.y(round), number(round))).collect()
    }

    /// Round numbers from about a tenth of a value to about a thousand times the value.
    fn rounds(about: f64) -> impl DoubleEndedIterator<Item = f64> {
        let exponent = about.log10().floor();
        let decades = [-1.0, 0.0, 1.0, 2.0].map(move |more| 10_f64.powf(exponent + more));
        decades.into_iter().flat_map(|decade| Self::ROUND.map(move |round| round * decade))
    }
}

fn nothing() -> Markup {
    html! { p.nothing { "No request was answered." } }
}

/// The smallest of 1, 2, 5, 10, 20, … that is not below `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|cut| cut * decade).into_iter().find(|step| *step >= least * 0.999).unwrap_or(decade)
}

fn multiples(step: f64, most: f64) -> impl Iterator<Item = f64> {
    (0_u32..).map(move |n| f64::from(n) * step).take_while(move |multiple| *multiple <= most * 1.001)
}

/// Formats the number of an axis, without insignificant digits.
fn number(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{} M", rounded(value / 1e6)),
        _ if value >= 1e4 => format!("{} k", rounded(value / 1e3)),
        _ => rounded(value).to_string(),
    }
}

/// Formats a value with about three digits.
fn figure(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn short(coordinate: f64) -> String {
    format!("{coordinate:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ticks: Vec<(f64, String)>) -> Vec<String> {
        ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn an_axis_of_latencies_begins_and_ends_at_round_numbers() {
        let narrow = LogScale::new(0.35, 4.2);
        let wide = LogScale::new(0.04, 2_600.0);

        assert_eq!(texts(narrow.ticks()), ["0.2", "0.5", "1", "2", "5"]);
        assert_eq!(texts(wide.ticks()), ["0.1", "1", "10", "100", "1000"]);
        assert!((narrow.y(0.2) - (HEIGHT - BOTTOM)).abs() < 0.01 && (narrow.y(5.0) - TOP).abs() < 0.01);
    }

    #[test]
    fn latencies_of_zero_have_an_axis() {
        assert_eq!(texts(LogScale::new(0.0, 0.0).ticks()), ["0.001", "0.002", "0.005", "0.01"]);
    }

    #[test]
    fn steps_and_numbers_are_round() {
        let steps = [(0.7, 1.0), (1.0, 1.0), (13.0, 20.0), (14_000.0, 20_000.0), (60.0, 100.0)];
        for (least, step) in steps {
            assert!((round_step(least) / step - 1.0).abs() < 1e-9, "{least}: {}", round_step(least));
        }
        assert_eq!([figure(0.123), figure(12.34), figure(1234.4)], ["0.12", "12.3", "1234"]);
        assert_eq!([number(0.1), number(15_000.0), number(2.5e6)], ["0.1", "15 k", "2.5 M"]);
    }
}
