//! The query parameters that have a meaning for a request, and warnings about others.

use crate::wire::query::{self, CREDENTIALS};
use sukkal_domain::Warning;
use sukkal_domain::warning::{NameKind, UnknownNames};

/// The parameters with several values, which may be repeated.
const LISTS: [&str; 2] = ["ids", "claim_ids"];

/// The query parameters that have a meaning for a method of a route.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Their names.
    pub names: &'static [&'static str],
    /// What others are: unknown, or filters by metadata.
    others: NameKind,
}

impl Parameters {
    /// No parameter has a meaning.
    pub(super) const NONE: Self = Self::of(&[]);

    /// Only these parameters have a meaning.
    pub(super) const fn of(names: &'static [&'static str]) -> Self {
        Self { names, others: NameKind::Parameter }
    }

    /// These parameters have a meaning, and all others are filters by metadata.
    pub(super) const fn and_filters(names: &'static [&'static str]) -> Self {
        Self { names, others: NameKind::Filter }
    }

    /// Returns warnings about the parameters of a query that have no effect. `credentials_count`
    /// says whether the credentials in it have one.
    pub(super) fn warnings(self, query: Option<&str>, credentials_count: bool) -> Vec<Warning> {
        let Some(query) = query else { return Vec::new() };
        let mut unknown = UnknownNames::new(self.others, self.names);
        let (mut without_value, mut seen, mut repeated) = (None, vec![false; self.names.len()], None);
        for (name, value) in query::parameters(query) {
            let is_credential = credentials_count && CREDENTIALS.contains(&&*name);
            if !name.is_empty() && !is_credential {
                unknown.check(&name);
            }
            let Some(index) = self.names.iter().position(|known| *known == name) else { continue };
            if value.is_empty() {
                without_value.get_or_insert(Warning::NoValue(self.names[index]));
            } else if std::mem::replace(&mut seen[index], true) && !LISTS.contains(&&*name) {
                repeated.get_or_insert(Warning::Repeated(self.names[index]));
            }
        }
        without_value.into_iter().chain(repeated).chain(unknown.into_warnings()).collect()
    }
}
