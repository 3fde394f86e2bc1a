//! Verifies the subscriptions of a queue and what belongs to them.

use std::collections::HashSet;

use crate::Error;
use crate::delivery_record::{
    SubscriptionHead, check_attempt, check_retry, decode_progress, decode_retry, decode_subscription, retry_entry,
};
use crate::embedded::check::findings::Findings;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::read::View;
use sukkal_domain::{QueueId, SubscriptionId};

/// Length of the id of a subscription.
const ID_BYTES: usize = 16;

impl<T: Table> View<T> {
    pub(crate) fn check_deliveries(
        &self,
        queue: &QueueId,
        state: &QueueState,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let number = state.subscriptions;
        if number == 0 {
            findings.expect(state.subscription_count == 0, "subscriptions are counted, but there are none");
            return Ok(());
        }
        self.delivery_row(state)?;
        let mut ids = HashSet::new();
        for entry in self.all_of(number, Part::Subscription)? {
            let (key, record) = entry?;
            let id = *key.first_chunk::<ID_BYTES>().ok_or_else(|| damaged("the id of a subscription"))?;
            ids.insert(id);
            let subscription = SubscriptionId::from_bytes(id);
            let named = |error: Error| error.of(format_args!("subscription {subscription}"));
            let read = decode_subscription(subscription, &record, 0).map_err(named);
            let Some(subscription) = findings.expect_readable(read) else { continue };
            let subscriber = keys::content(number, Part::Subscriber, subscription.settings.subscriber.as_bytes());
            let is_indexed = self.contents.get(&*subscriber)?.is_some_and(|other| other.value() == id);
            findings.expect(is_indexed, format_args!("subscription {} has no subscriber", subscription.id));
            let end_s = SubscriptionHead::decode(&record)?.end_s();
            let end = self.contents.get(&*keys::timed(number, Part::SubscriptionEnd, end_s, &id))?;
            findings.expect(end.is_some(), format_args!("subscription {} does not expire", subscription.id));
            match self.contents.get(&*keys::content(number, Part::Progress, &id))? {
                Some(progress) => {
                    findings.expect_readable(decode_progress(queue, progress.value()).map_err(named));
                }
                None => findings.expect(false, format_args!("subscription {} has no progress", subscription.id)),
            }
        }
        let count = ids.len() as u64;
        let stored = state.subscription_count;
        findings.expect(stored == count, format_args!("the stored number of subscriptions is {stored}, not {count}"));
        for part in [Part::Subscriber, Part::SubscriptionEnd, Part::Progress] {
            let rows = self.all_of(number, part)?.count() as u64;
            findings.expect(rows == count, format_args!("{count} subscriptions have {rows} rows of {part:?}"));
        }
        for part in [Part::Attempt, Part::Retry, Part::RetryTime] {
            for entry in self.all_of(number, part)? {
                let (key, _) = entry?;
                let exists = key.first_chunk().is_some_and(|id| ids.contains(id));
                findings.expect(exists, format_args!("a row of {part:?} belongs to no subscription"));
            }
        }
        self.check_retries(queue, number, findings)
    }

    fn check_retries(&self, queue: &QueueId, number: u64, findings: &mut Findings<'_>) -> Result<(), Error> {
        for entry in self.all_of(number, Part::Attempt)? {
            findings.expect_readable(check_attempt(&entry?.1));
        }
        let mut count = 0;
        for entry in self.all_of(number, Part::Retry)? {
            let (name, record) = entry?;
            count += 1;
            findings.expect_readable(check_retry(queue, &record));
            let Ok(retry) = decode_retry(queue, &record, 0) else { continue };
            let id = name.first_chunk::<ID_BYTES>().ok_or_else(|| damaged("the name of a retry"))?;
            let subscription = SubscriptionId::from_bytes(*id);
            let due = retry_entry(subscription, retry.due_us, retry.message.id);
            let is_indexed = self.contents.get(&*keys::content(number, Part::RetryTime, &due))?.is_some();
            findings.expect(is_indexed, format_args!("a retry of subscription {subscription} is not due at its time"));
        }
        let times = self.all_of(number, Part::RetryTime)?.count();
        findings.expect(times == count, format_args!("{count} retries are due at {times} times"));
        Ok(())
    }
}
