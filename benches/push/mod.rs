//! Measures deliveries to a fast subscriber on this machine, and what subscriptions cost. `--write`
//! writes `docs/push-figures.md`. A service that fails has rows without figures, and a footnote
//! with the reason.

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

use crate::report::Report;
use crate::{COMMAND, DocumentOptions};

/// Longer than a service works after the last notification.
const SETTLE: Duration = Duration::from_millis(300);

pub(crate) async fn run(options: &DocumentOptions, report: &mut Report) {
    let length = options.length(report);
    write!(
        report,
        "# Figures of push\n\nWritten by `{COMMAND} push --write`. The endpoint is on the same machine, \
         and answers at once. It shares the cores with the service and Redis.\n"
    )
    .unwrap();
    report.write_str(&throughput::measure(length).await).unwrap();
    report.write_str(&latency::measure(length).await).unwrap();
    report.write_str(&posts::measure(length).await).unwrap();
    report.write_str(&memory::measure(length).await).unwrap();
    report.write_str(&isolation::measure(length).await).unwrap();
    if options.write {
        report.write("push-figures.md");
    }
}
