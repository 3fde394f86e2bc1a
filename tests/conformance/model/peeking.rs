//! Lists in any order and the states of messages in the model.

use std::ops::Range;

use sukkal_domain::{Message, MessageState, Order, Rank};
use sukkal_storage::Listing;

use super::operations::Peek;
use super::{ExpectedMessage, RUN_S, Run};
use crate::conformance::support::subject::{client, ids_of};

impl Run<'_> {
    /// Compares a page and the states of its messages with the model.
    pub(in crate::conformance) async fn peek(&self, peek: Peek) {
        let Peek { after, limit, not_from, scope, order } = peek;
        let after = after.filter(|_| !self.all_ids.is_empty()).map(|index| index.get(&self.all_ids).rank());
        let (not_from, delays) = (not_from.map(|by| (by, client(by.into()))), self.delays());
        let follows = |rank: Rank, after: Rank| match order {
            Order::OldestFirst => rank > after,
            Order::NewestFirst => rank < after,
        };
        let is_included = |message: &&ExpectedMessage| {
            after.is_none_or(|after| follows(message.id.rank(), after))
                && not_from.as_ref().is_none_or(|(by, _)| message.client != *by)
                && (scope.claimed || !message.is_in_flight())
                && (message.is_released || (scope.delayed && delays))
        };
        let mut expected: Vec<_> = self.feed.iter().filter(is_included).collect();
        if order == Order::NewestFirst {
            expected.reverse();
        }

        let not_from = not_from.map(|(_, client)| client);
        let listing = Listing { after, order, limit, not_from, scope, with_states: true };
        let page = self.subject.page_of(&self.queue, &listing).await;

        let ids: Vec<_> = expected.iter().map(|message| message.id).take(page.messages.len()).collect();
        assert_eq!(ids_of(&page.messages), ids);
        assert!(!ids.is_empty() || expected.is_empty(), "an empty page before the end of the list");
        assert!(!page.is_last || ids.len() == expected.len(), "the page is not the last one");
        for (message, expected) in page.messages.iter().zip(&expected) {
            self.check_state(message, expected);
        }
        let found = self.subject.store().get_messages(&self.queue, &ids, true).await.expect("the store answers");
        assert_eq!(ids_of(&found), ids);
        for (message, listed) in found.iter().zip(&page.messages) {
            assert_eq!((&message.state, message.claim), (&listed.state, listed.claim));
        }
    }

    fn check_state(&self, message: &Message, expected: &ExpectedMessage) {
        let times = |at_s: i64| self.clock_us(at_s)..self.clock_us(at_s + RUN_S);
        let assert_until = |until_us: &u64, times: Range<u64>| assert!(times.contains(until_us), "{message:?}");
        assert_eq!(message.claim, expected.claim);
        match (message.state.as_ref().expect("the state was asked for"), expected.returned_until_s) {
            (MessageState::Claimed { until_us, client: by }, None) => {
                assert_until(until_us, times(self.end_of_claim_s(expected.claim.expect("it is claimed"))));
                assert_eq!(*by, client(0));
            }
            (MessageState::Delayed { until_us }, Some(returned_until_s)) => {
                assert_until(until_us, times(returned_until_s));
            }
            (MessageState::Delayed { until_us }, None) => {
                // By the clock, the message is due before its rank if logical time is ahead.
                let rank = message.id.rank().micros();
                assert!(!expected.is_released, "{message:?}");
                assert_until(until_us, self.clock_us(self.now_s)..rank + 1);
            }
            (MessageState::Available, None) => {
                assert!(expected.is_released && expected.claim.is_none(), "{message:?}");
            }
            (state, returned) => panic!("{state:?} of a message that was returned until {returned:?}"),
        }
    }
}
