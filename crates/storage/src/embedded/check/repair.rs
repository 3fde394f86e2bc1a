//! Sets metadata and subscriptions aside that cannot be read.

use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use crate::delivery_record::decode_subscription;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::file::add_line;
use crate::embedded::engine::tables::Table;
use crate::embedded::queues::encode_row;
use crate::embedded::rows::keys::{self, Part, QUEUES};
use crate::embedded::rows::queue::{QueueRow, read_queue};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::{Check, Error, Maintenance, SubscriptionStore};
use sukkal_domain::{Metadata, QueueId, SubscriptionId};

/// File, in the folder of the store, to which records are added that are set aside.
const SET_ASIDE: &str = "set-aside.jsonl";

/// A record that cannot be read: the metadata of a queue, or one of its subscriptions.
struct Unreadable {
    queue: QueueId,
    subscription: Option<SubscriptionId>,
    bytes: Vec<u8>,
    error: Error,
}

impl EmbeddedStore {
    /// Sets all records aside that cannot be read. Then checks the store.
    pub(in crate::embedded) async fn set_unreadable_aside(&self) -> Result<Check, Error> {
        let mut repaired = Check::default();
        let path = Path::new(&self.parts.engine.place).with_file_name(SET_ASIDE);
        for Unreadable { queue, subscription, bytes, error } in self.read_on_blocking_thread(View::unreadable).await? {
            let what = subscription.map_or_else(|| "metadata".to_owned(), |id| format!("subscription {id}"));
            let line = json!({ "queue": queue.to_string(), "record": what, "bytes": hexadecimal(&bytes) });
            let failed = |error| Error::Unavailable(format!("cannot write {}: {error}", path.display()));
            add_line(&path, &line.to_string()).map_err(failed)?;
            let queue_id = queue.clone();
            match subscription {
                None => self.write(0, move |store| store.reset_metadata(&queue_id)).await?,
                Some(id) => self.delete_subscription(&queue_id, id).await?,
            }
            repaired.add_repair(queue, format_args!("{what}: {}; set aside in {}", error.reason(), path.display()));
        }
        repaired.add(self.check().await?);
        Ok(repaired)
    }
}

impl<T: Table> View<T> {
    fn unreadable(&self) -> Result<Vec<Unreadable>, Error> {
        let mut found = Vec::new();
        for (key, row) in self.all_with(&[QUEUES])? {
            let queue = keys::decode_queue(&key).ok_or_else(|| damaged("a queue's name"))?;
            let Some(head) = QueueRow::decode_head(&row).filter(|head| !head.is_located()) else { continue };
            if let Err(error) = read_queue(&row) {
                let bytes = QueueRow::decode(&row).map_or(&*row, |(_, metadata)| metadata).to_vec();
                found.push(Unreadable { queue: queue.clone(), subscription: None, bytes, error });
            }
            let subscriptions = self.stored_state(head.number).map_or(0, |state| state.subscriptions);
            if subscriptions == 0 {
                continue;
            }
            for entry in self.all_of(subscriptions, Part::Subscription)? {
                let (id, record) = entry?;
                let Ok(id) = <[u8; 16]>::try_from(&*id).map(SubscriptionId::from_bytes) else { continue };
                if let Err(error) = decode_subscription(id, &record, 0) {
                    let (queue, subscription) = (queue.clone(), Some(id));
                    found.push(Unreadable { queue, subscription, bytes: record.to_vec(), error });
                }
            }
        }
        Ok(found)
    }
}

impl WriteTransaction<'_> {
    /// Gives a queue whose metadata cannot be read default metadata.
    fn reset_metadata(&mut self, queue: &QueueId) -> Result<Step<()>, Error> {
        let metadata = Metadata::default();
        let row = match self.view.row(queue) {
            Err(Error::Corrupt(_)) => {
                let head = self.view.head_of_row(queue)?;
                if let Some(head) = &head {
                    self.put_registry(&keys::queue(queue), &encode_row(head.number, head.revision, &metadata))?;
                }
                head
            }
            row => row?,
        };
        match row {
            Some(row) => match self.update(queue, row.revision, &metadata)? {
                Step::Again => Ok(Step::Again),
                Step::Done(_) => Ok(Step::Done(())),
            },
            None => Ok(Step::Done(())),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text can be written to");
        text
    })
}
