//! Which view of messages a request asks for.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::Service;
use crate::api::Error;
use crate::api::wire::query::Query;
use crate::api::wire::view::View;

/// The parameter that asks dead letters where they come from.
pub(super) const INCLUDE_ORIGIN: &str = "include_origin";

impl FromRequestParts<Service> for View {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Error> {
        // Few have a query that is read twice.
        let query = parts.uri.query().filter(|query| query.contains(['%', '+']) || query.contains(INCLUDE_ORIGIN));
        let origins = Query::parse(query).boolean(INCLUDE_ORIGIN)?.unwrap_or(false);
        Ok(Self { checksums: service.settings.checksums, origins })
    }
}
