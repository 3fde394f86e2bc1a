//! The progress bar on stderr. It is hidden if stderr is not a terminal.

use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::stats::Window;

/// How often the bar is updated during a run.
pub(super) const TICKS_PER_SECOND: u64 = 5;
pub(super) const TICK: Duration = Duration::from_millis(1_000 / TICKS_PER_SECOND);
const BAR: &str = "{prefix:>11} {bar:40.green/dim} {msg}";

/// A bar that shows the phases of a run one after the other.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new() -> Self {
        // The library hides it if stderr is not a terminal.
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template(BAR).expect("the template is valid").progress_chars("━╸─"));
        Self(bar)
    }

    /// Begins a phase with the given number of steps.
    pub(super) fn begin_phase(&self, name: &'static str, steps: u64) {
        self.0.set_prefix(name);
        self.0.set_message("");
        self.0.set_length(steps.max(1));
        self.0.set_position(0);
    }

    /// Advances the bar by one step.
    pub(super) fn advance(&self) {
        self.advance_by(1);
    }

    /// Advances the bar by the given number of steps.
    pub(super) fn advance_by(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// Shows the elapsed time of a run, the current rate, and the failures since its start.
    pub(super) fn show_run(&self, window: &Window, requests_per_second: u64, failed: u64) {
        let now = Instant::now();
        let (name, from, to) = if now < window.counts_from {
            ("warming up", window.start, window.counts_from)
        } else if now < window.end {
            ("measuring", window.counts_from, window.end)
        } else {
            ("last responses", window.counts_from, window.end)
        };
        let (length, elapsed) = (to - from, now.min(to) - from);
        let failed = if failed > 0 { format!(", {} failed", HumanCount(failed)) } else { String::new() };
        let (seconds, of) = (elapsed.as_secs(), length.as_secs_f64());
        self.0.set_prefix(name);
        self.0.set_message(format!("{seconds} of {of} s, {}/s{failed}", HumanCount(requests_per_second)));
        self.0.set_length(millis(length).max(1));
        self.0.set_position(millis(elapsed));
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
