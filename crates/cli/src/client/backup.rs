//! `sukkal backup`: writes a backup of the whole store to a file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use reqwest::{Method, Response};
use serde_json::json;
use tokio::time::timeout;

use super::error::Error;
use super::http::Service;
use super::output::Output;
use super::replacement::Replacement;

/// Maximum time in which the service sends nothing.
const SILENCE_MAX: Duration = Duration::from_secs(60);

#[derive(Args, Debug)]
pub struct Options {
    /// The file to write. An existing file is replaced when the backup is complete
    file: PathBuf,
}

pub(super) async fn run(options: &Options, service: &Service, output: &mut Output) -> Result<(), Error> {
    let file = &options.file;
    if file.as_os_str() == "-" {
        let text = "a backup is written to a file, not to stdout; name a file, or write ./- for one with the name -";
        return Err(Error::Usage(text.to_owned()));
    }
    if fs::symlink_metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(Error::Usage(format!("{} is not a regular file", file.display())));
    }
    let backup = service.request(Method::GET, "/v2/backup").open().await?;
    let bytes = write(backup, file, service).await?;
    let file = file.display().to_string();
    output.done(&format!("wrote {bytes} bytes to {file}"), &json!({ "file": file, "bytes": bytes }))
}

/// Writes the body of a response to the file when it is complete. Returns its size in bytes.
async fn write(mut backup: Response, path: &Path, service: &Service) -> Result<u64, Error> {
    let failed = |error: io::Error| Error::Failed(format!("cannot write {}: {error}", path.display()));
    let mut file = Replacement::create(path).map_err(failed)?;
    let mut bytes = 0;
    loop {
        let part = timeout(SILENCE_MAX, backup.chunk()).await;
        let silent =
            || Error::Unavailable(format!("{} has been silent for {} s", service.url(), SILENCE_MAX.as_secs()));
        let part = part.map_err(|_| silent())?.map_err(|error| service.lost(&error.into()))?;
        let Some(part) = part else { break };
        file.write_all(&part).map_err(failed)?;
        bytes += part.len() as u64;
    }
    file.complete().map_err(failed)?;
    Ok(bytes)
}
