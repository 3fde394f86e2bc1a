//! A request over HTTP/2 that is in progress.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::api::server::connection::Connection;

/// A request in progress: until its response is written or dropped.
pub(super) struct InProgress {
    pub(super) connection: Arc<Connection>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl InProgress {
    /// Records that a request has arrived.
    pub(super) fn begin(connection: Arc<Connection>, permit: Option<OwnedSemaphorePermit>) -> Arc<Self> {
        connection.begin_http2_request();
        Arc::new(Self { connection, _permit: permit })
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.connection.end_http2_request();
    }
}
