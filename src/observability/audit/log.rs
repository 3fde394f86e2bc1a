//! Passes records to the thread that writes them. Requests wait for it a bounded time only.
//!
//! A request that changes something waits until its record is written, for at most [`WAIT_MAX`]. If
//! the queue of the thread is full for as long, the record is lost. Records of refused requests do
//! not wait, and use only a part of the queue, so they do not displace those of changes.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep_until, timeout};
use tracing::debug;

use super::budget::{Budget, Decision};
use super::file::LogFile;
use super::losses::Losses;
use super::record;
use crate::observability::metrics::Metrics;
use sukkal_domain::ProjectId;

/// The names of the standard streams in the option `file`, in any case.
const STDERR: &str = "stderr";
const STDOUT: &str = "stdout";
/// Maximum number of records that wait to be written.
const WAITING_MAX: usize = 1_024;
/// Number of them that are left to the records of changes.
const RESERVED: usize = WAITING_MAX / 2;
/// Maximum time for which a request waits for its record.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The audit log. Clones are the same.
#[derive(Clone)]
pub struct AuditLog(Arc<SharedLog>);

struct SharedLog {
    lines: mpsc::Sender<Line>,
    refusals_of_unknown: Budget,
    refusals_of_known: Budget,
    losses: Arc<Losses>,
}

/// A line for the thread that writes.
struct Line {
    /// The text with its line break. Empty if the sender only waits for the lines before it.
    text: String,
    /// Dropped when the line is written or lost.
    done: Option<oneshot::Sender<()>>,
}

/// Which budget the record of a request belongs to that has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Unknown,
    Known,
}

impl AuditLog {
    /// Opens the audit log: a file, stderr or stdout.
    ///
    /// # Errors
    ///
    /// The error of the operating system if the file cannot be opened or the thread not started.
    pub fn open(file: &str, metrics: Arc<Metrics>) -> io::Result<Self> {
        let losses = Arc::new(Losses::new(metrics));
        if file.eq_ignore_ascii_case(STDERR) {
            return Self::start(losses, |line| io::stderr().write_all(line.as_bytes()));
        }
        if file.eq_ignore_ascii_case(STDOUT) {
            return Self::start(losses, |line| io::stdout().write_all(line.as_bytes()));
        }
        let mut file = LogFile::open(PathBuf::from(file))?;
        let reporter = losses.clone();
        Self::start(losses, move |line| file.append(line, |error| reporter.report(error)))
    }

    /// Starts the thread that writes lines with `write`.
    pub(super) fn start(
        losses: Arc<Losses>,
        mut write: impl FnMut(&str) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, mut lines) = mpsc::channel::<Line>(WAITING_MAX);
        let of_thread = losses.clone();
        let run = move || {
            while let Some(Line { text, done }) = lines.blocking_recv() {
                of_thread.mention(|line| write(line).is_ok());
                if !text.is_empty()
                    && let Err(error) = write(&text)
                {
                    of_thread.count(&error);
                }
                drop(done);
            }
        };
        thread::Builder::new().name("audit-log".to_owned()).spawn(run)?;
        Ok(Self(Arc::new(SharedLog {
            lines: sender,
            refusals_of_unknown: Budget::new("too many refused requests of unknown senders"),
            refusals_of_known: Budget::new("too many refused or failed requests of known clients"),
            losses,
        })))
    }

    /// Writes the record of a change, and returns when it is written. Waits a bounded time only.
    /// The record is also written if the future is dropped.
    pub(super) async fn write_change(&self, text: String) {
        let (done, written) = oneshot::channel();
        let line = Line { text, done: Some(done) };
        if let Err(TrySendError::Full(line) | TrySendError::Closed(line)) = self.0.lines.try_send(line) {
            let log = self.clone();
            tokio::spawn(async move {
                if log.0.lines.send_timeout(line, WAIT_MAX).await.is_err() {
                    log.0.losses.count(&"too many records wait to be written");
                }
            });
        }
        if timeout(WAIT_MAX, written).await.is_err() {
            debug!("a record of the audit log is late");
        }
    }

    /// Writes the record of a change for which nobody waits.
    pub(super) fn write_change_later(&self, text: String) {
        if self.0.lines.try_send(Line { text, done: None }).is_err() {
            self.0.losses.count(&"too many records wait to be written");
        }
    }

    /// Writes the record of a request that has changed nothing, unless there are too many of them.
    /// The log then says how many are missing.
    /// `project` is that of the client, if the client is known.
    pub(super) fn write_refusal(&self, project: Option<&ProjectId>, text: impl FnOnce() -> String) {
        let sender = if project.is_some() { Sender::Known } else { Sender::Unknown };
        match self.budget(sender).decide(project, self.0.lines.capacity() > RESERVED) {
            Decision::Record => self.write_change_later(text()),
            Decision::LeaveOut => {}
            Decision::LeaveOutAndReport(time) => {
                let log = self.clone();
                tokio::spawn(async move {
                    sleep_until(time).await;
                    if let Ok(permit) = log.0.lines.reserve().await {
                        permit.send(log.omission(sender));
                    }
                });
            }
        }
    }

    /// Writes what has not been written yet, before the process ends. Waits a bounded time only.
    pub async fn finish(&self) {
        for sender in [Sender::Unknown, Sender::Known] {
            let line = self.omission(sender);
            if !line.text.is_empty() {
                self.write_change(line.text).await;
            }
        }
        self.write_change(String::new()).await;
    }

    fn budget(&self, sender: Sender) -> &Budget {
        match sender {
            Sender::Unknown => &self.0.refusals_of_unknown,
            Sender::Known => &self.0.refusals_of_known,
        }
    }

    /// Returns the line about the records that were left out. It is empty if there are none.
    fn omission(&self, sender: Sender) -> Line {
        let budget = self.budget(sender);
        let text = match budget.take_left_out() {
            0 => String::new(),
            left_out => record::omission(left_out, budget.reason),
        };
        Line { text, done: None }
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditLog")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::sync::mpsc as blocking;

    use futures::future::join_all;
    use tokio::task::yield_now;
    use tokio::time::{Instant, resume};

    use super::*;

    /// A log whose thread reports each line before it writes it, and writes nothing until `gate` is
    /// dropped.
    struct Slow {
        log: AuditLog,
        begun: blocking::Receiver<String>,
        gate: blocking::Sender<()>,
    }

    impl Slow {
        fn start() -> Self {
            let (report, begun) = blocking::channel();
            let (gate, closed) = blocking::channel();
            let write = move |line: &str| {
                report.send(line.to_owned()).map_err(io::Error::other)?;
                let _opened = closed.recv();
                Ok(())
            };
            let log = AuditLog::start(Arc::new(Losses::new(Arc::default())), write).unwrap();
            Self { log, begun, gate }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_a_bounded_time_for_a_disk_that_does_not_answer() {
        let Slow { log, begun, gate } = Slow::start();
        let start = Instant::now();
        log.write_change("first\n".to_owned()).await;
        assert_eq!(begun.recv().unwrap(), "first\n");

        let project = ProjectId::new("p").unwrap();
        let refuse = || log.write_refusal(Some(&project), || "refusal\n".to_owned());
        join_all((0..RESERVED).map(|_| log.write_change("change\n".to_owned()))).await;
        // The room that is left is for changes.
        refuse();
        join_all((RESERVED..WAITING_MAX + 2).map(|_| log.write_change("change\n".to_owned()))).await;
        assert_eq!(start.elapsed().as_secs(), 3 * WAIT_MAX.as_secs());

        while log.0.losses.unmentioned.load(Ordering::SeqCst) < 2 {
            yield_now().await;
        }
        resume();
        drop(gate);
        log.finish().await;
        let lines: Vec<String> = begun.try_iter().collect();
        let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        assert_eq!((count("change\n"), count("refusal\n")), (WAITING_MAX, 0));
        assert_eq!(count("\"omitted\":2,\"reason\":\"the audit log could not be written\""), 1);
        assert_eq!(count("\"omitted\":1,\"reason\":\"too many refused or failed"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_is_written_even_if_nobody_waits_for_it_any_more() {
        let Slow { log, begun, gate } = Slow::start();
        {
            let change = log.write_change("change\n".to_owned());
            tokio::pin!(change);
            assert!(timeout(Duration::from_millis(1), change).await.is_err());
        }
        resume();
        drop(gate);
        log.finish().await;
        assert_eq!(begun.try_iter().collect::<Vec<_>>(), ["change\n"]);
    }
}
