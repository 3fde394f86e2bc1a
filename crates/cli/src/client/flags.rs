//! The flags of every command of the client, and the settings that follow from them, the
//! environment and the contexts.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use uuid::Builder;
use xxhash_rust::xxh3::xxh3_128;

use super::contexts::{Context, Contexts};
use super::credentials::Credentials;
use super::environment::Environment;
use super::error::Error;
use crate::duration::duration;
use crate::exit::print_message;
use sukkal_domain::Secret;

pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:8888";
/// The service would use the project of the credentials.
pub(super) const OTHER_PROJECT: &str =
    "the credentials are for another project than the one in --project, SUKKAL_PROJECT or the context";
pub(super) const HEADING: &str = "Options of all commands that use the API";
const DEFAULT_RETRY: Duration = Duration::from_secs(10);

/// The service to use, and how to show results.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = HEADING)]
pub struct Flags {
    /// URL of the service, without /v2 [env: SUKKAL_URL] [default: http://127.0.0.1:8888]
    #[arg(long, global = true, value_name = "URL")]
    pub(super) url: Option<String>,
    /// Project that the queues belong to [env: SUKKAL_PROJECT] [default: that of the credentials,
    /// or demo]
    #[arg(long, global = true, value_name = "ID")]
    pub(super) project: Option<String>,
    /// Client-ID of the requests [env: SUKKAL_CLIENT_ID] [default: a UUID that is derived from the
    /// names of the user and the machine]
    #[arg(long, global = true, value_name = "UUID")]
    pub(super) client_id: Option<String>,
    /// Token that authenticates the requests [env: SUKKAL_TOKEN]
    ///
    /// Other users of this machine may see the options of a command, so prefer the variable, a
    /// context or a file.
    #[arg(long, global = true, value_name = "TOKEN", conflicts_with = "credentials_file")]
    pub(super) token: Option<Secret>,
    /// File with headers that authenticate the requests [env: SUKKAL_CREDENTIALS_FILE]
    ///
    /// Each line is a header, such as `X-Auth-Token: 1234`. A line without a colon is a bearer
    /// token. Empty lines and lines that begin with # are skipped. The variable SUKKAL_CREDENTIALS
    /// may contain such lines instead of a file.
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) credentials_file: Option<PathBuf>,
    /// File with the certificates to trust for https, in PEM format [env: SUKKAL_CACERT] [default:
    /// those that the system trusts]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) cacert: Option<PathBuf>,
    /// File with the client certificate for https and its private key, in PEM format [env:
    /// SUKKAL_CERT] [default: none]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) cert: Option<PathBuf>,
    /// Context with the URL, project and credentials; see `sukkal context` [env: SUKKAL_CONTEXT]
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Print one JSON document per line instead of tables [env: SUKKAL_JSON=true]
    #[arg(long, global = true)]
    json: bool,
    /// How long to repeat requests while the service is unavailable [env: SUKKAL_RETRY]
    /// [default: 10]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    retry: Option<Duration>,
}

/// Where requests go, and in whose name.
pub(super) struct Settings {
    pub(super) url: String,
    /// The project that somebody has chosen.
    pub(super) project: Option<String>,
    pub(super) client_id: String,
    pub(super) credentials: Credentials,
    /// File with the certificates that are trusted instead of those of the system.
    pub(super) cacert: Option<PathBuf>,
    /// File with the certificate of the client and its key.
    pub(super) cert: Option<PathBuf>,
    /// How long a request is repeated while the service is unavailable.
    pub(super) retry: Duration,
}

impl Flags {
    /// Whether the output is for programs.
    pub(super) fn json(&self, environment: &Environment) -> Result<bool, Error> {
        match environment.text("SUKKAL_JSON")?.as_deref() {
            _ if self.json => Ok(true),
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(Error::Usage(format!("SUKKAL_JSON is {other:?}; it must be true or false"))),
        }
    }

    /// Returns the settings. A flag precedes a context that a flag names, which precedes the
    /// environment, which precedes any other context.
    ///
    /// Credentials are sent only to the URL that they came with: a URL by a flag or the environment
    /// replaces a context entirely, and a URL by a flag or a context replaces the URL and the
    /// credentials of the environment.
    pub(super) fn settings(&self, environment: &Environment) -> Result<Settings, Error> {
        if self.url.is_some() && self.context.is_some() {
            return Err(Error::Usage("--url and --context cannot be combined, because a context has a URL".to_owned()));
        }
        let flags = Source {
            url: self.url.clone(),
            project: self.project.clone(),
            client_id: self.client_id.clone(),
            credentials: self.credentials()?,
            cacert: self.cacert.clone(),
            cert: self.cert.clone(),
        };
        let mut variables = Source::from_environment(environment)?;
        let is_url_chosen_twice = flags.url.is_none() && self.context.is_none() && variables.url.is_some();
        if is_url_chosen_twice && environment.text("SUKKAL_CONTEXT")?.is_some() {
            return Err(Error::Usage(
                "SUKKAL_URL and SUKKAL_CONTEXT cannot be combined, because a context has a URL".to_owned(),
            ));
        }
        let is_replaced = flags.url.is_some() && flags.url != variables.url || self.context.is_some();
        if variables.url.is_some() && is_replaced {
            if variables.credentials.is_some() && flags.credentials.is_none() {
                print_message(
                    "warning: the credentials in the environment are not sent, because they are for SUKKAL_URL",
                );
            }
            (variables.url, variables.credentials) = (None, None);
        }
        let sources = match &self.context {
            Some(name) => {
                let context = Contexts::load(environment)?.get(name)?.clone();
                [flags, Source::from_context(context)?, variables]
            }
            None if flags.url.is_some() || variables.url.is_some() => [flags, variables, Source::default()],
            None => {
                let context = Contexts::load(environment)?.selected(environment)?.cloned();
                [flags, variables, context.map(Source::from_context).transpose()?.unwrap_or_default()]
            }
        };
        let merged = sources.into_iter().reduce(Source::or).unwrap_or_default();
        let named = merged.credentials.as_ref().and_then(|credentials| credentials.headers().get("x-project-id"));
        if let (Some(project), Some(named)) = (&merged.project, named)
            && named.as_bytes() != project.as_bytes()
        {
            return Err(Error::Usage(OTHER_PROJECT.to_owned()));
        }
        Ok(Settings {
            url: merged.url.unwrap_or_else(|| DEFAULT_URL.to_owned()),
            project: merged.project,
            client_id: merged.client_id.unwrap_or_else(|| default_client_id(environment)),
            credentials: merged.credentials.unwrap_or_default(),
            cacert: merged.cacert,
            cert: merged.cert,
            retry: self.retry_limit(environment)?,
        })
    }

    fn credentials(&self) -> Result<Option<Credentials>, Error> {
        match (&self.token, &self.credentials_file) {
            (Some(token), _) => Credentials::bearer(token, "--token").map(Some),
            (None, file) => file.as_deref().map(Credentials::read).transpose(),
        }
    }

    fn retry_limit(&self, environment: &Environment) -> Result<Duration, Error> {
        let variable = environment.text("SUKKAL_RETRY")?;
        let from_variable =
            || variable.map(|text| duration(&text).map_err(|error| Error::Usage(format!("SUKKAL_RETRY: {error}"))));
        self.retry.map(Ok).or_else(from_variable).unwrap_or(Ok(DEFAULT_RETRY))
    }
}

/// The values that one source has.
#[derive(Default)]
struct Source {
    url: Option<String>,
    project: Option<String>,
    client_id: Option<String>,
    credentials: Option<Credentials>,
    cacert: Option<PathBuf>,
    cert: Option<PathBuf>,
}

impl Source {
    fn from_environment(environment: &Environment) -> Result<Self, Error> {
        let file = environment.os("SUKKAL_CREDENTIALS_FILE").map(PathBuf::from);
        let token = environment.text("SUKKAL_TOKEN")?.as_deref().map(Secret::new);
        let credentials = match (token, environment.text("SUKKAL_CREDENTIALS")?) {
            (Some(token), _) => Some(Credentials::bearer(&token, "SUKKAL_TOKEN")?),
            (None, Some(lines)) => Some(Credentials::parse(&lines, "SUKKAL_CREDENTIALS")?),
            (None, None) => file.as_deref().map(Credentials::read).transpose()?,
        };
        Ok(Self {
            url: environment.text("SUKKAL_URL")?,
            project: environment.text("SUKKAL_PROJECT")?,
            client_id: environment.text("SUKKAL_CLIENT_ID")?,
            credentials,
            cacert: environment.os("SUKKAL_CACERT").map(PathBuf::from),
            cert: environment.os("SUKKAL_CERT").map(PathBuf::from),
        })
    }

    fn from_context(context: Context) -> Result<Self, Error> {
        let credentials = match (&context.credentials, &context.credentials_file) {
            (Some(lines), _) => Some(Credentials::parse(lines, "the context")?),
            (None, file) => file.as_deref().map(Credentials::read).transpose()?,
        };
        let Context { url, project, client_id, cacert, cert, .. } = context;
        Ok(Self { url: Some(url), project, client_id, credentials, cacert, cert })
    }

    fn or(self, others: Self) -> Self {
        Self {
            url: self.url.or(others.url),
            project: self.project.or(others.project),
            client_id: self.client_id.or(others.client_id),
            credentials: self.credentials.or(others.credentials),
            cacert: self.cacert.or(others.cacert),
            cert: self.cert.or(others.cert),
        }
    }
}

/// Returns a UUID that is the same for all commands of a user on a machine, so that a list of
/// claims tells their claims apart from those of others.
fn default_client_id(environment: &Environment) -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| environment.os(name)).unwrap_or_default();
    let machine = rustix::system::uname();
    let name = [user.as_encoded_bytes(), b"@", machine.nodename().to_bytes()].concat();
    Builder::from_custom_bytes(xxh3_128(&name).to_be_bytes()).into_uuid().to_string()
}
