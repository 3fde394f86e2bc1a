//! Collects the findings of a check.

use std::fmt::Display;

use crate::storage::Check;

pub(crate) struct Findings<'a> {
    pub(crate) check: &'a mut Check,
    pub(crate) subject: String,
}

impl Findings<'_> {
    pub(crate) fn expect(&mut self, is_so: bool, finding: impl Display) {
        if !is_so {
            self.check.add_finding(&self.subject, finding);
        }
    }
}
