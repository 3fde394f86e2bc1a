//! The trace context of a post: it is kept with each message of the post.

use futures::future::join_all;
use serde_json::json;
use sukkal_domain::{Message, MessageId, QueueId, TraceContext};
use sukkal_storage::{Popped, Post, PostOutcome};

use super::redrives::all_to;
use crate::conformance::support::subject::{LONG_S, Subject, client, messages};
use support::calls::plain_post;

impl Subject {
    /// Posts `count` messages in a request with this trace context.
    async fn post_traced(&self, queue: &QueueId, count: usize, trace: Option<TraceContext>) -> Vec<MessageId> {
        let (revision, by) = (self.revision(queue).await, client(0));
        let messages = messages(LONG_S, count);
        let post = Post { trace, ..plain_post(revision, &by, &messages) };
        match self.store().post_messages(queue, &post).await {
            Ok(PostOutcome::Posted(ids)) => ids,
            other => panic!("not posted to {queue}: {other:?}"),
        }
    }
}

/// Returns a trace context; none for 0.
fn trace(number: u8) -> Option<TraceContext> {
    (number > 0).then(|| TraceContext::from_bytes([number; TraceContext::BYTES]))
}

fn traces_of(messages: &[Message]) -> Vec<Option<TraceContext>> {
    messages.iter().map(|message| message.trace).collect()
}

pub(in crate::conformance) async fn a_message_keeps_the_trace_context_of_its_post(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut ids = subject.post_traced(&queue, 2, trace(1)).await;
    ids.extend(subject.post_traced(&queue, 1, None).await);
    let all = [trace(1), trace(1), None];

    assert_eq!(traces_of(&subject.list(&queue, None, 10).await), all);
    assert_eq!(traces_of(&subject.get_messages(&queue, &ids).await), all);
    let claim = subject.claim(&queue, 3, 60).await;
    assert_eq!(traces_of(&claim.messages), all);
    assert_eq!(traces_of(&subject.get_claim(&queue, claim.id).await.expect("it is live").messages), all);
    subject.release(&queue, claim.id).await;
    let popped = subject.popped(&queue, 3).await;
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");
    assert_eq!(traces_of(&Popped::messages(popped)), all);
    assert_eq!(traces_of(&subject.list(&queue, None, 10).await), all);
}

pub(in crate::conformance) async fn dead_and_redriven_messages_keep_their_trace_context(subject: &Subject) {
    let (dead_letters, other) = (subject.id("letters"), subject.queue("other").await);
    let queue = subject.queue_of("q", json!({"_max_claim_count": 1, "_dead_letter_queue": "letters"})).await;
    subject.post_traced(&queue, 1, trace(1)).await;
    subject.post_traced(&queue, 1, None).await;
    subject.deliver_once(&queue, 2).await;
    assert_eq!(subject.pop(&queue, 2).await, []);
    assert_eq!(traces_of(&subject.list(&dead_letters, None, 10).await), [trace(1), None]);
    // A message that is not a dead letter can be moved too.
    subject.post_traced(&dead_letters, 1, trace(2)).await;

    subject.redrive(&dead_letters, &all_to(&other)).await;

    assert_eq!(subject.count(&dead_letters).await, 0);
    let moved = subject.list(&other, None, 10).await;
    assert_eq!(traces_of(&moved), [trace(1), None, trace(2)]);
    assert_eq!(moved.iter().map(|message| message.origin.is_some()).collect::<Vec<_>>(), [true, true, false]);
}

/// A store may write posts that arrive together in one step.
pub(in crate::conformance) async fn concurrent_posts_keep_their_own_trace_contexts(subject: &Subject) {
    let queue = subject.queue("q").await;

    let trace_of = |number: u8| trace(if number.is_multiple_of(3) { 0 } else { number });
    let posts = join_all((0..60).map(|number| subject.post_traced(&queue, 2, trace_of(number)))).await;

    for (number, ids) in (0..).zip(posts) {
        assert_eq!(traces_of(&subject.get_messages(&queue, &ids).await), [trace_of(number); 2]);
    }
}
