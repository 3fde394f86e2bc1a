//! The stores under test, and the helpers that cases use.

pub(super) mod any;
pub(super) mod drivers;
pub(super) mod subject;
