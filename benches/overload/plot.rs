//! Plots goodput by number of connections.

use maud::{Markup, html};

use super::{CONNECTIONS, KINDS, Measure};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 40.0;
const COLORS: [&str; 3] = ["#1a7f5a", "#3b6fb6", "#b5651d"];

pub(crate) fn of(measures: &[Measure]) -> Markup {
    let top = measures.iter().map(|measure| measure.outcome.goodput()).fold(0.0, f64::max);
    let y = |goodput: f64| HEIGHT - BOTTOM - goodput / top * (HEIGHT - TOP - BOTTOM);
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) font-family="sans-serif"
            font-size="11" fill="#777" role="img" aria-label="Goodput against connections" {
            @for connections in CONNECTIONS {
                line x1=(x(connections)) x2=(x(connections)) y1=(TOP) y2=(HEIGHT - BOTTOM) stroke="#ddd" {}
                text x=(x(connections)) y=(HEIGHT - BOTTOM + 16.0) text-anchor="middle" { (connections) }
            }
            @for share in [0.0, 0.5, 1.0] {
                text x=(LEFT - 6.0) y=(y(share * top) + 4.0) text-anchor="end" { (format!("{:.0}", share * top)) }
            }
            line x1=(LEFT) x2=(WIDTH - RIGHT) y1=(HEIGHT - BOTTOM) y2=(HEIGHT - BOTTOM) stroke="#777" {}
            text x=(f64::midpoint(LEFT, WIDTH - RIGHT)) y=(HEIGHT - 6.0) text-anchor="middle" {
                "connections in a closed loop; requests served per second"
            }
            @for (kind, color) in KINDS.iter().zip(COLORS) {
                @let of_kind: Vec<_> = measures.iter().filter(|measure| measure.kind == *kind).collect();
                @let points: Vec<_> = of_kind.iter()
                    .map(|measure| format!("{:.1},{:.1}", x(measure.connections), y(measure.outcome.goodput()))).collect();
                polyline points=(points.join(" ")) fill="none" stroke=(color) stroke-width="1.8" {}
                @if let Some(last) = of_kind.last() {
                    text x=(WIDTH - RIGHT + 8.0) y=(y(last.outcome.goodput()) + 4.0) fill=(color) { (kind) }
                }
            }
        }
    }
}

fn x(connections: u32) -> f64 {
    let (least, most) = (f64::from(CONNECTIONS[0]).ln(), f64::from(CONNECTIONS[CONNECTIONS.len() - 1]).ln());
    LEFT + (f64::from(connections).ln() - least) / (most - least) * (WIDTH - LEFT - RIGHT)
}
