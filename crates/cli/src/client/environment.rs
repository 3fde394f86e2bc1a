//! The environment variables of the process, and the names of files for messages.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::error::Error;

/// The variables of the process. An empty variable is as if it were not set.
pub(super) struct Environment(HashMap<OsString, OsString>);

impl Environment {
    pub(super) fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    pub(super) fn os(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Error> {
        let invalid = || Error::Usage(format!("{name} is not valid UTF-8"));
        self.os(name).map(|value| value.to_str().map(str::to_owned).ok_or_else(invalid)).transpose()
    }
}

/// The name of a file for messages.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}
