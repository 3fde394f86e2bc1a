//! The states of messages: available, delayed or claimed, and until when.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use serde_json::json;
use sukkal_domain::{Claim, Fence, Message, MessageId, MessageState, NewClaim, NewMessage, Order, QueueId, Scope};
use sukkal_storage::Listing;

use crate::conformance::support::subject::{LONG_S, Subject, client, ids_of, messages};
use support::calls::new_claim;

const S: Duration = Duration::from_secs(1);
const MICROS: u64 = 1_000_000;
/// Maximum duration of a case, in seconds.
const CASE_S: u64 = 60;

impl Subject {
    async fn get_with_states(&self, queue: &QueueId, ids: &[MessageId]) -> Vec<Message> {
        self.store().get_messages(queue, ids, true).await.expect("the store answers")
    }

    /// Returns the state of a message, which a list must show too.
    async fn state_of(&self, queue: &QueueId, id: MessageId) -> MessageState {
        let [message] = &self.get_with_states(queue, &[id]).await[..] else { panic!("{id} does not exist") };
        let scope = Scope { claimed: true, delayed: true };
        let page = self.page_of(queue, &Listing { scope, with_states: true, ..Listing::first(1_000) }).await;
        let listed = page.messages.iter().find(|message| message.id == id).expect("it is listed");
        assert_eq!((&listed.state, listed.claim), (&message.state, message.claim), "a list and a get differ");
        message.state.clone().expect("the state was asked for")
    }

    async fn claim_by(&self, queue: &QueueId, number: u128, limit: usize, ttl_s: u32) -> Claim {
        let new = NewClaim { client: client(number), ..new_claim(limit, ttl_s) };
        self.claim_as(queue, new).await.expect("a message is available")
    }

    async fn now_us(&self, queue: &QueueId) -> u64 {
        self.store().queue_status(queue).await.expect("the store answers").now_us
    }
}

fn claimed(fence: Fence, ttl_s: u64, number: u128) -> MessageState {
    // The fence of a claim is the time of its creation.
    MessageState::Claimed { until_us: fence.0 + ttl_s * MICROS, client: client(number) }
}

/// Returns the time until which a message is delayed.
fn delayed_until(state: &MessageState) -> u64 {
    match state {
        MessageState::Delayed { until_us } => *until_us,
        state => panic!("{state:?}"),
    }
}

fn delayed(delay_s: u32, count: usize) -> Vec<NewMessage> {
    messages(LONG_S, count).into_iter().map(|message| NewMessage { delay_s, ..message }).collect()
}

pub(in crate::conformance) async fn a_message_has_its_state_only_on_request(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    let plain = subject.get_messages(&queue, &ids).await;
    assert!(plain.iter().chain(&subject.list(&queue, None, 10).await).all(|message| message.state.is_none()));

    let page = subject.page_of(&queue, &Listing { with_states: true, ..Listing::first(2) }).await.messages;
    let mut asked = subject.get_with_states(&queue, &[ids[2], ids[0], ids[1]]).await;

    assert_eq!((ids_of(&page), ids_of(&asked)), (ids[..2].to_vec(), vec![ids[2], ids[0], ids[1]]));
    asked.sort_by_key(|message| message.id);
    for (message, plain) in page.iter().zip(&plain).chain(asked.iter().zip(&plain)) {
        assert_eq!(message.state, Some(MessageState::Available));
        assert_eq!(Message { state: None, age_s: plain.age_s, ..message.clone() }, *plain);
    }
    assert_eq!(subject.get_with_states(&subject.id("never"), &ids).await, []);
}

pub(in crate::conformance) async fn a_claimed_message_shows_its_client_and_the_end_of_its_claim(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    let first = subject.claim_by(&queue, 7, 1, 60).await;
    let second = subject.claim_by(&queue, 8, 1, 600).await;

    assert_eq!(subject.state_of(&queue, ids[0]).await, claimed(first.fence, 60, 7));
    assert_eq!(subject.state_of(&queue, ids[1]).await, claimed(second.fence, 600, 8));
    assert_eq!(subject.state_of(&queue, ids[2]).await, MessageState::Available);
    let found = subject.get_with_states(&queue, &ids).await;
    let holders: Vec<_> = found.iter().map(|message| message.claim).collect();
    assert_eq!(holders, [Some(first.id), Some(second.id), None]);

    subject.advance(&queue, 61 * S).await;
    assert_eq!(subject.state_of(&queue, ids[0]).await, MessageState::Available);
    subject.release(&queue, second.id).await;
    assert_eq!(subject.state_of(&queue, ids[1]).await, MessageState::Available);
    let listing = Listing { with_states: true, ..Listing::first(10) };
    subject.claim_by(&queue, 7, 2, 60).await;
    assert_eq!(ids_of(&subject.page_of(&queue, &listing).await.messages), ids[2..]);
}

pub(in crate::conformance) async fn a_renewal_changes_the_end_of_the_claim(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 1)).await;
    let claim = subject.claim_by(&queue, 7, 1, 60).await;

    subject.advance(&queue, 40 * S).await;
    subject.renew(&queue, claim.id, 600, 60).await;

    let MessageState::Claimed { until_us, client: by } = subject.state_of(&queue, ids[0]).await else {
        panic!("it is claimed");
    };
    let since = claim.fence.0 + 640 * MICROS;
    assert!((since..since + CASE_S * MICROS).contains(&until_us), "{until_us} instead of {since}");
    assert_eq!(by, client(7));
}

pub(in crate::conformance) async fn a_returned_message_is_delayed_until_its_delay_ends(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim_by(&queue, 7, 2, 600).await;
    subject.store().return_message(&queue, claim.id, ids[0], 100).await.expect("the store answers");

    let until_us = delayed_until(&subject.state_of(&queue, ids[0]).await);

    let since = claim.fence.0 + 100 * MICROS;
    assert!((since..since + CASE_S * MICROS).contains(&until_us), "{until_us} instead of {since}");
    assert_eq!(subject.state_of(&queue, ids[1]).await, claimed(claim.fence, 600, 7));
    assert_eq!(subject.get_with_states(&queue, &ids[..1]).await[0].claim, None);
    // Lists include it as they include claimed messages.
    let listing = Listing { with_states: true, ..Listing::first(10) };
    assert_eq!(subject.page_of(&queue, &listing).await.messages, []);
    subject.advance(&queue, 101 * S).await;
    assert_eq!(subject.state_of(&queue, ids[0]).await, MessageState::Available);
}

pub(in crate::conformance) async fn a_delayed_message_shows_the_time_when_it_is_due(subject: &Subject) {
    let queue = subject.queue_of("q", json!({"_default_message_delay": 5})).await;
    let ids = subject.post(&queue, &delayed(100, 2)).await;

    for id in &ids {
        assert_eq!(delayed_until(&subject.state_of(&queue, *id).await), id.rank().micros());
    }
    subject.advance(&queue, 101 * S).await;
    assert_eq!(subject.state_of(&queue, ids[0]).await, MessageState::Available);
}

/// A delay has its full length by the clock, whatever the ranks are.
pub(in crate::conformance) async fn states_follow_the_clock_when_it_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.advance(&queue, 3_600 * S).await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.rewind(&queue, 3_600 * S).await;
    let before = subject.now_us(&queue).await;
    let id = subject.post(&queue, &delayed(100, 1)).await[0];

    let until_us =
        delayed_until(&subject.get_with_states(&queue, &[id]).await[0].state.clone().expect("it was asked for"));

    let since = before + 100 * MICROS;
    assert!((since..since + CASE_S * MICROS).contains(&until_us), "{until_us} instead of {since}");
    let real = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    let until = Duration::from_micros(until_us).saturating_sub(real);
    subject.set_clock_ahead(&queue, until.saturating_sub(2 * S)).await;
    assert!(matches!(subject.get_with_states(&queue, &[id]).await[0].state, Some(MessageState::Delayed { .. })));
    subject.set_clock_ahead(&queue, until + S).await;
    assert_eq!(subject.get_with_states(&queue, &[id]).await[0].state, Some(MessageState::Available));
}

/// More claims than a store may read in one step.
pub(in crate::conformance) async fn the_states_of_messages_in_many_claims_are_right(subject: &Subject) {
    const CLAIMS: u128 = 230;
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 2 * CLAIMS as usize)).await;
    let claims = join_all((0..CLAIMS).map(|number| subject.claim_by(&queue, number, 2, 600))).await;

    let scope = Scope { claimed: true, delayed: false };
    let listing = Listing { scope, with_states: true, ..Listing::first(1_000) };
    let page = subject.page_of(&queue, &listing).await.messages;

    assert_eq!(page.len(), 2 * claims.len());
    for (number, claim) in (0..).zip(&claims) {
        let own: Vec<_> = page.iter().filter(|message| message.claim == Some(claim.id)).collect();
        assert_eq!(own.iter().map(|message| message.id).collect::<Vec<_>>(), ids_of(&claim.messages));
        for message in own {
            assert!(matches!(&message.state, Some(MessageState::Claimed { client: by, .. }) if by == &client(number)));
        }
    }
}

/// Posts messages of which each is in a claim of its own, and returns their ids. The claim took
/// 1,000 messages, of which the others have been deleted. The number of a claim's client is its
/// position.
pub(super) async fn messages_in_large_claims(subject: &Subject, queue: &QueueId) -> Vec<MessageId> {
    const TAKEN: usize = 1_000;
    let mut ids = Vec::new();
    for number in 0..46 {
        let posted = subject.post(queue, &messages(LONG_S, TAKEN)).await;
        subject.claim_by(queue, number, TAKEN, 600).await;
        subject.delete_messages(queue, &posted[1..]).await;
        ids.push(posted[0]);
    }
    ids
}

/// What a store keeps of a claim grows with the messages that it took, so a page may be short.
pub(in crate::conformance) async fn pages_of_messages_in_large_claims_are_complete(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = messages_in_large_claims(subject, &queue).await;
    let assert_clients = |messages: &[Message]| {
        for (message, number) in messages.iter().map(|message| (message, ids.iter().position(|id| *id == message.id))) {
            let by = client(number.expect("it was posted") as u128);
            assert!(matches!(&message.state, Some(MessageState::Claimed { client, .. }) if *client == by));
        }
    };

    for order in [Order::OldestFirst, Order::NewestFirst] {
        let (mut read, mut after) = (Vec::new(), None);
        loop {
            let scope = Scope { claimed: true, delayed: false };
            let listing = Listing { after, order, scope, with_states: true, ..Listing::first(100) };
            let page = subject.page_of(&queue, &listing).await;
            assert_clients(&page.messages);
            read.extend(ids_of(&page.messages));
            after = page.messages.last().map(|message| message.id.rank());
            if page.is_last {
                break;
            }
        }
        if order == Order::NewestFirst {
            read.reverse();
        }
        assert_eq!(read, ids);
    }
    let found = subject.get_with_states(&queue, &ids).await;
    assert_clients(&found);
    assert_eq!(ids_of(&found), ids);
}

/// A store may list messages and read their states in two steps.
pub(in crate::conformance) async fn a_list_without_claimed_messages_shows_none_while_workers_claim(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 20)).await;
    let (worker, of) = (subject.clone(), queue.clone());
    let worker = tokio::spawn(async move {
        for round in 0..150 {
            let claim = worker.claim_by(&of, round, 5, 60).await;
            worker.store().return_message(&of, claim.id, claim.messages[0].id, 1).await.expect("the store answers");
            worker.release(&of, claim.id).await;
            worker.advance(&of, 2 * S).await;
        }
    });

    while !worker.is_finished() {
        let page = subject.page_of(&queue, &Listing { with_states: true, ..Listing::first(100) }).await.messages;
        let states: Vec<_> = page.iter().filter_map(|message| message.state.as_ref()).collect();
        assert_eq!(states, vec![&MessageState::Available; page.len()]);
    }

    worker.await.expect("no claim fails");
}
