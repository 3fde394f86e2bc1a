//! The memory of responses: a response holds its share until the client has accepted its last byte.
//!
//! The size of a response is known only when its request was carried out. So a project whose
//! responses have used up the memory is refused before. Of the requests that are in progress then,
//! those that only read are refused, and so are those that have waited for messages, which return
//! to their queue. The others exceed the budget, because they have changed something. Resources
//! that need no credential are static, apart from the metrics.

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::Request;
use axum::response::Response;

use crate::api::server::connection::Connection;
use crate::api::server::delivery::Returnable;
use crate::api::server::unsent::Held;
use crate::api::server::watched::is_watched;
use crate::api::service::Service;
use crate::wire::Error;
use sukkal_base::memory_budget::MemoryBudget;
use sukkal_domain::ProjectId;

/// The memory for the response to a request.
pub(in crate::api) struct ResponseMemory<'s> {
    budget: &'s MemoryBudget,
    project: ProjectId,
    connection: Option<Arc<Connection>>,
    is_read: bool,
}

impl<'s> ResponseMemory<'s> {
    /// Fails if the project has used up its memory.
    pub(super) fn of(request: &Request, project: &ProjectId, service: &'s Service) -> Result<Self, Error> {
        if service.responses.is_used_up(project) {
            return Err(Error::ReplyBudget);
        }
        Ok(Self::new(request, project.clone(), service))
    }

    /// Returns the memory for the metrics, which belong to no project.
    pub(in crate::api) fn of_metrics(request: &Request, service: &'s Service) -> Self {
        Self::new(request, ProjectId::new("metrics").expect("it is not empty"), service)
    }

    fn new(request: &Request, project: ProjectId, service: &'s Service) -> Self {
        let connection = request.extensions().get().cloned();
        Self { budget: &service.responses, project, connection, is_read: request.method().is_safe() }
    }

    /// Lets the response hold its memory. Fails if it does not fit, unless the request has changed
    /// something.
    pub(in crate::api) fn hold(self, mut response: Response) -> Result<Response, Error> {
        let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        if let (Some(connection), Some(bytes)) = (&self.connection, bytes)
            && is_watched(&response, connection)
        {
            let share = self.budget.share(&self.project);
            if share.take(bytes).is_err() {
                if self.is_read || response.extensions().get::<Returnable>().is_some() {
                    return Err(Error::ReplyBudget);
                }
                share.take_in_any_case(bytes);
            }
            response.extensions_mut().insert(Held::new(share));
        }
        Ok(response)
    }
}
