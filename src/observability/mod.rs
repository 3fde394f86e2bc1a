//! What operators see of the service: metrics, traces, the audit log, and the id of each request.

pub mod audit;
pub mod metrics;
pub mod request_id;
pub mod telemetry;
