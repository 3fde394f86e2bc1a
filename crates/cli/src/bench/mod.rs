//! `sukkal bench`: load from producers, observers and workers on any service that speaks Zaqar v2.
//!
//! It uses only the HTTP API of the service. Each connection belongs to one of a few threads, so a
//! request costs little.

mod connection;
mod error;
mod load;
mod options;
mod pace;
mod plot;
mod report;
mod requests;
mod run;
mod setup;
mod stats;
mod summary;
mod table;

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub use self::options::Options;

use self::error::Error;
use self::summary::Summary;
use super::exit::{INTERRUPTED, fail, print_message};

/// Runs the benchmark. The exit code is 0 if there are figures, and 1 if no request was answered.
#[must_use]
pub fn run(options: &Options) -> ExitCode {
    match bench(options) {
        Ok(code) => code,
        Err(error @ Error::Interrupted) => fail(INTERRUPTED, &error.to_string()),
        Err(error) => fail(1, &error.to_string()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn bench(options: &Options) -> Result<ExitCode, Error> {
    let unwritable = |source| Error::Report { path: options.report.clone().unwrap_or_default(), source };
    // Created first, so that a file that cannot be written is reported before the run.
    let report = options.report.as_ref().map(File::create).transpose().map_err(unwritable)?;
    let stop = CancellationToken::new();
    interrupt(stop.clone())?;

    let measured = run::run(options, &stop).await?;
    let summary = Summary::new(options, &measured);
    let table = table::render(options, &summary);
    let json = if options.json { Some(summary.json()?) } else { None };
    let shown = json.as_ref().unwrap_or(&table);
    io::stdout().lock().write_all(shown.as_bytes())?;
    if let Some(mut file) = report {
        let page = report::page(&table, &summary).into_string();
        file.write_all(page.as_bytes()).map_err(unwritable)?;
    }
    if !measured.queues_left.is_empty() {
        print_message(&format!("cannot delete the queues {}", measured.queues_left.join(", ")));
    }
    Ok(match () {
        () if stop.is_cancelled() => fail(INTERRUPTED, "interrupted; the figures cover the time until then"),
        () if !summary.has_successes() => fail(1, "no request was answered with 2xx"),
        () => ExitCode::SUCCESS,
    })
}

/// Cancels `stop` at the first SIGINT or SIGTERM, so that the run can clean up. The second signal
/// ends the process.
fn interrupt(stop: CancellationToken) -> io::Result<()> {
    let (mut interrupts, mut terminations) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupts.recv() => {}
                _ = terminations.recv() => {}
            }
            if stop.is_cancelled() {
                std::process::exit(INTERRUPTED.into());
            }
            stop.cancel();
        }
    });
    Ok(())
}
