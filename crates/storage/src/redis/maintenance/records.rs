//! Reads every record of a queue as its readers do, and sets metadata, policies and subscriptions
//! aside that cannot be read.

use bytes::Bytes;
use fred::types::Value;

use crate::delivery_record::{check_attempt, check_retry, decode_progress};
use crate::entry::{CLAIM_BYTES, IN_FLIGHT_BYTES};
use crate::key::KEY_BYTES;
use crate::key::id_of;
use crate::moved_messages::OutgoingMessage;
use crate::policy::QueuePolicy;
use crate::redis::RedisStore;
use crate::redis::keys::{self, CLAIM_HAS_KEYS, CLAIM_HELD, KeyName, QueueKeys};
use crate::redis::reply;
use crate::redis::subscriptions::{read_id, read_subscription};
use crate::task_record::TaskRecord;
use crate::{COPIED_TABLES, Check, Error, QueueStore, Records, Row, SubscriptionStore, UpdateOutcome, record};
use sukkal_domain::{ClaimId, Metadata, QueueId, Revision, SubscriptionId};

/// Approximate number of records that one command reads. Some have whole messages.
const RECORDS_PER_STEP: &str = "20";
/// Number of messages of an outbox that one command reads.
const OUTBOX_PER_STEP: usize = 20;

/// Size in bytes of the ttl, the start and the fence of a claim.
const CLAIM_NUMBERS_BYTES: usize = 20;

/// Reads a record of a queue by its name, and drops it.
type Reader = fn(&QueueId, &[u8], &Bytes) -> Result<(), Error>;

impl RedisStore {
    /// Reports the records of a queue that cannot be read.
    pub(super) async fn check_records(&self, queue: &QueueId, repairs: bool, check: &mut Check) -> Result<(), Error> {
        self.check_metadata(queue, repairs, check).await?;
        let keys = QueueKeys::of(queue);
        for (name, error) in self.unreadable(queue, &keys.key(KeyName::Subscriptions), check_subscription).await? {
            self.report_subscription(queue, name, &error, repairs, check).await?;
        }
        let others: [(String, Reader); 5] = [
            (keys.key(KeyName::Messages), |queue, key, message| record::check(id_of(queue, key)?, message)),
            (keys.key(KeyName::Claims), check_claim),
            (keys.key(KeyName::Tasks), |_, _, task| TaskRecord::decode(task).map(drop)),
            (keys.key(KeyName::Deliveries), check_delivery),
            (keys.key(KeyName::Retries), |queue, _, retry| check_retry(queue, retry)),
        ];
        for (key, read) in others {
            for (_, error) in self.unreadable(queue, &key, read).await? {
                check.add_finding(queue, error.reason());
            }
        }
        self.check_outbox(queue, check).await
    }

    /// Reports the rows of tables that cannot be read.
    pub(super) async fn check_tables(&self, check: &mut Check) -> Result<(), Error> {
        for table in COPIED_TABLES {
            let Some(indexes) = &table.indexes else { continue };
            for Row { key, value } in self.all_rows(table).await? {
                if let Err(error) = (indexes.check)(&key, &value) {
                    check.add_finding(format_args!("the {}", table.tag), error.reason());
                }
            }
        }
        Ok(())
    }

    async fn check_metadata(&self, queue: &QueueId, repairs: bool, check: &mut Check) -> Result<(), Error> {
        let key = QueueKeys::of(queue).queue();
        let mut stored = self.connection.command("HMGET", &key, &["v", "m", "p"]).await?;
        let Some(revision) = stored.text_or_nil()? else { return Ok(()) };
        let [metadata, policy] = [(); 2].map(|()| stored.bytes_or_nil().unwrap_or_default());
        let (error, what, unreadable, repaired) = match (record::metadata(&metadata), QueuePolicy::decode(&policy)) {
            (Ok(_), Some(_)) => return Ok(()),
            (Ok(read), None) => (Error::Corrupt("cannot decode the policy".to_owned()), "policy", policy, read),
            (Err(error), _) => (error, "metadata", metadata, Metadata::default()),
        };
        if !repairs {
            check.add_finding(queue, error.reason());
            return Ok(());
        }
        let place = self.set_aside(queue, &format!("{what} of revision {revision}"), unreadable).await?;
        let revision = Revision(reply::parse_number(&revision)?);
        // This stores the policy of the metadata, too.
        match self.update_queue(queue, revision, &repaired).await? {
            UpdateOutcome::Done => check.add_repair(queue, format_args!("{}; set aside in {place}", error.reason())),
            // It has other metadata by now.
            UpdateOutcome::Stale => {}
        }
        Ok(())
    }

    async fn report_subscription(
        &self,
        queue: &QueueId,
        id: Bytes,
        error: &Error,
        repairs: bool,
        check: &mut Check,
    ) -> Result<(), Error> {
        let record = self.values_of(queue, &QueueKeys::of(queue).key(KeyName::Subscriptions), [id.clone()]).await?;
        match (read_id(&id), record.into_iter().flatten().next()) {
            (Ok(id), Some(record)) if repairs => {
                let place = self.set_aside(queue, &format!("subscription {id}"), record).await?;
                self.delete_subscription(queue, id).await?;
                check.add_repair(queue, format_args!("{}; set aside in {place}", error.reason()));
            }
            _ => check.add_finding(queue, error.reason()),
        }
        Ok(())
    }

    /// Keeps the bytes of a record that cannot be read. Returns where.
    async fn set_aside(&self, queue: &QueueId, what: &str, record: Bytes) -> Result<String, Error> {
        let field = format!("{} {what}", keys::hash_tag(queue));
        self.connection.command_with("HSET", keys::SET_ASIDE, [field.as_str().into(), Value::Bytes(record)]).await?;
        Ok(format!("field \"{field}\" of {}", keys::SET_ASIDE))
    }

    async fn check_outbox(&self, queue: &QueueId, check: &mut Check) -> Result<(), Error> {
        let key = QueueKeys::of(queue).key(KeyName::Outbox);
        let mut first = 0;
        loop {
            let range = [first, first + OUTBOX_PER_STEP - 1].map(|index| index.to_string());
            let mut outgoing = self.connection.command("LRANGE", &key, &[&range[0], &range[1]]).await?;
            if outgoing.is_empty() {
                return Ok(());
            }
            while !outgoing.is_empty() {
                if let Err(error) = OutgoingMessage::check(queue, &outgoing.bytes()?) {
                    check.add_finding(format_args!("the outbox of {queue}"), error.reason());
                }
            }
            first += OUTBOX_PER_STEP;
        }
    }

    /// Returns the names of the records of a hash that `read` cannot read, with its errors.
    async fn unreadable(&self, queue: &QueueId, key: &str, read: Reader) -> Result<Vec<(Bytes, Error)>, Error> {
        let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let records = self.scan(key, &mut cursor, RECORDS_PER_STEP).await?;
            let errors = records.into_iter().filter_map(|(name, record)| {
                let error = read(queue, &name, &record).err()?;
                Some((name, error))
            });
            found.extend(errors);
            if cursor == "0" {
                return Ok(found);
            }
        }
    }

    /// Reads about `count` more fields of a hash with their values. The cursor is 0 again at the
    /// end.
    pub(in crate::redis) async fn scan(
        &self,
        key: &str,
        cursor: &mut String,
        count: &str,
    ) -> Result<Vec<(Bytes, Bytes)>, Error> {
        let args = [cursor.as_str(), "COUNT", count];
        let mut reply = self.connection.command("HSCAN", key, &args).await?;
        *cursor = reply.text()?;
        reply.list()?.read_all(|fields| Ok((fields.bytes()?, fields.bytes()?)))
    }
}

/// Reads a claim, or a pop: see `scripts/shared/claims.lua`.
fn check_claim(_queue: &QueueId, id: &[u8], record: &Bytes) -> Result<(), Error> {
    // The last byte of an id may be the same.
    let (id, is_number) = match id.strip_suffix(CLAIM_HELD.as_bytes()) {
        Some(of_claim) if of_claim.len() == CLAIM_BYTES => (of_claim, true),
        _ => (id, false),
    };
    let read = || {
        if is_number {
            return str::from_utf8(record).ok()?.parse::<u32>().ok().map(drop);
        }
        let ttl = u32::from_be_bytes(*record.first_chunk()?);
        let message_bytes = if ttl & CLAIM_HAS_KEYS == 0 { IN_FLIGHT_BYTES } else { KEY_BYTES };
        let (client_bytes, rest) = record.get(CLAIM_NUMBERS_BYTES..)?.split_first_chunk()?;
        let (client, messages) = rest.split_at_checked(u16::from_be_bytes(*client_bytes).into())?;
        let is_readable = str::from_utf8(client).is_ok() && messages.len().is_multiple_of(message_bytes);
        is_readable.then_some(())
    };
    let id = id.try_into().map_or_else(|_| "without id".to_owned(), |id| ClaimId::from_bytes(id).to_string());
    read().ok_or_else(|| Error::Corrupt(format!("claim {id}: cannot decode it")))
}

fn check_subscription(_queue: &QueueId, id: &[u8], record: &Bytes) -> Result<(), Error> {
    let id = read_id(id)?;
    let read = read_subscription(id, record, 0).map(drop);
    read.map_err(|error| error.of(format_args!("subscription {id}")))
}

/// Reads the progress of a subscription or one of its attempts. The other fields are numbers.
fn check_delivery(queue: &QueueId, field: &[u8], record: &Bytes) -> Result<(), Error> {
    let (Some((kind, id)), true) = (field.split_first(), field.len() > 1) else { return Ok(()) };
    let read = match kind {
        b'p' => decode_progress(queue, record).map(drop),
        b'a' => check_attempt(record),
        _ => Ok(()),
    };
    let id = id.first_chunk().map_or_else(|| "without id".to_owned(), |id| SubscriptionId::from_bytes(*id).to_string());
    read.map_err(|error| error.of(format_args!("subscription {id}")))
}
