//! The headers that authenticate requests. They are never shown.

use std::fmt;
use std::fs;
use std::path::Path;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::environment::shown;
use super::error::Error;

/// Headers with secrets.
#[derive(Clone, Default)]
pub(super) struct Credentials(HeaderMap);

impl Credentials {
    /// Reads a file with a header in each line.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let lines = fs::read_to_string(path)
            .map_err(|error| Error::Usage(format!("cannot read the credentials in {}: {error}", shown(path))))?;
        Self::parse(&lines, &shown(path))
    }

    /// Parses lines such as `X-Auth-Token: 1234`. A line without a colon is a bearer token. `source`
    /// names the lines in errors, which do not contain the lines themselves.
    pub(super) fn parse(lines: &str, source: &str) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        for (index, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let invalid = || Error::Usage(format!("line {} of the credentials in {source} is no header", index + 1));
            let (name, value) = match line.split_once(':') {
                Some((name, value)) => {
                    (HeaderName::try_from(name.trim()).map_err(|_| invalid())?, value.trim().to_owned())
                }
                None => (AUTHORIZATION, format!("Bearer {}", line.trim())),
            };
            let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(Self(headers))
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.0
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_header_and_a_line_without_a_colon_is_a_bearer_token() {
        let credentials = Credentials::parse("X-Auth-Token: a:b\n\n 1234 \n", "a test").unwrap();

        assert_eq!(credentials.headers()["x-auth-token"], "a:b");
        assert_eq!(credentials.headers()["authorization"], "Bearer 1234");
    }

    #[test]
    fn errors_and_debug_output_contain_no_secret() {
        let error = Credentials::parse("first\nX Auth: secret\n", "a test").unwrap_err().to_string();
        let shown = format!("{:?}", Credentials::parse("secret", "a test").unwrap());

        assert_eq!(error, "line 2 of the credentials in a test is no header");
        assert!(!shown.contains("secret"), "{shown}");
    }
}
