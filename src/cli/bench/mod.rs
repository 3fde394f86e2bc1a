//! `sukkal bench`: load from producers, observers and workers on any service that speaks Zaqar v2.
//!
//! It uses only the HTTP API of the service. The connections of a thread are tasks of that thread
//! and update statistics of that thread, so a request costs little and never waits for another
//! thread.

mod connection;
mod connection_loop;
mod error;
mod options;
mod pacing;
mod plot;
mod process;
mod progress;
mod report;
mod responses;
mod run;
mod server;
mod setup;
mod stats;
mod summary;
mod table;
mod target;
mod threads;
mod timer;
mod traffic;

use std::io::{self, Write};
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(super) use self::options::Options;

use self::error::Error;
use self::report::Report;
use self::summary::Summary;
use super::exit::{BAD_OPTION, INTERRUPTED, fail, print_message};

/// Runs the benchmark. The exit code is 0 if there are figures, and 1 if no request was answered.
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
    // Created first, so that a file that cannot be written is reported before the run.
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
    if !measured.queues_left.is_empty() {
        print_message(&format!("cannot delete the queues {}", measured.queues_left.join(", ")));
    }
    Ok(match () {
        () if interruption.is_finished() => fail(INTERRUPTED, "interrupted; the figures cover the time until then"),
        () if summary.succeeded == 0 => fail(1, "no request was answered with 2xx"),
        () => ExitCode::SUCCESS,
    })
}

/// Cancels `stop` at the first SIGINT or SIGTERM, so that the run can clean up. The second signal
/// ends the process.
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
