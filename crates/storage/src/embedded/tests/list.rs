//! Lists work in steps.

use serde_json::Value;

use crate::embedded::messages::list::EXAMINED_PER_STEP;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::tests::{post, poster, queue};
use crate::embedded::transaction::writer::Step;
use crate::key::rank_of;
use crate::{Listing, MessageStore};
use sukkal_domain::Rank;

#[tokio::test]
async fn a_list_works_in_steps_and_reads_only_the_records_of_its_page() {
    let store = EmbeddedStore::in_memory().unwrap();
    let queue = queue(&store, "q", Value::Null).await;
    post(&store, &queue, 3 * EXAMINED_PER_STEP, 1).await;
    let queue_id = queue.clone();
    let without_records = store.write(0, move |store| {
        let number = store.row(&queue_id)?.expect("it is there").number;
        for located in store.view.entries(number, Part::Ready, 0)?.collect::<Result<Vec<_>, _>>()? {
            store.remove_key(&keys::message(number, Part::Message, located.key()))?;
        }
        Ok(Step::Done(()))
    });
    without_records.await.unwrap();
    let listing = Listing { not_from: Some(poster()), ..Listing::first(10) };

    let (queue_id, first) = (queue.clone(), listing.clone());
    let step = store.read_up_to_date(&queue, move |view, row, state, now_us| {
        let ranks = view.entries(row.number, Part::Ready, 0)?.map(|located| located.map(|one| rank_of(one.key())));
        let last = ranks.take(EXAMINED_PER_STEP).last().transpose()?;
        Ok((view.list_messages(&queue_id, (row.number, state), &first, false, now_us)?, last.and_then(Rank::new)))
    });
    let ((page, examined_to), last) = step.await.unwrap().unwrap();
    assert_eq!((page.messages.len(), page.is_last, examined_to), (0, false, last));

    let page = store.list_messages(&queue, &listing).await.unwrap();
    assert_eq!((page.messages.len(), page.is_last), (0, true));
}
