//! The audit log: which requests it records, what a line says, and what happens if it cannot be
//! written.

mod contents;
mod table;
mod trouble;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::http::Answer;
use support::sukkal::Sukkal;
use support::waiting::block_until;

const AUDIT_FILE: &str = "SUKKAL_AUDIT__FILE";
/// Maximum number of refused requests of unknown senders that a server records in a period.
const REFUSALS_MAX: usize = 100;

/// A server with an audit log.
struct Audited {
    sukkal: Sukkal,
    path: PathBuf,
    /// The folder of the log, which is deleted in the end.
    _folder: TempDir,
}

impl Audited {
    fn start(store: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let file = [(AUDIT_FILE, path.to_str().unwrap())];
        Self { sukkal: Sukkal::start_with(store, &[environment, &file].concat()), path, _folder: folder }
    }

    /// Returns the lines so far.
    fn lines(&self) -> Vec<Value> {
        lines_of(&self.path)
    }

    /// Returns all lines, after the server has stopped.
    fn stop(&mut self) -> Vec<Value> {
        self.sukkal.terminate();
        assert!(self.sukkal.wait().success());
        self.lines()
    }

    /// Returns the line of a request, as soon as it is written.
    fn line_of(&self, answer: &Answer) -> Value {
        let mut found = None;
        block_until("the request is recorded", || {
            found = self.lines().into_iter().find(|line| line["request_id"] == request_id(answer));
            found.is_some()
        });
        found.unwrap()
    }
}

/// Returns the complete lines of a log.
fn lines_of(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    complete.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn request_id(answer: &Answer) -> &str {
    answer.header("x-openstack-request-id").unwrap()
}
