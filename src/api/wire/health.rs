//! The health document.

use serde_json::{Map, Value, json};

use crate::broker::health::{Health, OperationHealth};

/// What operators see of a health check.
#[must_use]
pub fn document(health: &Health) -> Value {
    let operations: Map<String, Value> =
        health.operations.iter().map(|operation| (operation.name.to_owned(), entry(operation))).collect();
    json!({ "storage_reachable": health.storage_reachable, "operation_status": operations })
}

fn entry(operation: &OperationHealth) -> Value {
    json!({
        "succeeded": operation.took.is_some(),
        "seconds": operation.took.map_or(0.0, |took| took.as_secs_f64()),
        "ref": operation.reference.map(|reference| reference.to_string()),
    })
}
