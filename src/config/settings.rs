//! The values of all options, and the source of each value: its default, a file, the environment,
//! or a flag.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::error::Error;
use super::file::{Entry, Position};
use super::names::{nearest, option_of, variable_of};
use sukkal_domain::options::{Declared, Rule};

/// Pairs of options; the value of the first must not exceed that of the second.
const LOWER_AND_UPPER: [(&str, &str); 6] = [
    ("drain_delay", "drain_timeout"),
    ("transport.default_message_ttl", "transport.max_message_ttl"),
    ("transport.default_message_delay", "transport.max_message_delay"),
    ("transport.default_claim_ttl", "transport.max_claim_ttl"),
    ("transport.default_claim_grace", "transport.max_claim_grace"),
    ("transport.min_length_client_id", "transport.max_length_client_id"),
];
/// Length in bytes below which a secret causes a warning. It is the length of a SHA-256 digest, the
/// hash function that both secrets are used with.
const SECRET_BYTES_MIN: usize = 32;

/// All options by name with section, such as `transport.max_wait`.
pub(super) struct Settings(BTreeMap<String, Setting>);

struct Setting {
    rule: Rule,
    default: Value,
    value: Value,
    source: Source,
}

enum Source {
    Default,
    File(Position),
    /// The name of the variable.
    Environment(String),
    Flag,
}

impl Settings {
    /// Gives each option its default value.
    pub(super) fn new(options: Vec<Declared>) -> Self {
        let setting = |Declared { name, rule, default }| {
            (name, Setting { rule, value: Value::clone(&default), default, source: Source::Default })
        };
        Self(options.into_iter().map(setting).collect())
    }

    pub(super) fn is_section(&self, name: &str) -> bool {
        self.0.keys().any(|option| option.split_once('.').is_some_and(|(section, _)| section == name))
    }

    pub(super) fn set_from_file(&mut self, entries: Vec<Entry>) -> Result<(), Error> {
        for Entry { name, value, position } in entries {
            let Some(setting) = self.0.get_mut(&name) else {
                if self.is_section(&name) {
                    return Err(Error::Invalid(format!("{name} is a section (in {position}); write [{name}]")));
                }
                let suggestion = self.suggestion(&name, str::to_owned);
                return Err(Error::Invalid(format!("there is no option {name} (in {position}){suggestion}")));
            };
            (setting.value, setting.source) = (value, Source::File(position));
        }
        Ok(())
    }

    /// Sets options from environment variables. Returns a warning for each variable that begins
    /// with `SUKKAL_` but does not name an option.
    pub(super) fn set_from_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        for (variable, text) in variables {
            let Some(name) = option_of(&variable, &text) else {
                continue;
            };
            if let Some(setting) = self.0.get_mut(&name) {
                if let (Source::File(position), true) = (&setting.source, text.is_empty()) {
                    warnings.push(format!(
                        "the environment variable {variable} is empty and overrides {name} (in {position}); unset it to use \
                         the value in the file"
                    ));
                }
                (setting.value, setting.source) = (setting.rule.parse(&text), Source::Environment(variable));
            } else {
                let suggestion = self.suggestion(&name, variable_of);
                warnings.push(format!(
                    "the environment variable {variable} does not name an option and is ignored{suggestion}"
                ));
            }
        }
        warnings
    }

    pub(super) fn set_from_flag(&mut self, name: &str, text: &str) {
        let setting = self.0.get_mut(name).expect("every flag names an option");
        (setting.value, setting.source) = (setting.rule.parse(text), Source::Flag);
    }

    /// Rejects values that their options do not accept. A default value above a configured maximum
    /// is lowered to that maximum.
    pub(super) fn validate(&mut self) -> Result<(), Error> {
        for (name, setting) in &self.0 {
            setting.rule.check(&setting.value).map_err(|expected| setting.error(name, &expected))?;
        }
        for (lower, upper) in LOWER_AND_UPPER {
            let (low, high) = (&self.0[lower], &self.0[upper]);
            if low.value.as_integer() <= high.value.as_integer() {
                continue;
            }
            if matches!(low.source, Source::Default) {
                let value = high.value.clone();
                self.0.entry(lower.to_owned()).and_modify(|setting| setting.value = value);
            } else {
                return Err(Error::Invalid(format!(
                    "{} is {} ({}); it must not be more than {}, which is {} ({})",
                    low.name_in_source(lower),
                    low.value,
                    low.source_description(),
                    high.name_in_source(upper),
                    high.value,
                    high.source_description()
                )));
            }
        }
        Ok(())
    }

    /// Returns a warning for each secret that is short enough to be guessed, that may have more
    /// characters than the operator means, or that will be hard to change.
    pub(super) fn secret_warnings(&self) -> Vec<String> {
        let secrets = self.0.iter().filter(|(_, setting)| setting.rule.is_secret());
        secrets.flat_map(|(name, setting)| setting.secret_warnings(name)).collect()
    }

    /// Returns whether an option is set, even if only to its default value.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|setting| !matches!(setting.source, Source::Default))
    }

    pub(super) fn into_table(self) -> Table {
        let mut table = Table::new();
        for (name, Setting { value, .. }) in self.0 {
            let (section, key) = name.split_once('.').unwrap_or(("", &name));
            let of_section = match section {
                "" => Some(&mut table),
                _ => table.entry(section).or_insert_with(|| Table::new().into()).as_table_mut(),
            };
            of_section.expect("no section is an option").insert(key.to_owned(), value);
        }
        table
    }

    fn suggestion(&self, name: &str, spell: impl Fn(&str) -> String) -> String {
        let nearest = nearest(name, self.0.keys().map(String::as_str));
        nearest.map(|option| format!("; did you mean {}?", spell(option))).unwrap_or_default()
    }
}

impl Setting {
    /// Returns the name of the option as it is spelled in the source of the value.
    fn name_in_source(&self, name: &str) -> String {
        match &self.source {
            Source::Default | Source::File(_) => name.to_owned(),
            Source::Environment(variable) => variable.clone(),
            Source::Flag => format!("--{name}"),
        }
    }

    /// Describes the source of the value.
    fn source_description(&self) -> String {
        match &self.source {
            Source::Default => "the default".to_owned(),
            Source::File(position) => format!("in {position}"),
            Source::Environment(_) => "in the environment".to_owned(),
            Source::Flag => "on the command line".to_owned(),
        }
    }

    /// Returns what may be wrong with secrets, without a part of them.
    fn secret_warnings(&self, name: &str) -> impl Iterator<Item = String> {
        let (option, source) = (self.name_in_source(name), self.source_description());
        let texts = match &self.value {
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            value => Vec::from_iter(value.as_str()),
        };
        let bytes = texts.iter().map(|text| text.len()).min().unwrap_or_default();
        let short = (1..SECRET_BYTES_MIN).contains(&bytes).then(|| {
            format!(
                "{option} is short ({bytes} bytes, {source}): use at least {SECRET_BYTES_MIN} random bytes, for example the \
                 output of `openssl rand -base64 32`"
            )
        });
        let has_space = texts.iter().any(|text| text.trim() != *text);
        let space = has_space
            .then(|| format!("{option} begins or ends with white space ({source}), which is part of the secret"));
        let is_quoted =
            |text: &&str| ['"', '\''].iter().any(|quote| text.starts_with(*quote) && text.ends_with(*quote));
        let quotes = texts
            .iter()
            .any(is_quoted)
            .then(|| format!("{option} begins and ends with a quotation mark ({source}), which is part of the secret"));
        let has_comma = name == "transport.message_encryption_key" && texts.iter().any(|text| text.contains(','));
        let comma = has_comma.then(|| {
            format!(
                "{option} has a comma ({source}): to change it later, list it in message_decryption_keys in a file, \
                 because commas separate passphrases in the environment"
            )
        });
        [short, space, quotes, comma].into_iter().flatten()
    }

    fn error(&self, name: &str, expected: &str) -> Error {
        let (option, source) = (self.name_in_source(name), self.source_description());
        if !self.rule.is_shown() {
            return Error::Invalid(format!("{option} is not accepted ({source}): {expected}"));
        }
        let value = self.value.to_string().replace('\n', " ");
        let example = self.example(name).map(|example| format!(", for example {example}")).unwrap_or_default();
        Error::Invalid(format!("{option} is {value} ({source}); {expected}{example}"))
    }

    /// Shows how to set the default value in the same source; `None` if the default is empty.
    fn example(&self, name: &str) -> Option<String> {
        let bare = match &self.default {
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        };
        let example = match &self.source {
            Source::Default | Source::File(_) => {
                format!("{} = {}", name.rsplit('.').next().unwrap_or(name), self.default)
            }
            Source::Environment(variable) => format!("{variable}={bare}"),
            Source::Flag => format!("--{name} {bare}"),
        };
        (!bare.is_empty()).then_some(example)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use sukkal_domain::options::Declarations;

    #[test]
    fn every_default_is_accepted_without_a_warning() {
        let mut settings = Settings::new(Declarations::of::<Config>().into_options());

        settings.validate().unwrap();
        assert!(settings.secret_warnings().is_empty());
    }
}
