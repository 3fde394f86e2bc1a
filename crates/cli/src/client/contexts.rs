//! The file with the contexts, which only its owner can read.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::environment::{Environment, shown};
use super::error::Error;
use super::replacement::Replacement;
use crate::exit::print_message;
use sukkal_base::text;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The permissions of everybody but the owner.
const OTHERS: u32 = 0o077;

/// A service, and in whose name to use it.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    pub(super) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client_id: Option<String>,
    /// The credentials themselves, one header per line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) credentials: Option<String>,
    /// A file that is read whenever the context is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) credentials_file: Option<PathBuf>,
    /// A file with the certificates that are trusted instead of those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cacert: Option<PathBuf>,
    /// A file with the certificate of the client and its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cert: Option<PathBuf>,
}

/// All contexts by name, and the name of the one that commands use by default.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<String>,
    #[serde(default)]
    pub(super) contexts: BTreeMap<String, Context>,
}

impl Contexts {
    /// Reads the file. Without a file, there are no contexts.
    pub(super) fn load(environment: &Environment) -> Result<Self, Error> {
        // A process without a home cannot have contexts, but it can use the service.
        let Some(path) = path(environment) else { return Ok(Self::default()) };
        let unusable = |reason: String| Error::Usage(format!("cannot read the contexts in {}: {reason}", shown(&path)));
        let text = match text::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unusable(error.to_string())),
        };
        // The text of the error would quote the file, with its secrets.
        let parsed = |error: toml::de::Error| unusable(error.message().to_owned());
        let contexts: Self = toml::from_str(&text).map_err(parsed)?;
        let mode = fs::metadata(&path).map_or(FILE_MODE, |data| data.permissions().mode());
        let has_secrets = contexts.contexts.values().any(|context| context.credentials.is_some());
        if has_secrets && mode & OTHERS != 0 {
            let path = shown(&path);
            print_message(&format!("warning: other users can read the credentials in {path}; run `chmod 600 {path}`"));
        }
        Ok(contexts)
    }

    /// Changes the contexts, and replaces the file in one step. If another process is changing the
    /// contexts, it finishes first.
    pub(super) fn change(
        environment: &Environment,
        change: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let path = path(environment)
            .ok_or_else(|| Error::Usage("there is no place for contexts: set HOME or XDG_CONFIG_HOME".to_owned()))?;
        let unwritable =
            |error: io::Error| Error::Failed(format!("cannot write the contexts to {}: {error}", shown(&path)));
        let _lock = lock(&path).map_err(unwritable)?;
        let mut contexts = Self::load(environment)?;
        change(&mut contexts)?;
        let text = toml::to_string(&contexts).map_err(|error| Error::Failed(error.to_string()))?;
        replace(&path, &text).map_err(unwritable)
    }

    /// Returns the context that the environment or `sukkal context use` has selected.
    pub(super) fn selected(&self, environment: &Environment) -> Result<Option<&Context>, Error> {
        let name = environment.text("SUKKAL_CONTEXT")?.or_else(|| self.current.clone());
        name.map(|name| self.get(&name)).transpose()
    }

    pub(super) fn get(&self, name: &str) -> Result<&Context, Error> {
        self.contexts.get(name).ok_or_else(|| Self::unknown(name))
    }

    pub(super) fn unknown(name: &str) -> Error {
        Error::Usage(format!("there is no context {name}; `sukkal context ls` lists them"))
    }
}

/// The file, in the folder that the XDG Base Directory Specification names.
fn path(environment: &Environment) -> Option<PathBuf> {
    let configured = environment.os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = configured.or_else(|| environment.os("HOME").map(|home| Path::new(&home).join(".config")))?;
    Some(folder.join("sukkal").join("contexts.toml"))
}

/// Waits until no other process is changing the contexts. The lock ends with the returned file.
fn lock(path: &Path) -> io::Result<File> {
    let folder = path.parent().ok_or(ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    // Not the file itself, because that is replaced.
    let name = path.with_extension("lock");
    let file = File::options().write(true).create(true).truncate(false).mode(FILE_MODE).open(name)?;
    file.lock()?;
    Ok(file)
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut file = Replacement::create(path)?;
    file.write_all(text.as_bytes())?;
    file.complete()
}
