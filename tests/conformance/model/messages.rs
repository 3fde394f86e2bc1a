//! Messages in the model: posts, with the ranks that they may get, lists and gets.

use proptest::sample::Index;
use serde_json::json;
use sukkal_domain::{MessageId, NewMessage};
use sukkal_storage::PostOutcome;

use super::operations::Batch;
use super::{ExpectedMessage, RUN_S, Run, TICK_S};
use crate::conformance::support::subject::{assert_ascending, body, client};

impl Run<'_> {
    /// Posts messages. If there is a delay, two of three messages have it.
    pub(in crate::conformance) async fn post(&mut self, batch: Batch) {
        let Batch { client: by, tenants, count, ticks, delay_ticks } = batch;
        let ttl_s = TICK_S * ticks + TICK_S / 2;
        let delay_s = delay_ticks.map_or(0, |ticks| TICK_S * ticks + 85);
        let first = self.all_ids.len();
        let batch: Vec<_> = (first..first + count)
            .map(|number| {
                let delay_s = if number % 3 == 0 { 0 } else { delay_s };
                NewMessage {
                    ttl_s,
                    delay_s,
                    body: body(&json!({"n": number})),
                    assignment: self.assignment_of(number % tenants),
                }
            })
            .collect();
        let posting = self.subject.try_post(&self.queue, self.last_revision, &client(by.into()), &batch).await;
        if self.state.is_none() {
            assert_eq!(posting, Ok(PostOutcome::Stale(None)));
            return;
        }
        let Ok(PostOutcome::Posted(ids)) = posting else { panic!("not posted: {posting:?}") };
        assert_eq!(ids.len(), count);
        self.totals.posted += count as u64;
        let shards = self.assign_shards(&batch);
        let expires_s = self.now_s + i64::from(ttl_s);
        let last =
            self.feed.iter().rfind(|message| message.is_released).map_or(0, |message| message.id.rank().micros());
        for ((id, message), shard) in ids.iter().zip(batch).zip(shards) {
            let rank = id.rank().micros();
            let logical_us = self.clock_us(self.now_s + RUN_S) + self.offset_us;
            let most_us = self.clock_us(self.now_s + RUN_S) + self.offset_max_us.max(self.offset_us);
            let most_us = most_us.max(self.all_ids.iter().map(|id| id.rank().micros()).max().unwrap_or(0) + 1_000_000);
            let (earliest, latest) =
                (self.clock_us(self.now_s), self.clock_us(self.latest_s + RUN_S).max(last + 1_000_000).max(most_us));
            let hidden_us = u64::from(message.delay_s) * 1_000_000;
            if message.delay_s > 0 && rank - hidden_us > logical_us {
                // Ranks are ahead of the clock, and logical time has been raised to them.
                self.offset_us = rank - hidden_us - self.clock_us(self.now_s);
            }
            assert!((earliest + hidden_us..latest + hidden_us).contains(&rank), "{rank} does not match the delay");
            assert!(rank > last, "a reader may have passed {rank} already");
            let is_released = message.delay_s == 0;
            let (claim, returned_until_s, claim_count, first_claimed_s, was_claimed) = Default::default();
            self.feed.push(ExpectedMessage {
                id: *id,
                client: by,
                ttl_s,
                body: message.body,
                expires_s,
                is_released,
                claim,
                returned_until_s,
                claim_count,
                first_claimed_s,
                was_claimed,
                shard,
            });
        }
        self.feed.sort_by_key(|message| message.id.rank());
        for delayed in [false, true] {
            let is_delayed =
                |id: &&MessageId| self.feed.iter().any(|message| message.id == **id && message.is_released != delayed);
            assert_ascending(&ids.iter().filter(is_delayed).copied().collect::<Vec<_>>());
        }
        self.all_ids.extend(ids);
    }

    pub(in crate::conformance) async fn list(&self, after: Option<Index>, limit: usize, not_from: Option<u8>) {
        let after = after.filter(|_| !self.all_ids.is_empty()).map(|index| *index.get(&self.all_ids));
        let expected: Vec<_> = self
            .feed
            .iter()
            .filter(|message| after.is_none_or(|after| message.id.rank() > after.rank()))
            .filter(|message| Some(message.client) != not_from && message.is_released && !message.is_in_flight())
            .map(|message| (message.id, message.ttl_s, message.body.clone()))
            .collect();

        let page = self.subject.list_for(&self.queue, after, limit, not_from.map(|by| client(by.into()))).await;

        let page: Vec<_> = page.into_iter().map(|message| (message.id, message.ttl_s, message.body)).collect();
        assert!(!page.is_empty() || expected.is_empty(), "an empty page before the end of the feed");
        assert_eq!(page, expected[..page.len().min(expected.len())]);
    }

    pub(in crate::conformance) async fn get(&self, picks: &[Index]) {
        let ids = self.picked_ids(picks);
        let expected: Vec<_> =
            ids.iter().copied().filter(|id| self.feed.iter().any(|message| message.id == *id)).collect();

        assert_eq!(self.subject.found(&self.queue, &ids).await, expected);
    }

    /// Returns the ids of the selected messages, each once.
    pub(in crate::conformance) fn picked_ids(&self, picks: &[Index]) -> Vec<MessageId> {
        let mut ids = Vec::new();
        for pick in picks.iter().filter(|_| !self.all_ids.is_empty()) {
            let id = *pick.get(&self.all_ids);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }
}
