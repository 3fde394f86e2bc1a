//! The rules that replace those of the preset, as the configuration has them: `NAME = RULE`.

use thiserror::Error;

use super::check::Check;
use super::parser::{self, InvalidRule};
use super::rule::Rule;

/// Maximum number of characters of an unknown name that an error shows.
const SHOWN_CHARS_MAX: usize = 60;

/// Rules that replace those of the preset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(Vec<(Rule, Check)>);

/// The reason why an entry of the configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidOverride {
    /// The entry has no name. The number of the entry counts from 1.
    #[error("entry {0} has no \"=\"; write NAME = RULE, such as \"queues:create = role:manager or role:admin\"")]
    NoName(usize),
    /// No rule has this name.
    #[error("there is no rule {0}")]
    UnknownName(String),
    /// Two entries have the same name.
    #[error("the rule {0} is there twice")]
    Repeated(&'static str),
    /// The text is not a rule. Columns count from the beginning of the entry.
    #[error("{name}, {invalid}")]
    Rule {
        /// The name of the rule.
        name: &'static str,
        /// The mistake.
        invalid: InvalidRule,
    },
}

impl Overrides {
    /// Parses entries of the form `NAME = RULE`.
    pub fn parse(entries: &[impl AsRef<str>]) -> Result<Self, InvalidOverride> {
        let mut checks: Vec<(Rule, Check)> = Vec::new();
        for (number, entry) in (1..).zip(entries) {
            let (name, text) = entry.as_ref().split_once('=').ok_or(InvalidOverride::NoName(number))?;
            let rule = Rule::named(name.trim())
                .ok_or_else(|| InvalidOverride::UnknownName(name.trim().chars().take(SHOWN_CHARS_MAX).collect()))?;
            if checks.iter().any(|(other, _)| *other == rule) {
                return Err(InvalidOverride::Repeated(rule.name()));
            }
            let before = name.chars().count() + 1;
            let check = parser::parse(text)
                .map_err(|invalid| InvalidOverride::Rule { name: rule.name(), invalid: invalid.after(before) })?;
            checks.push((rule, check));
        }
        Ok(Self(checks))
    }

    pub(super) fn into_checks(self) -> Vec<(Rule, Check)> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_a_name_and_a_rule() {
        let overrides = Overrides::parse(&["queues:create=role:a", " queues:get =", "messages:get = project:a=b"]);

        let [role, project] = ["role:a", "project:a=b"].map(|text| parser::parse(text).unwrap());
        let expected = [(Rule::QueuesCreate, role), (Rule::QueuesGet, Check::Everybody), (Rule::MessagesGet, project)];
        assert_eq!(overrides, Ok(Overrides(expected.into())));
        assert_eq!(Overrides::parse(&[""; 0]), Ok(Overrides::default()));
    }

    #[test]
    fn a_mistake_is_reported_with_the_rule_and_the_column_in_the_entry() {
        for (entries, expected) in [
            (&["queues:get = @", "role:a"][..], "entry 2 has no \"=\"; write NAME = RULE, such as "),
            (&[""], "entry 1 has no \"=\""),
            (&["= role:a"], "there is no rule "),
            (&["queues:crate = role:a"], "there is no rule queues:crate"),
            (&["QUEUES:CREATE = role:a"], "there is no rule QUEUES:CREATE"),
            (&["queues:get = @", "queues:get = !"], "the rule queues:get is there twice"),
            (&["queues:get = role:a adn role:b"], "queues:get, column 21: \"adn\" must be \"and\" or \"or\""),
            (&["queues:get = "], ""),
            (&["queues:get = = role:a"], "queues:get, column 14: \"=\" is not a check; "),
        ] {
            let error = Overrides::parse(entries).err().map(|error| error.to_string()).unwrap_or_default();

            assert!(error.starts_with(expected) && error.is_empty() == expected.is_empty(), "{entries:?}: {error}");
        }
        let long = Overrides::parse(&["x".repeat(1 << 20) + "="]).unwrap_err().to_string();
        assert_eq!(long, format!("there is no rule {}", "x".repeat(SHOWN_CHARS_MAX)));
    }
}
