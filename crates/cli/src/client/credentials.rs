//! The headers that authenticate requests. They are never shown.

use std::path::Path;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::environment::shown;
use super::error::Error;
use sukkal_base::text;
use sukkal_domain::Secret;

/// Headers with secrets, which are marked as sensitive, so that they are never shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials(HeaderMap);

impl Credentials {
    /// Reads a file with a header in each line.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let lines = text::read(path)
            .map_err(|error| Error::Usage(format!("cannot read the credentials in {}: {error}", shown(path))))?;
        Self::parse(&lines, &shown(path))
    }

    /// Parses lines such as `X-Auth-Token: 1234`. A line without a colon is a bearer token. Lines
    /// that begin with `#` are skipped. `source` names the lines in errors, which do not contain
    /// the lines themselves.
    pub(super) fn parse(lines: &str, source: &str) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        for (index, line) in lines.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line_is =
                |text: &str| Error::Usage(format!("line {} of the credentials in {source} {text}", index + 1));
            let invalid = || line_is("is no header");
            let (name, value) = match line.split_once(':') {
                Some((name, value)) => {
                    (HeaderName::try_from(name.trim()).map_err(|_| invalid())?, value.trim().to_owned())
                }
                None if line.contains(char::is_whitespace) => {
                    return Err(line_is("has white space but no colon; write NAME: VALUE, or only a token"));
                }
                None => (AUTHORIZATION, format!("Bearer {line}")),
            };
            let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(Self(headers))
    }

    /// Returns the credentials of the holder of a token, which `source` names in errors.
    pub(super) fn bearer(token: &Secret, source: &str) -> Result<Self, Error> {
        let token = token.reveal().unwrap_or_default().trim();
        let invalid = || Error::Usage(format!("the token in {source} is empty or cannot be sent as a header"));
        let value = HeaderValue::try_from(format!("Bearer {token}")).ok().filter(|_| !token.is_empty());
        let mut value = value.ok_or_else(invalid)?;
        value.set_sensitive(true);
        Ok(Self(HeaderMap::from_iter([(AUTHORIZATION, value)])))
    }

    /// Returns the credentials of the holder of a token as the line of a file.
    pub(super) fn line(token: &Secret) -> String {
        format!("Authorization: Bearer {}", token.reveal().unwrap_or_default().trim())
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_header_and_a_line_without_a_colon_is_a_bearer_token() {
        let lines = "# the token: that of Ann\nX-Auth-Token: a:b\n\n 1234 \n #5678";
        let credentials = Credentials::parse(lines, "a test").unwrap();

        assert_eq!(credentials.headers().len(), 2);

        assert_eq!(credentials.headers()["x-auth-token"], "a:b");
        assert_eq!(credentials.headers()["authorization"], "Bearer 1234");
    }

    #[test]
    fn a_bearer_token_may_contain_a_colon() {
        let token = Secret::new(" a:b\n");

        let credentials = Credentials::bearer(&token, "a test").unwrap();

        assert_eq!(credentials.headers()["authorization"], "Bearer a:b");
        assert_eq!(Credentials::parse(&Credentials::line(&token), "a test").unwrap().headers(), credentials.headers());
        assert!(!format!("{token:?} {credentials:?}").contains("a:b"));
        for unusable in ["", " \n", "a\nb"] {
            let error = Credentials::bearer(&Secret::new(unusable), "a test").unwrap_err().to_string();
            assert_eq!(error, "the token in a test is empty or cannot be sent as a header");
        }
    }

    #[test]
    fn errors_and_debug_output_contain_no_secret() {
        let error = Credentials::parse("first\nX Auth: secret\n", "a test").unwrap_err().to_string();
        let shown = format!("{:?}", Credentials::parse("secret", "a test").unwrap());

        assert_eq!(error, "line 2 of the credentials in a test is no header");
        for line in ["X-Project-Id secret", "Bearer secret"] {
            let error = Credentials::parse(line, "a test").unwrap_err().to_string();
            let expected = "has white space but no colon; write NAME: VALUE, or only a token";
            assert_eq!(error, format!("line 1 of the credentials in a test {expected}"));
        }
        assert!(!shown.contains("secret"), "{shown}");
    }
}
