//! The values that an option accepts.

use std::str::FromStr;

use hyper::Uri;
use toml::Value;

/// A year with 366 days, in seconds: the maximum of most times.
pub const YEAR_S: u64 = 366 * 24 * 3600;

/// The values that an option accepts. A description of them follows the words "it must be".
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// An integer between a minimum and a maximum, with its unit.
    Integer(u64, u64, &'static str),
    /// True or false.
    Boolean,
    /// One of the given words.
    OneOf(&'static [&'static str]),
    /// One of the given numbers.
    OneOfNumbers(&'static [i64]),
    /// A list of some of the given words. The description precedes them.
    SomeOf(&'static str, &'static [&'static str]),
    /// A text that the function accepts, with a description.
    Text(fn(&str) -> bool, &'static str),
    /// A text that the function accepts, with a description. It is never shown, because it may
    /// contain a password.
    HiddenText(fn(&str) -> bool, &'static str),
    /// A list of texts that the function accepts, with a description.
    List(fn(&str) -> bool, &'static str),
    /// A secret, which is never shown.
    Secret,
    /// A list of secrets.
    Secrets,
    /// Other values.
    Other {
        /// Converts the text of an environment variable.
        parse: fn(&str) -> Value,
        /// Checks a value. The error says what is wrong with it, or what is accepted.
        check: fn(&Value) -> Result<(), String>,
        /// Whether messages show a value.
        is_shown: bool,
    },
}

impl Rule {
    /// A maximum number of connections, or of something else that uses connections.
    pub const CONNECTIONS: Self = Self::Integer(1, 1_000_000, "");
    /// A time in seconds that may be 0.
    pub const DELAY: Self = Self::Integer(0, YEAR_S, "seconds");
    /// A time in seconds.
    pub const DURATION: Self = Self::Integer(1, YEAR_S, "seconds");
    /// A maximum number of entries in a page. One script reads a page.
    pub const PAGE: Self = Self::Integer(1, 1000, "");
    /// Any text.
    pub const TEXT: Self = Self::Text(|_| true, "text in quotes");
    /// A password. It may be short, because other services choose it.
    pub const PASSWORD: Self = Self::HiddenText(|_| true, "text in quotes");
    /// A text that is not empty.
    pub const NAME: Self = Self::Text(|text| !text.is_empty(), "a text that is not empty");
    /// A list of texts that are not empty.
    pub const NAMES: Self = Self::List(|text| !text.is_empty(), "a list of texts that are not empty");
    /// The path of a file, or an empty text.
    pub const OPTIONAL_FILE: Self = Self::Text(|_| true, "the path of a file in quotes, or empty");
    /// The URL of a server with or without TLS, or an empty text.
    pub const OPTIONAL_WEB_URL: Self = Self::HiddenText(
        |text| text.is_empty() || is_web_url(text),
        "the URL of a server without a user and a query, such as \"https://keystone.example.com/v3\", or empty",
    );

    /// A list of texts of a type.
    #[must_use]
    pub const fn list_of<T: FromStr>(description: &'static str) -> Self {
        Self::List(|text| text.parse::<T>().is_ok(), description)
    }

    /// Converts text to a value of the option's type. Returns the text itself if it is not of that
    /// type.
    #[must_use]
    pub fn parse(self, text: &str) -> Value {
        let typed = match self {
            Self::Integer(..) | Self::OneOfNumbers(_) => text.parse().ok().map(Value::Integer),
            Self::Boolean => text.parse().ok().map(Value::Boolean),
            Self::SomeOf(..) | Self::List(..) => Some(parse_list(text)),
            // White space is part of a secret, as in an option with a single one.
            Self::Secrets => Some(text.split(',').filter(|item| !item.is_empty()).collect::<Vec<_>>().into()),
            Self::Other { parse, .. } => Some(parse(text)),
            Self::OneOf(_) | Self::Text(..) | Self::HiddenText(..) | Self::Secret => None,
        };
        typed.unwrap_or_else(|| text.into())
    }

    /// Checks a value. The error says what the option accepts.
    pub fn check(self, value: &Value) -> Result<(), String> {
        let is_accepted = match (self, value) {
            (Self::Integer(min, max, _), Value::Integer(number)) => {
                u64::try_from(*number).is_ok_and(|number| (min..=max).contains(&number))
            }
            (Self::Boolean, Value::Boolean(_)) | (Self::Secret, Value::String(_)) => true,
            (Self::OneOf(words), Value::String(text)) => words.contains(&text.as_str()),
            (Self::OneOfNumbers(numbers), Value::Integer(number)) => numbers.contains(number),
            (Self::SomeOf(_, words), Value::Array(items)) => all(items, |text| words.contains(&text)),
            (Self::Text(accepts, _) | Self::HiddenText(accepts, _), Value::String(text)) => accepts(text),
            (Self::List(accepts, _), Value::Array(items)) => all(items, accepts),
            (Self::Secrets, Value::Array(items)) => all(items, |text| !text.is_empty()),
            (Self::Other { check, .. }, value) => return check(value),
            _ => false,
        };
        if is_accepted { Ok(()) } else { Err(format!("it must be {}", self.description())) }
    }

    fn description(self) -> String {
        let quoted = |words: &[&str]| words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>();
        match self {
            Self::Integer(min, max, "") => format!("an integer from {min} to {max}"),
            Self::Integer(min, max, unit) => format!("an integer from {min} to {max}, in {unit}"),
            Self::Boolean => "true or false".to_owned(),
            Self::OneOf(words) => quoted(words).join(" or "),
            Self::OneOfNumbers(numbers) => numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" or "),
            Self::SomeOf(description, words) => format!("{description} {}", quoted(words).join(", ")),
            Self::Text(_, description) | Self::HiddenText(_, description) | Self::List(_, description) => {
                description.to_owned()
            }
            Self::Secret => "text in quotes".to_owned(),
            Self::Secrets => "a list of texts in quotes, none of which is empty".to_owned(),
            Self::Other { .. } => "another value".to_owned(),
        }
    }

    /// Returns whether the values are secrets that operators choose.
    #[must_use]
    pub fn is_secret(self) -> bool {
        matches!(self, Self::Secret | Self::Secrets)
    }

    /// Returns whether messages show a value. Otherwise it may contain a secret, or the message
    /// names the part of it that is wrong.
    #[must_use]
    pub fn is_shown(self) -> bool {
        !matches!(self, Self::HiddenText(..) | Self::Secret | Self::Secrets | Self::Other { is_shown: false, .. })
    }
}

/// Converts a text to a list: commas separate the items.
#[must_use]
pub fn parse_list(text: &str) -> Value {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect::<Vec<_>>().into()
}

/// Returns whether all items of a list are texts that are accepted.
fn all(items: &[Value], is_accepted: impl Fn(&str) -> bool) -> bool {
    items.iter().all(|item| item.as_str().is_some_and(&is_accepted))
}

/// Returns whether a text is the URL of a server, without a password.
fn is_web_url(text: &str) -> bool {
    let is_plain = |url: &Uri| url.host().is_some() && url.query().is_none() && !text.contains(['@', '#', '"']);
    let has_scheme = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https"));
    text.parse::<Uri>().is_ok_and(|url| has_scheme(&url) && is_plain(&url))
}
