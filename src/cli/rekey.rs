//! `sukkal rekey`: encrypts stored messages with the first key.
//!
//! The exit code is 0 if no other key is needed any more, 1 if one is or the command failed, and 2
//! if an option is wrong.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{Failure, store};
use crate::app::{self, Rekeyed};
use crate::config::Config;
use sukkal_cli::exit::print_message;

pub(super) fn run(options: &store::Options) -> Result<ExitCode, Failure> {
    let repeatable = |reason| format!("{reason}; what was encrypted stays so, and the command can be repeated");
    let result = rekey(&options.load()?).map_err(|error| Failure::of(&error, repeatable))?;
    print_result(&result)?;
    let needs_no_other_key = result.is_complete && result.unreadable == 0;
    Ok(if needs_no_other_key { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[tokio::main]
async fn rekey(config: &Config) -> Result<Rekeyed, app::Error> {
    app::rekey(config, |pass, result| {
        print_message(&format!(
            "pass {pass}: {} of {} messages were encrypted anew",
            result.rewritten, result.encrypted
        ));
    })
    .await
}

fn print_result(result: &Rekeyed) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let Rekeyed { queues, encrypted, rewritten, unreadable, .. } = result;
    writeln!(out, "queues: {queues}, encrypted messages: {encrypted}, encrypted anew: {rewritten}")?;
    for body in &result.unreadable_bodies {
        writeln!(out, "{body}")?;
    }
    if *unreadable > 0 {
        writeln!(out, "{unreadable} messages cannot be decrypted with any of the keys")
    } else if !result.is_complete {
        writeln!(out, "a process still encrypts messages with another key")
    } else if *queues == 0 {
        writeln!(out, "there are no queues: make sure that this is the store of the service")
    } else {
        writeln!(out, "all encrypted messages use message_encryption_key; the other keys are not needed any more")
    }
}
