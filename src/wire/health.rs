//! The health document.

use serde_json::{Map, Value, json};

use crate::broker::health::{Health, OperationHealth, PoolHealth};

/// Returns the result of a health check. The store was reachable, which with pools is that of the
/// catalogue: otherwise the response is an error.
#[must_use]
pub fn document(health: &Health) -> Value {
    match health {
        Health::Store(operations) => store(Some(operations)),
        Health::Pools(pools) => {
            let mut document = Map::from_iter([("catalog_reachable".to_owned(), true.into())]);
            let pools =
                pools.iter().map(|PoolHealth { name, operations }| (name.to_string(), store(operations.as_deref())));
            document.extend(pools);
            document.into()
        }
    }
}

/// Returns the result for one store; without operations if it is down.
fn store(operations: Option<&[OperationHealth]>) -> Value {
    let is_reachable = operations.is_some();
    let operations = operations.unwrap_or_default().iter();
    let operations: Map<String, Value> =
        operations.map(|operation| (operation.name.to_owned(), entry(operation))).collect();
    json!({ "storage_reachable": is_reachable, "operation_status": operations })
}

fn entry(operation: &OperationHealth) -> Value {
    json!({
        "succeeded": operation.took.is_some(),
        "seconds": operation.took.map_or(0.0, |took| took.as_secs_f64()),
        "ref": operation.reference.map(|reference| reference.to_string()),
    })
}
