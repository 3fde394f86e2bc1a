//! Collects the findings of a check.

use std::fmt::Display;

use crate::{Check, Error};

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

    /// Returns what was read.
    pub(crate) fn expect_readable<T>(&mut self, read: Result<T, Error>) -> Option<T> {
        read.inspect_err(|error| self.check.add_finding(&self.subject, error.reason())).ok()
    }
}
