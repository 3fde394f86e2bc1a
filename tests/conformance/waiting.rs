//! Waiting: who watches a queue is called when something becomes free there, in time and not in vain.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use serde_json::json;
use sukkal::domain::{NewMessage, QueueId, Rank};
use sukkal::storage::{Listing, Scope, Sight, Watch};
use tokio::time::timeout;

use super::subject::{LONG_S, Subject, body, client, ids_of, messages};

/// Long after what has to come within milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

impl Subject {
    async fn watch(&self, queue: &QueueId) -> Watch {
        self.store().watch(queue).await.expect("the store answers")
    }

    async fn sight(&self, queue: &QueueId) -> Sight {
        self.store().sight(queue).await.expect("the store answers")
    }

    async fn post_delayed(&self, queue: &QueueId, delay_s: u32) {
        self.post(queue, &[NewMessage { ttl_s: LONG_S, delay_s, body: body(&json!(0)), lot: None }]).await;
    }

    /// Claims one message for a second.
    async fn claim_shortly(&self, queue: &QueueId) {
        let claim = self.claim(queue, 1, 1).await;
        assert_eq!(claim.messages.len(), 1);
    }

    /// Does something, and returns the lowest older position that a reader is notified of.
    async fn older_after(&self, queue: &QueueId, act: impl AsyncFnOnce()) -> Option<Rank> {
        let watch = self.watch(queue).await;
        let mut reader = watch.reader(false);
        self.store().looked(queue);

        act().await;

        timeout(PATIENCE, reader.changed()).await.expect("the reader is notified");
        reader.catch_up()
    }

    /// Does something and waits until a claimer and a reader who wait are called.
    async fn assert_calls(&self, queue: &QueueId, act: impl AsyncFnOnce()) {
        let watch = self.watch(queue).await;
        let mut claimer = pin!(watch.claimer());
        claimer.as_mut().enable();
        let mut reader = watch.reader(false);
        self.store().looked(queue);

        act().await;

        timeout(PATIENCE, claimer).await.expect("the claimer is called");
        timeout(PATIENCE, reader.changed()).await.expect("the reader is called");
    }
}

pub(super) async fn a_post_calls(subject: &Subject) {
    let queue = subject.queue("q").await;

    subject.assert_calls(&queue, async || drop(subject.post(&queue, &messages(LONG_S, 1)).await)).await;
}

pub(super) async fn a_queue_that_is_not_there_yet_can_be_waited_for(subject: &Subject) {
    let queue = subject.id("q");
    let act = async || {
        subject.create(&queue).await;
        subject.post(&queue, &messages(LONG_S, 1)).await;
    };

    subject.assert_calls(&queue, act).await;
}

pub(super) async fn the_end_of_a_delay_calls(subject: &Subject) {
    let queue = subject.queue("q").await;

    subject.assert_calls(&queue, async || subject.post_delayed(&queue, 1).await).await;
}

pub(super) async fn the_end_of_a_delay_that_is_known_calls(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post_delayed(&queue, 1).await;

    subject.assert_calls(&queue, async || {}).await;
}

pub(super) async fn the_end_of_a_claim_calls(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.claim_shortly(&queue).await;

    subject.assert_calls(&queue, async || {}).await;
}

pub(super) async fn the_end_of_a_claim_that_was_made_meanwhile_calls(subject: &Subject) {
    let queue = subject.queue("q").await;
    let watch = subject.watch(&queue).await;
    let mut reader = watch.reader(false);
    subject.store().looked(&queue);
    subject.post(&queue, &messages(LONG_S, 1)).await;
    timeout(PATIENCE, reader.changed()).await.expect("the reader is called");

    subject.claim_shortly(&queue).await;
    // As one does who was called, and finds nothing.
    subject.store().looked(&queue);

    timeout(PATIENCE, reader.changed()).await.expect("the reader is called again");
}

pub(super) async fn a_release_calls(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let claim = subject.claim(&queue, 1, 600).await.id;

    subject
        .assert_calls(&queue, async || subject.store().release_claim(&queue, claim).await.expect("the store answers"))
        .await;
}

pub(super) async fn a_message_that_is_given_back_calls(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 2, 600).await.id;
    let give_back = async |place: usize, delay_s| {
        let change = subject.store().return_message(&queue, claim, ids[place], delay_s).await;
        change.expect("the store answers");
    };

    subject.assert_calls(&queue, async || give_back(0, 0).await).await;
    subject.pop(&queue, 1).await;
    subject.assert_calls(&queue, async || give_back(1, 1).await).await;
}

pub(super) async fn messages_that_come_back_are_notified_with_their_lowest_position(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    let rank = |place: usize| Some(ids[place].rank());

    let posting = async || drop(subject.post(&queue, &messages(LONG_S, 1)).await);
    assert_eq!(subject.older_after(&queue, posting).await, None);

    let claim = subject.claim(&queue, 3, 600).await.id;
    let give_back = async || {
        let change = subject.store().return_message(&queue, claim, ids[1], 0).await;
        change.expect("the store answers");
    };
    assert_eq!(subject.older_after(&queue, give_back).await, rank(1));
    assert_eq!(subject.older_after(&queue, async || subject.release(&queue, claim).await).await, rank(0));

    subject.claim_shortly(&queue).await;
    assert_eq!(subject.older_after(&queue, async || {}).await, rank(0), "at the end of a claim");

    let popped = subject.store().pop_messages(&queue, 2).await.expect("the store answers");
    let restore = async || subject.store().restore_messages(&queue, &popped).await.expect("the store answers");
    assert_eq!(subject.older_after(&queue, restore).await, rank(0));
}

pub(super) async fn an_empty_page_tells_how_far_the_query_got(subject: &Subject) {
    let queue = subject.id("q");
    let behind = async |after: Option<Rank>| {
        let listing = Listing { after, limit: 10, not_from: Some(client(0)), scope: Scope::default() };
        let page = subject.store().list_messages(&queue, &listing).await.expect("the store answers");
        (ids_of(&page.messages), page.reached)
    };
    assert_eq!(behind(Rank::new(7)).await, (vec![], Rank::new(7)), "of no queue");
    subject.create(&queue).await;
    assert_eq!(behind(None).await.0, []);

    // More than a script examines.
    let own = subject.post(&queue, &messages(LONG_S, 1_000)).await;
    let last = Some(own[999].rank());
    assert_eq!(behind(None).await, (vec![], last));
    assert_eq!(behind(last).await, (vec![], last));
    let other = subject.post_as(&client(1), &queue, &messages(LONG_S, 1)).await;
    assert_eq!(behind(last).await, (other.clone(), Some(other[0].rank())));
}

pub(super) async fn a_shorter_renewal_calls_sooner(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let claim = subject.claim(&queue, 1, 600).await.id;
    let renew = async || {
        // It is known by then that the claim ends in ten minutes.
        subject.sight(&queue).await;
        let term = sukkal::domain::Term { ttl_s: 1, grace_s: 60 };
        subject.store().renew_claim(&queue, claim, term).await.expect("the store answers");
    };

    subject.assert_calls(&queue, renew).await;
}

pub(super) async fn as_many_claimers_are_called_as_messages_come(subject: &Subject) {
    let queue = subject.queue("q").await;
    let watches = [subject.watch(&queue).await, subject.watch(&queue).await, subject.watch(&queue).await];
    let mut claimers: Vec<_> = watches.iter().map(|watch| Box::pin(watch.claimer())).collect();
    for claimer in &mut claimers {
        claimer.as_mut().enable();
    }
    let mut reader = watches[0].reader(false);

    subject.post(&queue, &messages(LONG_S, 2)).await;
    timeout(PATIENCE, reader.changed()).await.expect("the reader is called");

    let mut claimers = claimers.into_iter();
    for claimer in claimers.by_ref().take(2) {
        timeout(PATIENCE, claimer).await.expect("the claimer is called");
    }
    let last = claimers.next().expect("there are three");
    assert!(last.now_or_never().is_none(), "a third claimer is called for two messages");
}

pub(super) async fn each_message_of_a_fair_queue_calls_a_claimer(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let watches = [subject.watch(&queue).await, subject.watch(&queue).await, subject.watch(&queue).await];
    let mut claimers: Vec<_> = watches.iter().map(|watch| Box::pin(watch.claimer())).collect();
    for claimer in &mut claimers {
        claimer.as_mut().enable();
    }
    let mut reader = watches[0].reader(false);

    // Two writes, into one shard: neither is told of less than the other.
    for _ in 0..2 {
        let _older = reader.catch_up();
        subject.post_into(&queue, &[5]).await;
        timeout(PATIENCE, reader.changed()).await.expect("the reader is called");
    }

    let mut claimers = claimers.into_iter();
    for claimer in claimers.by_ref().take(2) {
        timeout(PATIENCE, claimer).await.expect("the claimer is called");
        assert_eq!(subject.claim(&queue, 1, 600).await.messages.len(), 1);
    }
    let last = claimers.next().expect("there are three");
    assert!(last.now_or_never().is_none(), "a third claimer is called for two messages");
}

pub(super) async fn what_comes_back_to_a_fair_queue_calls(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    subject.post_into(&queue, &[7]).await;
    let claim = subject.claim(&queue, 1, 600).await.id;

    subject.assert_calls(&queue, async || subject.release(&queue, claim).await).await;

    subject.claim_shortly(&queue).await;
    subject.assert_calls(&queue, async || {}).await;
    subject.pop(&queue, 1).await;
    let late = super::fairness::later(super::fairness::in_shard(3), 1);
    subject.assert_calls(&queue, async || drop(subject.post(&queue, &[late]).await)).await;
}

pub(super) async fn a_call_that_nobody_takes_up_is_passed_on(subject: &Subject) {
    let queue = subject.queue("q").await;
    let (first, second) = (subject.watch(&queue).await, subject.watch(&queue).await);
    let mut gone = Box::pin(first.claimer());
    gone.as_mut().enable();
    let mut next = pin!(second.claimer());
    next.as_mut().enable();
    let mut reader = first.reader(false);

    subject.post(&queue, &messages(LONG_S, 1)).await;
    timeout(PATIENCE, reader.changed()).await.expect("the reader is called");
    drop(gone);

    timeout(PATIENCE, next).await.expect("the next claimer is called");
}

pub(super) async fn a_delayed_message_calls_who_reads_those_too(subject: &Subject) {
    let queue = subject.queue("q").await;
    let watch = subject.watch(&queue).await;
    let mut reader = watch.reader(true);

    subject.post_delayed(&queue, 900).await;

    timeout(PATIENCE, reader.changed()).await.expect("the reader is called");
}

pub(super) async fn a_queue_can_be_watched_again(subject: &Subject) {
    let queue = subject.queue("q").await;
    for _ in 0..3 {
        subject.assert_calls(&queue, async || drop(subject.post(&queue, &messages(LONG_S, 1)).await)).await;
        subject.pop(&queue, 1).await;
    }
}

pub(super) async fn a_sight_tells_where_a_queue_stands(subject: &Subject) {
    let queue = subject.queue("q").await;
    let empty = subject.sight(&queue).await;
    assert_eq!((empty.free, empty.next_due), (0, None));

    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    let last = ids[2].rank();
    let sight = subject.sight(&queue).await;
    assert!(empty.position() < ids[0].rank(), "what is posted from now on is behind now");
    assert!(sight.position() >= last, "what was posted before is not");
    assert_eq!((sight.free, sight.last, sight.next_due), (3, last, None));

    subject.claim(&queue, 1, 600).await;
    subject.post_delayed(&queue, 60).await;
    let sight = subject.sight(&queue).await;
    let minute = Duration::from_secs(60);
    assert_eq!((sight.free, sight.last), (2, last));
    assert!(sight.next_due.is_some_and(|due| due <= minute && due > minute / 2), "{sight:?}");
    assert_eq!(subject.sight(&subject.id("missing")).await.free, 0);
}

pub(super) async fn now_is_behind_a_clock_that_has_stepped_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.rewind(&queue, Duration::from_secs(100)).await;

    assert_eq!(subject.sight(&queue).await.position(), ids[0].rank());
}
