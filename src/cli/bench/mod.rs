//! `sukkal bench`: producers, observers and claimers against any service that speaks Zaqar v2.
//!
//! It knows the service by its API over HTTP only. A thread's connections are tasks of that thread, and count in
//! tallies of that thread, so that a request costs this process little and waits for nobody else.

mod alarm;
mod answers;
mod connection;
mod crew;
mod options;
mod pacing;
mod plot;
mod process;
mod progress;
mod report;
mod run;
mod stage;
mod summary;
mod table;
mod tally;
mod target;
mod traffic;
mod worker;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(super) use self::options::Options;

use self::connection::Failure;
use self::report::Report;
use self::summary::Summary;
use super::{BAD_OPTION, fail, say};

/// What a shell makes of a process that was interrupted.
const INTERRUPTED: u8 = 130;

/// Why there are no figures.
#[derive(Debug, Error)]
enum Error {
    #[error("{url} cannot be reached: {source}")]
    Unreachable { url: String, source: io::Error },
    #[error("{what}: {failure}{}", if answer.is_empty() { String::new() } else { format!(", {answer}") })]
    Setup { what: String, failure: Failure, answer: String },
    #[error("not all connections can be opened: {0}")]
    Open(Failure),
    #[error("{needed} files have to be open, the limit is {most}: raise it (ulimit -Hn) or use fewer connections")]
    TooManyConnections { needed: u64, most: u64 },
    #[error("the queues' names or the project cannot stand in a request: {0}")]
    Unsendable(#[from] hyper::http::Error),
    #[error("{path} cannot be written: {source}")]
    Report { path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Exits with 0 when there are figures, with 1 when there are none or nothing was answered.
pub(super) fn run(options: &Options) -> ExitCode {
    match bench(options) {
        Ok(code) => code,
        Err(error @ Error::Unsendable(_)) => fail(BAD_OPTION, &error.to_string()),
        Err(error @ Error::Interrupted) => fail(INTERRUPTED, &error.to_string()),
        Err(error) => fail(1, &error.to_string()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn bench(options: &Options) -> Result<ExitCode, Error> {
    // Opened first: that it cannot be written should not turn out at the end.
    let report = options.report.as_deref().map(Report::create).transpose()?;
    let stop = CancellationToken::new();
    let interruption = tokio::spawn(interrupt(stop.clone())?);

    let measured = run::run(options, &stop).await?;
    let summary = Summary::new(options, &measured);
    let shown = if options.json { summary.json()? } else { table::render(options, &summary) };
    io::stdout().lock().write_all(shown.as_bytes())?;
    if let Some(report) = report {
        report.write(options, &summary)?;
    }
    if !measured.left.is_empty() {
        say(&format!("queues that could not be deleted: {}", measured.left.join(", ")));
    }
    Ok(match () {
        () if interruption.is_finished() => fail(INTERRUPTED, "interrupted; the figures are of the time before"),
        () if summary.answered == 0 => fail(1, "no request was answered well"),
        () => ExitCode::SUCCESS,
    })
}

/// Cancels at the first SIGINT or SIGTERM, which leaves time to clear up; the next ends the process.
fn interrupt(stop: CancellationToken) -> io::Result<impl Future<Output = ()>> {
    let mut signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut next = async move || {
        tokio::select! {
            _ = signals.0.recv() => {}
            _ = signals.1.recv() => {}
        }
    };
    Ok(async move {
        next().await;
        stop.cancel();
        tokio::spawn(async move {
            next().await;
            std::process::exit(INTERRUPTED.into());
        });
    })
}
