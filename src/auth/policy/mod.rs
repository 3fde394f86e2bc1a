//! The policy: which clients may perform which operations.
//!
//! Each operation has a [`Rule`]. A preset has a text for each rule, and an operator can replace
//! single ones. All texts are parsed when the service starts, so a decision only evaluates a
//! `Check`, without allocation.

mod check;
mod overrides;
mod parser;
mod rule;

pub use self::overrides::{InvalidOverride, Overrides};
pub use self::rule::{Preset, Rule};

use self::check::Check;
use super::Client;
use sukkal_domain::warning::nearest;

/// Decides about the operations that clients ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The check of each rule, in the order of [`Rule::ALL`].
    checks: Vec<Check>,
    /// The roles that a rule or the preset `roles` names.
    roles: Vec<Box<str>>,
}

impl Policy {
    /// Creates the policy that consists of a preset with these overrides.
    #[must_use]
    pub fn new(preset: Preset, overrides: Overrides) -> Self {
        let parse = |preset| {
            Rule::ALL.iter().map(move |rule| parser::parse(rule.preset(preset)).expect("the presets are valid"))
        };
        let mut checks: Vec<Check> = parse(preset).collect();
        for (rule, check) in overrides.into_checks() {
            checks[rule as usize] = check;
        }
        let mut roles = Vec::new();
        parse(Preset::Roles).for_each(|check| check.add_roles(&mut roles));
        for check in &checks {
            check.add_roles(&mut roles);
        }
        Self { checks, roles }
    }

    /// Returns what the rule requires of a client, as a rule of the policy.
    #[must_use]
    pub fn requirement(&self, rule: Rule) -> String {
        self.checks[rule as usize].to_string()
    }

    /// Returns whether the rule allows its operations to the client.
    #[must_use]
    pub fn allows(&self, client: &Client, rule: Rule) -> bool {
        self.checks[rule as usize].allows(client)
    }

    /// Returns whether a rule or the preset `roles` names this role. Any other one has no effect.
    /// Upper and lower case are equal.
    #[must_use]
    pub fn names(&self, role: &str) -> bool {
        self.roles.iter().any(|known| known.eq_ignore_ascii_case(role))
    }

    /// Returns the role with the most similar name, if one is similar enough.
    #[must_use]
    pub fn nearest_role(&self, role: &str) -> Option<&str> {
        nearest(role, self.roles.iter().map(|known| &**known))
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new(Preset::default(), Overrides::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(roles: &[&str]) -> Client {
        Client::of_test("p", roles)
    }

    #[test]
    fn an_override_replaces_the_rule_of_the_preset_and_no_other() {
        let overrides = Overrides::parse(&["queues:create = role:creator", "queues:delete = !"]).unwrap();
        let policy = Policy::new(Preset::Roles, overrides);

        assert!(policy.allows(&client(&["creator"]), Rule::QueuesCreate));
        assert!(!policy.allows(&client(&["manager"]), Rule::QueuesCreate));
        assert!(!policy.allows(&client(&["manager", "admin"]), Rule::QueuesDelete));
        assert!(policy.allows(&client(&["manager"]), Rule::QueuesUpdate));
        assert!(!policy.allows(&client(&["creator"]), Rule::QueuesUpdate));
    }

    #[test]
    fn the_roles_of_the_preset_and_of_the_rules_are_known() {
        let policy =
            Policy::new(Preset::Zaqar, Overrides::parse(&["queues:create = not (role:Creator or @)"]).unwrap());

        for role in ["reader", "producer", "Worker", "manager", "admin", "creator"] {
            assert!(policy.names(role), "{role}");
        }
        for (role, nearest) in [("wroker", Some("worker")), ("creater", Some("Creator")), ("billing", None), ("", None)]
        {
            assert!(!policy.names(role), "{role}");
            assert_eq!(policy.nearest_role(role), nearest, "{role}");
        }
    }

    #[test]
    fn the_order_of_rules_is_that_of_the_checks() {
        for (number, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(*rule as usize, number, "{rule:?}");
        }
    }
}
