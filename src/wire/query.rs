//! Query parameters. Repeated and comma-separated values form one list, and blank values count as
//! absent.

use std::borrow::Cow;
use std::collections::HashMap;

use percent_encoding::percent_decode_str;

use super::Error;

/// The query parameter with the signature of a pre-signed URL.
pub const SIGNATURE_PARAMETER: &str = "url_signature";
/// The query parameters that identify or authorize a request whose sender cannot set headers.
pub const CREDENTIALS: [&str; 6] =
    [SIGNATURE_PARAMETER, "url_paths", "url_methods", "url_expires", "project_id", "client_id"];

/// A parameter that identifies or authorizes a request is repeated, or is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ambiguous {
    /// It is repeated.
    Repeated,
    /// It is not UTF-8. A lossy conversion could turn two different values into the same one.
    NotUtf8,
}

/// Returns whether a query contains the name of the signature anywhere, in any case and encoding.
///
/// A proxy may pass requests with a signature without authentication. Its rules may ignore case or
/// split the query elsewhere, so each request that it could take for a signed one counts as one.
#[must_use]
pub fn mentions_signature(query: &str) -> bool {
    let query = if query.contains('%') { decoded(query) } else { query.into() };
    let (before, after) = SIGNATURE_PARAMETER.split_once('_').expect("the name has an underscore");
    let is_name = |(at, _): (usize, &str)| {
        let whole = at.checked_sub(before.len()).zip(at.checked_add(1 + after.len()));
        let text = whole.and_then(|(start, end)| query.as_bytes().get(start..end));
        text.is_some_and(|text| text.eq_ignore_ascii_case(SIGNATURE_PARAMETER.as_bytes()))
    };
    query.match_indices('_').any(is_name)
}

/// Returns the value of a parameter that identifies or authorizes a request. It may appear only
/// once, because a proxy and Sukkal could use different values. Commas are part of the value.
pub fn only<'q>(query: &'q str, name: &str) -> Result<Option<Cow<'q, str>>, Ambiguous> {
    let mut values = values(query, name);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Ambiguous::Repeated);
    }
    if !value.contains(['+', '%']) {
        return Ok(Some(value.into()));
    }
    let decoded = percent_decode_str(&value.replace('+', " ")).decode_utf8().map(|text| text.into_owned().into());
    decoded.map(Some).map_err(|_| Ambiguous::NotUtf8)
}

/// Returns the values of a parameter as they are in the query.
fn values<'q>(query: &'q str, name: &str) -> impl Iterator<Item = &'q str> {
    parameters(query).filter(move |(key, _)| key == name).map(|(_, value)| value)
}

/// Returns the parameters of a query in its order: each name, and its value as it is in the query.
pub fn parameters(query: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    let parameters = query.split('&').map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")));
    parameters.map(|(name, value)| (decoded(name), value))
}

/// The parameters of a request, each with its values, in the order of the URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, Vec<String>)>);

impl Query {
    /// Parses the part of a URL after the question mark.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        let parameters = text.unwrap_or_default().split('&').filter_map(|parameter| {
            let (name, values) = parameter.split_once('=')?;
            let values = values.split(',').filter(|value| !value.is_empty());
            let values: Vec<String> = values.map(|value| decoded(value).into_owned()).collect();
            (!values.is_empty()).then(|| (decoded(name).into_owned(), values))
        });
        Self(parameters.collect())
    }

    /// Returns all values of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).flat_map(|(_, values)| values).map(String::as_str)
    }

    /// Returns the value of a parameter; the last one if there are several.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&str> {
        self.all(name).last()
    }

    /// Returns the value of an integer parameter.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Error> {
        // A plus sign that the client did not encode was decoded as a space.
        let parse = |value: &str| {
            value.trim().parse().map_err(|_| Error::Parameter { name: name.to_owned(), expected: "an integer" })
        };
        self.last(name).map(parse).transpose()
    }

    /// Returns the value of a boolean parameter.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, Error> {
        let parse = |value: &str| match value {
            "true" | "True" | "t" | "yes" | "y" | "1" | "on" => Ok(true),
            "false" | "False" | "f" | "no" | "n" | "0" | "off" => Ok(false),
            _ => Err(Error::Parameter { name: name.to_owned(), expected: "\"true\" or \"false\"" }),
        };
        self.last(name).map(parse).transpose()
    }

    /// Returns the parameters with other names than these, each with all its values.
    #[must_use]
    pub fn others(&self, known: &[&str]) -> Vec<(&str, Vec<&str>)> {
        let mut others: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut indexes = HashMap::new();
        for (name, values) in self.0.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let index = *indexes.entry(name.as_str()).or_insert(others.len());
            if index == others.len() {
                others.push((name, Vec::new()));
            }
            others[index].1.extend(values.iter().map(String::as_str));
        }
        others
    }
}

fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['+', '%']) {
        return text.into();
    }
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(Some(text))
    }

    /// A name for each value would take the product of both.
    #[test]
    fn a_long_name_with_many_values_is_kept_once() {
        let Query(parameters) = query(&format!("{}={}", "n".repeat(30_000), "a,".repeat(15_000)));

        assert_eq!(parameters.len(), 1);
        assert_eq!(parameters[0].1.len(), 15_000);
    }

    #[test]
    fn repeated_and_comma_separated_values_are_one_list() {
        for text in ["ids=a,b", "ids=a&ids=b", "ids=a,&ids=b", "x=1&ids=a&y&ids=,b"] {
            assert_eq!(query(text).all("ids").collect::<Vec<_>>(), ["a", "b"], "{text}");
        }
        assert_eq!(query("a=1%2C2").last("a"), Some("1,2"));
        assert_eq!(query("a=1&a=2,3").last("a"), Some("3"));
    }

    #[test]
    fn a_parameter_that_authorizes_a_request_appears_once() {
        for (text, value) in [
            ("b=1", Ok(None)),
            ("a", Ok(Some(""))),
            ("a=", Ok(Some(""))),
            ("a=1,2", Ok(Some("1,2"))),
            ("b=2&%61=%C3%A9+1%2c=&c", Ok(Some("é 1,="))),
            ("a=1&a=1", Err(Ambiguous::Repeated)),
            ("a=1&%61=2", Err(Ambiguous::Repeated)),
            ("a&a=2", Err(Ambiguous::Repeated)),
            ("a=%ff", Err(Ambiguous::NotUtf8)),
        ] {
            assert_eq!(only(text, "a").as_ref().map(Option::as_deref), value.as_ref().map(|value| *value), "{text}");
        }
    }

    #[test]
    fn a_query_mentions_a_signature_however_a_proxy_would_read_it() {
        for text in
            ["url_signature", "a=1&url_signature=x", "URL_Signature=", "a=1;url_signature=x", "%75rl%5fsignature"]
        {
            assert!(mentions_signature(text), "{text}");
        }
        for text in ["", "url_paths=/a", "include_claimed=true&limit=5", "signature=x", "%zz_"] {
            assert!(!mentions_signature(text), "{text}");
        }
    }

    #[test]
    fn a_blank_value_counts_as_absent() {
        assert_eq!(query("limit=").integer("limit").unwrap(), None);
        assert_eq!(Query::parse(None).last("limit"), None);
    }

    #[test]
    fn values_are_decoded() {
        assert_eq!(query("a=%C3%A9+b&%61b=%zz").last("a"), Some("é b"));
        assert_eq!(query("%61b=%zz").last("ab"), Some("%zz"));
    }

    #[test]
    fn integers_may_be_signed() {
        assert_eq!(query("n=-5").integer("n").unwrap(), Some(-5));
        assert_eq!(query("n=%2B5").integer("n").unwrap(), Some(5));
        assert_eq!(query("n=+5").integer("n").unwrap(), Some(5));
        for text in ["n=1.0", "n=x", "n=1_0", "n=0x1"] {
            let error = query(text).integer("n").unwrap_err().to_string();
            assert_eq!(error, "The \"n\" parameter is invalid. The value must be an integer.");
        }
    }

    #[test]
    fn booleans_accept_a_fixed_set_of_words() {
        for word in ["true", "True", "t", "yes", "y", "1", "on"] {
            assert_eq!(query(&format!("b={word}")).boolean("b").unwrap(), Some(true));
        }
        for word in ["false", "False", "f", "no", "n", "0", "off"] {
            assert_eq!(query(&format!("b={word}")).boolean("b").unwrap(), Some(false));
        }
        for word in ["TRUE", "None", "2"] {
            assert!(query(&format!("b={word}")).boolean("b").is_err(), "{word}");
        }
    }
}
