//! The state that all handlers share.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRef;
use tokio_util::sync::CancellationToken;

use super::middleware::metering::Meters;
use super::websocket::limits::WebSocketLimits;
use super::websocket::slots::Slots;
use crate::auth::signed_url::Signer;
use crate::authentication::Authenticator;
use crate::broker::Broker;
use crate::observability::audit::AuditLog;
use crate::observability::metrics::Metrics;
use crate::observability::telemetry::Tracer;
use crate::wire::checksum::Checksums;
use sukkal_base::memory_budget::MemoryBudget;
use sukkal_domain::{ClientIdRule, ProjectId, WebOrigins};

/// Maximum size in bytes of the received parts of all request bodies in progress.
const REQUEST_BODIES_BYTES_MAX: usize = 96 << 20;
/// Maximum size in bytes of the responses, and of the replies over WebSockets, that clients have
/// not accepted.
const RESPONSES_BYTES_MAX: usize = 64 << 20;
/// Maximum size in bytes of the events that all streams hold because their clients do not read. The
/// buffers of the connections are not included.
const STREAM_EVENTS_BYTES_MAX: usize = 32 << 20;

/// The state that all handlers share. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    /// Executes the operations of callers.
    pub broker: Broker,
    /// Configuration of the API.
    pub settings: Arc<Settings>,
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Records the traces of requests. Without it, nothing is traced.
    pub tracer: Option<Tracer>,
    /// Canceled when the service is to stop. It still answers requests for a while, but is not
    /// ready.
    pub stopping: CancellationToken,
    /// Metrics of each route.
    pub(super) meters: Arc<Meters>,
    /// Memory for request bodies.
    pub(super) request_bodies: MemoryBudget,
    /// Memory for events of streams.
    pub(super) stream_events: MemoryBudget,
    /// Memory for responses and for replies over WebSockets.
    pub(super) responses: MemoryBudget,
    /// The places of WebSockets.
    pub(super) socket_slots: Slots,
}

/// Configuration of the API.
#[allow(clippy::struct_excessive_bools, reason = "each is a switch that the operator sets")]
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether the routes for operators are served.
    pub admin_mode: bool,
    /// Whether queues are in pools.
    pub pooling: bool,
    /// Finds out who sends a request.
    pub authenticator: Arc<Authenticator>,
    /// Which client ids are accepted.
    pub client_id: ClientIdRule,
    /// Whether a request may have no client id.
    pub client_id_is_optional: bool,
    /// The project of requests that name none.
    pub default_project: Option<ProjectId>,
    /// The origins of web pages that may use the API, besides that of the API itself.
    pub cors_origins: Option<WebOrigins>,
    /// The path at which clients reach the API; empty for the root of their server.
    pub public_path: String,
    /// The names and IP addresses on which the service listens.
    pub bound_names: Vec<String>,
    /// Maximum pause of a client that sends a request.
    pub client_timeout: Duration,
    /// Signs URLs. Without it, signed URLs are neither issued nor accepted.
    pub signer: Option<Signer>,
    /// Whether message documents have checksums.
    pub checksums: Checksums,
    /// Time without events after which a stream sends a heartbeat.
    pub stream_heartbeat: Duration,
    /// Whether the console is served.
    pub console: bool,
    /// Limits of WebSockets.
    pub websocket: WebSocketLimits,
    /// Records changes and refused requests, if the operator wants it.
    pub audit: Option<AuditLog>,
}

impl Settings {
    /// Returns whether the routes of pools and flavors are served.
    pub(super) fn has_pools(&self) -> bool {
        self.admin_mode && self.pooling
    }
}

impl Service {
    /// Creates the state of a service that meters the routes with these paths.
    pub(super) fn new(
        broker: Broker,
        settings: Settings,
        metrics: Arc<Metrics>,
        tracer: Option<Tracer>,
        paths: impl Iterator<Item = &'static str>,
    ) -> Self {
        Self {
            socket_slots: Slots::new(settings.websocket.connections_max),
            broker,
            settings: Arc::new(settings),
            meters: Arc::new(Meters::new(&metrics, paths)),
            metrics,
            tracer,
            stopping: CancellationToken::new(),
            request_bodies: MemoryBudget::new(REQUEST_BODIES_BYTES_MAX),
            stream_events: MemoryBudget::new(STREAM_EVENTS_BYTES_MAX),
            responses: MemoryBudget::new(RESPONSES_BYTES_MAX),
        }
    }
}

impl FromRef<Service> for Broker {
    fn from_ref(service: &Service) -> Self {
        service.broker.clone()
    }
}
