//! `sukkal rekey`: encrypts stored messages with the first key.
//!
//! The exit code is 0 if no other key is needed any more, 1 if one is or the command failed, and 2
//! if an option is wrong.

use std::io::{self, Write};
use std::process::ExitCode;

use super::store;
use crate::app::{self, Rekeyed};
use crate::config::Config;
use sukkal_cli::exit::{BAD_OPTION, FAILED, fail, print_message};

pub(super) fn run(options: &store::Options) -> ExitCode {
    let config = match options.load() {
        Ok(config) => config,
        Err(code) => return code,
    };
    match rekey(&config) {
        Ok(result) => match print_result(&result) {
            Ok(()) if result.is_complete && result.unreadable == 0 => ExitCode::SUCCESS,
            Ok(()) => ExitCode::from(FAILED),
            Err(error) => fail(FAILED, &error.to_string()),
        },
        Err(
            error @ (app::Error::OpenStore(_) | app::Error::RedisTls(_) | app::Error::Refused(_) | app::Error::NoKey),
        ) => fail(BAD_OPTION, &error.to_string()),
        Err(error) => fail(FAILED, &format!("{error}; what was encrypted stays so, and the command can be repeated")),
    }
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
