//! Plots the distribution of the pick-up delays of the light tenants.

use maud::{Markup, html};

use super::flood::Flood;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 40.0;
const LEAST_MS: f64 = 1.0;
const DECADES: f64 = 5.0;
const COLORS: [&str; 3] = ["#1a7f5a", "#3b6fb6", "#b5651d"];

pub(crate) fn of(floods: &[Flood]) -> Markup {
    let stores: Vec<&str> = floods.iter().step_by(2).map(|flood| flood.store).collect();
    let color = |flood: &Flood| COLORS[stores.iter().position(|store| *store == flood.store).unwrap_or(0)];
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) font-family="sans-serif"
            font-size="11" fill="#777" role="img" aria-label="Pick-up delay of the light tenants" {
            @for decade in 0..=5_u32 {
                @let ms = LEAST_MS * 10_f64.powi(decade.cast_signed());
                line x1=(x(ms)) x2=(x(ms)) y1=(TOP) y2=(HEIGHT - BOTTOM) stroke="#ddd" {}
                text x=(x(ms)) y=(HEIGHT - BOTTOM + 16.0) text-anchor="middle" { (ms) }
            }
            @for share in [0.0, 0.5, 1.0] {
                text x=(LEFT - 6.0) y=(y(share) + 4.0) text-anchor="end" { (format!("{:.0} %", share * 100.0)) }
            }
            line x1=(LEFT) x2=(WIDTH - RIGHT) y1=(HEIGHT - BOTTOM) y2=(HEIGHT - BOTTOM) stroke="#777" {}
            text x=(f64::midpoint(LEFT, WIDTH - RIGHT)) y=(HEIGHT - 6.0) text-anchor="middle" {
                "pick-up delay of a light tenant's message, ms"
            }
            @for (place, flood) in floods.iter().enumerate() {
                @let dashes = if flood.is_fair { "none" } else { "4 3" };
                @let legend = TOP + 20.0 * place as f64 + 8.0;
                polyline points=(points(flood)) fill="none" stroke=(color(flood)) stroke-width="1.8" stroke-dasharray=(dashes) {}
                line x1=(WIDTH - RIGHT + 12.0) x2=(WIDTH - RIGHT + 36.0) y1=(legend) y2=(legend) stroke=(color(flood))
                    stroke-width="1.8" stroke-dasharray=(dashes) {}
                text x=(WIDTH - RIGHT + 42.0) y=(legend + 4.0) {
                    (flood.store) ", " (if flood.is_fair { "fair" } else { "plain" })
                }
            }
        }
    }
}

fn points(flood: &Flood) -> String {
    let count = flood.delays_ms.len() as f64;
    let steps = flood.delays_ms.iter().enumerate();
    let points = steps.map(|(place, ms)| format!("{:.1},{:.1}", x(*ms), y((place + 1) as f64 / count)));
    points.collect::<Vec<_>>().join(" ")
}

fn x(ms: f64) -> f64 {
    LEFT + (ms.max(LEAST_MS) / LEAST_MS).log10() / DECADES * (WIDTH - LEFT - RIGHT)
}

fn y(share: f64) -> f64 {
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}
