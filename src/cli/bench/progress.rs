//! The bar on stderr, for a person who waits; none when stderr is no terminal.

use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::tally::Window;

/// How often it moves.
pub(super) const TICKS_PER_SECOND: u64 = 5;
pub(super) const TICK: Duration = Duration::from_millis(1_000 / TICKS_PER_SECOND);
const BAR: &str = "{prefix:>11} {bar:40.green/dim} {msg}";

/// One bar, which shows one stage of a run after the other.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new() -> Self {
        // Hidden by itself where stderr is no terminal.
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template(BAR).expect("the template is valid").progress_chars("━╸─"));
        Self(bar)
    }

    /// Begins a stage of so many steps.
    pub(super) fn stage(&self, name: &'static str, steps: u64) {
        self.0.set_prefix(name);
        self.0.set_message("");
        self.0.set_length(steps.max(1));
        self.0.set_position(0);
    }

    /// One step is done.
    pub(super) fn step(&self) {
        self.steps(1);
    }

    /// So many steps are done.
    pub(super) fn steps(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// Shows how far a run has come, answers in the last second, and failures since its start.
    pub(super) fn run(&self, window: &Window, requests_per_second: u64, failed: u64) {
        let now = Instant::now();
        let (name, from, to) = if now < window.counts_from {
            ("warming up", window.start, window.counts_from)
        } else if now < window.end {
            ("measuring", window.counts_from, window.end)
        } else {
            ("last answers", window.counts_from, window.end)
        };
        let (length, over) = (to - from, now.min(to) - from);
        let failed = if failed > 0 { format!(", {} failed", HumanCount(failed)) } else { String::new() };
        let (seconds, of) = (over.as_secs(), length.as_secs_f64());
        self.0.set_prefix(name);
        self.0.set_message(format!("{seconds} of {of} s, {}/s{failed}", HumanCount(requests_per_second)));
        self.0.set_length(millis(length).max(1));
        self.0.set_position(millis(over));
    }

    /// Takes the bar away.
    pub(super) fn done(&self) {
        self.0.finish_and_clear();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
