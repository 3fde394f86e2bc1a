//! `[policy]`: which clients may do what.

use serde::{Deserialize, Deserializer};
use toml::Value;

use super::names::nearest;
use crate::auth::policy::{self, InvalidOverride, Overrides, Policy, Preset};
use sukkal_domain::options::rule::parse_list;
use sukkal_domain::options::{Declarations, Declare, Rule, options};

const EXPECTED: &str = "it must be a list of texts of the form \"NAME = RULE\"";
const RULES: Rule = Rule::Other { parse: parse_list, check: |rules| overrides(rules).map(drop), is_shown: false };

options! {
    /// `[policy]`: the policy before it is compiled.
    #[derive(Deserialize)]
    struct Section {
        //! What clients may do. docs/security.md has the rules of both presets. A client that may
        //! not perform an operation gets 403. All processes of a deployment should have the same
        //! policy.

        /// Rules that apply unless they are replaced below. Accepted values:
        ///   "zaqar"   the defaults of Zaqar: each client may do everything in its project, and the role
        ///             "admin" the rest
        ///   "roles"   the roles "reader", "producer", "worker", "manager" and "admin", each of which includes
        ///             the one before it; a client without one of them may do nothing
        /// The default is "zaqar".
        preset: Preset = "zaqar" in Rule::OneOf(&["zaqar", "roles"]),
        /// Rules that replace those of the preset, each as "NAME = RULE". A rule consists of
        /// role:NAME (the client has this role), project:ID (the request is about this project), @
        /// (everybody) and ! (nobody). They are combined with and, or, not and parentheses. A rule
        /// without text allows everybody. In the environment, rules are separated by commas.
        /// Accepted: a list such as
        ///   ["queues:create = role:producer or role:manager or role:admin", "queues:purge = !"]
        /// The default is [].
        rules: Value = [] in RULES;
    }
}

impl Declare for Policy {
    fn declare(declarations: &mut Declarations) {
        Section::declare(declarations);
    }
}

/// Compiles the policy.
pub(super) fn compile<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
    let Section { preset, rules } = Section::deserialize(deserializer)?;
    let overrides = overrides(&rules).map_err(serde::de::Error::custom)?;
    Ok(Policy::new(preset, overrides))
}

/// Parses the rules that replace those of the preset.
///
/// # Errors
///
/// The reason, for the operator.
fn overrides(rules: &Value) -> Result<Overrides, String> {
    let entries = rules.as_array().ok_or(EXPECTED)?;
    let entries: Option<Vec<&str>> = entries.iter().map(Value::as_str).collect();
    Overrides::parse(&entries.ok_or(EXPECTED)?).map_err(|invalid| match &invalid {
        InvalidOverride::UnknownName(name) => {
            let nearest = nearest(name, policy::Rule::ALL.iter().map(|rule| rule.name()));
            let hint = nearest.map(|rule| format!("did you mean {rule}?"));
            format!("{invalid}; {}", hint.unwrap_or_else(|| "docs/security.md lists the rules".to_owned()))
        }
        _ => invalid.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_rules_are_a_list_in_a_file_and_in_the_environment() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let file = "[policy]\npreset = \"roles\"\nrules = [\"queues:create = role:a, b\", \"queues:get =\"]";
        let rules = "queues:create = role:a , queues:get = @";
        let policy = |preset, rules: &[&str]| Policy::new(preset, Overrides::parse(rules).unwrap());
        let load = |file: &str, environment: &[(&str, &str)]| {
            std::fs::write(path.path(), file).unwrap();
            let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Config::load(Some(path.path()), environment, &[]).map(|config| config.policy)
        };

        assert_eq!(load("", &[]).unwrap(), Policy::default());
        assert!(
            load(file, &[]).unwrap_err().to_string().contains("queues:create, column 17: \"role:a,\" is not a check")
        );
        let file = file.replace(", b", "");
        let expected = policy(Preset::Roles, &["queues:create = role:a", "queues:get = @"]);
        assert_eq!(load(&file, &[]).unwrap(), expected);
        assert_eq!(load("[policy]\npreset = \"roles\"", &[("SUKKAL_POLICY__RULES", rules)]).unwrap(), expected);
        let none = [("SUKKAL_POLICY__RULES", ""), ("SUKKAL_POLICY__PRESET", "zaqar")];
        assert_eq!(load(&file, &none).unwrap(), Policy::default());
    }
}
