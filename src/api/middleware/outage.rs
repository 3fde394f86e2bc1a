//! Describes in the `503` response which operation failed because the store was unavailable.

use axum::response::Response;

use crate::wire::error::StoreFailure;
use crate::wire::query::Query;

/// The sentence of a `503` response that says which operation failed.
#[derive(Clone, Copy, Debug)]
pub(in crate::api) enum Outage {
    /// No sentence about the operation; the response gives the state of the store.
    StoreState,
    /// The same sentence for all requests.
    Sentence(&'static str),
    /// A sentence that depends on whether the query has a parameter.
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// The sentence if the parameter has a value.
        present: &'static str,
        /// The sentence if the parameter is absent or blank.
        absent: &'static str,
    },
}

impl From<&'static str> for Outage {
    fn from(sentence: &'static str) -> Self {
        Self::Sentence(sentence)
    }
}

impl Outage {
    /// Returns the sentence for a request with this query, if there is one.
    pub(super) fn description(self, query: Option<&str>) -> Option<&'static str> {
        match self {
            Self::StoreState => None,
            Self::Sentence(sentence) => Some(sentence),
            Self::Parameter { name, present, absent } => {
                Some(if Query::parse(query).last(name).is_some() { present } else { absent })
            }
        }
    }
}

/// Adds the description to the response if the response was caused by a failure of the store.
pub(super) fn describe(response: Response, description: Option<&'static str>) -> Response {
    match response.extensions().get::<StoreFailure>() {
        Some(failure) if description.is_some() => failure.response(description),
        _ => response,
    }
}
