//! The writer thread serves operations fairly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;

use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::{BATCH_JOBS_MAX, Step};

#[tokio::test]
async fn repeated_operations_do_not_block_others() {
    let store = EmbeddedStore::in_memory().unwrap();
    let has_run = Arc::new(AtomicBool::new(false));
    let again = (0..2 * BATCH_JOBS_MAX).map(|_| {
        let has_run = has_run.clone();
        store.write(0, move |_| Ok(if has_run.load(Ordering::Relaxed) { Step::Done(()) } else { Step::Again }))
    });
    let flag = has_run.clone();
    let other = async {
        // This operation is queued after all the others.
        tokio::task::yield_now().await;
        let set = move |_: &mut WriteTransaction<'_>| {
            flag.store(true, Ordering::Relaxed);
            Ok(Step::Done(()))
        };
        store.write(0, set).await
    };

    let (outcomes, other) = tokio::join!(join_all(again), other);

    assert_eq!(other, Ok(()));
    assert!(outcomes.iter().all(Result::is_ok));
}
