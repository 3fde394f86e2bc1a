//! The health document.

use serde_json::{Map, Value, json};

use crate::broker::health::OperationHealth;

/// Returns the result of a health check. The store was reachable: otherwise the response is an
/// error.
#[must_use]
pub fn document(operations: &[OperationHealth]) -> Value {
    let operations: Map<String, Value> =
        operations.iter().map(|operation| (operation.name.to_owned(), entry(operation))).collect();
    json!({ "storage_reachable": true, "operation_status": operations })
}

fn entry(operation: &OperationHealth) -> Value {
    json!({
        "succeeded": operation.took.is_some(),
        "seconds": operation.took.map_or(0.0, |took| took.as_secs_f64()),
        "ref": operation.reference.map(|reference| reference.to_string()),
    })
}
