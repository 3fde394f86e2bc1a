//! Due changes are applied within a budget.

use serde_json::Value;

use crate::embedded::store::EmbeddedStore;
use crate::embedded::tests::{post, queue};
use crate::embedded::transaction::write::DUE_CHANGES_PER_TRANSACTION;
use crate::embedded::transaction::writer::Step;

#[tokio::test]
async fn one_transaction_has_one_budget_for_due_changes() {
    const POSTED: usize = DUE_CHANGES_PER_TRANSACTION * 3;
    let store = EmbeddedStore::in_memory().unwrap();
    let queues = [queue(&store, "a", Value::Null).await, queue(&store, "b", Value::Null).await];
    for queue in &queues {
        post(&store, queue, POSTED, 1).await;
    }

    let left = store.write(0, move |store| {
        let mut left = 0;
        for queue in &queues {
            let row = store.row(queue)?.expect("it is there");
            let later_us = store.now_us(queue) + 1_000_000_000;
            assert!(store.apply_due_changes(&row, later_us)?);
            left += store.state(row.number)?.total;
        }
        Ok(Step::Done(left))
    });

    assert_eq!(left.await.unwrap(), (2 * POSTED - DUE_CHANGES_PER_TRANSACTION) as u64);
}
