//! Measures deliveries to a fast subscriber on this machine, and what subscriptions cost. `--write`
//! writes a section of `docs/performance.md`. A service that fails has rows without figures, and a
//! footnote with the reason.

mod contestant;
mod deployment;
mod endpoint;
mod figures;
mod isolation;
mod latency;
mod memory;
mod posts;
mod throughput;

use std::fmt::Write as _;
use std::time::Duration;

use crate::DocumentOptions;
use crate::report::Report;

/// Longer than a service works after the last notification.
const SETTLE: Duration = Duration::from_millis(300);

pub(crate) async fn run(options: &DocumentOptions, report: &mut Report) {
    let length = options.length(report);
    report.write_str(&throughput::measure(length).await).unwrap();
    report.write_str(&latency::measure(length).await).unwrap();
    report.write_str(&posts::measure(length).await).unwrap();
    report.write_str(&memory::measure(length).await).unwrap();
    report.write_str(&isolation::measure(length).await).unwrap();
    if options.write || report.is_short {
        report.write("performance.md", "push");
    }
}
