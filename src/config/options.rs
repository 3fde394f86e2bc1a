//! All options with their values, and where each value was set: the default file, another file, the environment, or a flag.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::file::{Entry, Position};
use super::names::{nearest, option_of, variable_of};
use super::rules::{Accepts, PAIRS, RULES, SECRET_BYTES_MIN};
use super::{DEFAULTS, Error};

/// Every option, by its name with its section, such as `transport.max_wait`.
pub(super) struct Options(BTreeMap<String, Setting>);

struct Setting {
    accepts: Accepts,
    default: Value,
    value: Value,
    source: Source,
}

enum Source {
    Default,
    File(Position),
    /// With the name of the variable.
    Environment(String),
    Flag,
}

impl Options {
    pub(super) fn defaults() -> Self {
        let file: Table = DEFAULTS.parse().expect("the default file is in order");
        let default_of = |name: &str| {
            let (section, key) = name.split_once('.').unwrap_or(("", name));
            if section.is_empty() { file.get(key) } else { file.get(section)?.get(key) }
        };
        let setting = |&(name, accepts): &(&str, Accepts)| {
            let default = default_of(name).expect("the default file has every option").clone();
            (name.to_owned(), Setting { accepts, value: default.clone(), default, source: Source::Default })
        };
        Self(RULES.iter().map(setting).collect())
    }

    pub(super) fn is_section(name: &str) -> bool {
        RULES.iter().any(|(option, _)| option.split_once('.').is_some_and(|(section, _)| section == name))
    }

    pub(super) fn set_by_file(&mut self, entries: Vec<Entry>) -> Result<(), Error> {
        for Entry { name, value, position } in entries {
            let Some(setting) = self.0.get_mut(&name) else {
                if Self::is_section(&name) {
                    return Err(Error::Invalid(format!("{name} is a section (in {position}); write [{name}]")));
                }
                let meant = self.did_you_mean(&name, str::to_owned);
                return Err(Error::Invalid(format!("there is no option {name} (in {position}){meant}")));
            };
            (setting.value, setting.source) = (value, Source::File(position));
        }
        Ok(())
    }

    /// Returns a warning for each variable that looks like an option and is none.
    pub(super) fn set_by_environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (variable, text) in variables {
            let Some(name) = option_of(&variable, &text) else {
                continue;
            };
            if let Some(setting) = self.0.get_mut(&name) {
                (setting.value, setting.source) = (setting.accepts.value_of(&text), Source::Environment(variable));
            } else {
                let meant = self.did_you_mean(&name, variable_of);
                warnings.push(format!("the environment variable {variable} names no option and is ignored{meant}"));
            }
        }
        warnings
    }

    pub(super) fn set_by_flag(&mut self, name: &str, text: &str) {
        let setting = self.0.get_mut(name).expect("each flag is an option");
        (setting.value, setting.source) = (setting.accepts.value_of(text), Source::Flag);
    }

    /// Refuses a value that its option does not accept. A default that is more than the maximum that was set becomes
    /// that maximum.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        for (name, setting) in &self.0 {
            setting.accepts.check(&setting.value).map_err(|complaint| setting.refusal(name, &complaint))?;
        }
        for (lower, upper) in PAIRS {
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
                    low.spelled(lower),
                    low.value,
                    low.place(),
                    high.spelled(upper),
                    high.value,
                    high.place()
                )));
            }
        }
        Ok(())
    }

    /// A warning for each secret that can be guessed.
    pub(super) fn short_secrets(&self) -> Vec<String> {
        let secrets = self.0.iter().filter(|(_, setting)| matches!(setting.accepts, Accepts::Secret));
        let short = secrets.filter_map(|(name, setting)| {
            let bytes = setting.value.as_str().map_or(0, str::len);
            (1..SECRET_BYTES_MIN).contains(&bytes).then(|| {
                format!(
                    "{} is short ({bytes} bytes, {}): use {SECRET_BYTES_MIN} random bytes or more, for example the output \
                     of `openssl rand -base64 32`",
                    setting.spelled(name),
                    setting.place()
                )
            })
        });
        short.collect()
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

    fn did_you_mean(&self, name: &str, spelled: impl Fn(&str) -> String) -> String {
        let meant = nearest(name, self.0.keys().map(String::as_str));
        meant.map(|option| format!("; did you mean {}?", spelled(option))).unwrap_or_default()
    }
}

impl Setting {
    /// The option as it is called where it was set.
    fn spelled(&self, name: &str) -> String {
        match &self.source {
            Source::Default | Source::File(_) => name.to_owned(),
            Source::Environment(variable) => variable.clone(),
            Source::Flag => format!("--{name}"),
        }
    }

    /// Where it was set.
    fn place(&self) -> String {
        match &self.source {
            Source::Default => "the default".to_owned(),
            Source::File(position) => format!("in {position}"),
            Source::Environment(_) => "in the environment".to_owned(),
            Source::Flag => "on the command line".to_owned(),
        }
    }

    fn refusal(&self, name: &str, complaint: &str) -> Error {
        let (spelled, place) = (self.spelled(name), self.place());
        if !self.accepts.is_public() {
            return Error::Invalid(format!("{spelled} is not accepted ({place}): {complaint}"));
        }
        let value = self.value.to_string().replace('\n', " ");
        let example = self.example(name);
        Error::Invalid(format!("{spelled} is {value} ({place}); {complaint}, for example {example}"))
    }

    /// How the default would be set in the same place.
    fn example(&self, name: &str) -> String {
        let bare = self.default.as_str().map_or_else(|| self.default.to_string(), str::to_owned);
        match &self.source {
            Source::Default | Source::File(_) => {
                format!("{} = {}", name.rsplit('.').next().unwrap_or(name), self.default)
            }
            Source::Environment(variable) => format!("{variable}={bare}"),
            Source::Flag => format!("--{name} {bare}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_rule_for_every_option_of_the_default_file() {
        let file: Table = DEFAULTS.parse().unwrap();
        let mut names = Vec::new();
        for (name, value) in &file {
            match value {
                Value::Table(section) => names.extend(section.keys().map(|key| format!("{name}.{key}"))),
                _ => names.push(name.clone()),
            }
        }
        names.sort();

        assert_eq!(Options::defaults().0.keys().cloned().collect::<Vec<_>>(), names);
    }

    #[test]
    fn every_default_is_accepted_without_a_warning() {
        let mut options = Options::defaults();

        options.check().unwrap();
        assert!(options.short_secrets().is_empty());
    }
}
