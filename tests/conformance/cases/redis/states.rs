//! States of messages over Redis: how much a list reads.

use sukkal_domain::Scope;
use sukkal_storage::Listing;

use crate::conformance::cases::states::messages_in_large_claims;
use crate::conformance::support::drivers::redis;
use crate::conformance::support::subject::ids_of;

/// A claim of 1,000 messages has about 12,000 bytes.
#[tokio::test]
async fn a_page_with_states_reads_at_most_44_large_claims() {
    let subject = redis();
    let queue = subject.queue("q").await;
    let ids = messages_in_large_claims(&subject, &queue).await;

    let scope = Scope { claimed: true, delayed: false };
    let page = subject.page_of(&queue, &Listing { scope, with_states: true, ..Listing::first(100) }).await;

    assert_eq!((ids_of(&page.messages), page.is_last), (ids[..44].to_vec(), false));
    let plain = subject.page_of(&queue, &Listing { scope, ..Listing::first(100) }).await;
    assert_eq!((ids_of(&plain.messages), plain.is_last), (ids, true));
}
