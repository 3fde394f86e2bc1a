//! The second step of a pop, which deletes its messages. Pops of a queue that come to it while its
//! script is in flight are completed together by the next script.

use std::collections::HashSet;
use std::sync::Arc;

use ahash::HashMap;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::arguments;
use super::connection::Connection;
use super::keys::QueueKeys;
use super::script::POP_COMPLETE;
use crate::Error;
use sukkal_domain::{ClaimId, QueueId};

/// Maximum number of pops that one script completes.
const POPS_MAX: usize = 32;

/// The pops of this process that are not complete. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Pops(Arc<Mutex<PopState>>);

#[derive(Default)]
struct PopState {
    /// Pops that were sent more than once, so that they may arrive again.
    repeated: HashSet<ClaimId>,
    /// Queues with a task that completes their pops.
    tasks: HashMap<QueueId, UnboundedSender<Pop>>,
}

/// A pop that waits for a script, and who waits for the pop.
struct Pop {
    id: ClaimId,
    outcome: oneshot::Sender<Result<(), Error>>,
}

impl Pops {
    /// Notes that a pop was sent more than once.
    pub(super) fn note_repeated(&self, pop: ClaimId) {
        self.0.lock().repeated.insert(pop);
    }

    /// Forgets a pop that has been withdrawn.
    pub(super) fn forget(&self, pop: ClaimId) {
        self.0.lock().repeated.remove(&pop);
    }

    /// Deletes the messages of a pop, even if the caller is dropped. It must not be called again
    /// for the same pop before it has returned.
    pub(super) async fn complete(&self, connection: &Connection, queue: &QueueId, pop: ClaimId) -> Result<(), Error> {
        let (outcome, completed) = oneshot::channel();
        if let Some(pops) = self.enqueue(queue, Pop { id: pop, outcome }) {
            tokio::spawn(self.clone().complete_all(connection.clone(), queue.clone(), pops));
        }
        completed.await.unwrap_or_else(|_| Err(Error::Unavailable("other pops could not be completed".to_owned())))
    }

    /// Gives a pop to the task of its queue. If there is none, returns the pops for a new one.
    fn enqueue(&self, queue: &QueueId, pop: Pop) -> Option<UnboundedReceiver<Pop>> {
        let mut state = self.0.lock();
        let pop = match state.tasks.get(queue) {
            Some(task) => task.send(pop).err()?.0,
            None => pop,
        };
        let (task, pops) = unbounded_channel();
        task.send(pop).ok()?;
        state.tasks.insert(queue.clone(), task);
        Some(pops)
    }

    /// Completes the pops of a queue until none waits. After an error, the pops that wait fail too,
    /// because they would wait for the same store.
    async fn complete_all(self, connection: Connection, queue: QueueId, mut pops: UnboundedReceiver<Pop>) {
        let mut batch = Vec::new();
        while self.fill(&mut batch, &queue, &mut pops) {
            match self.run(&connection, &queue, &batch).await {
                Ok(count) => batch.drain(..count).for_each(|pop| pop.end(Ok(()))),
                Err(error) => {
                    self.0.lock().tasks.remove(&queue);
                    return batch.into_iter().for_each(|pop| pop.end(Err(error.clone())));
                }
            }
        }
    }

    /// Adds the pops that wait to those of the next script. Returns whether there are any; if not,
    /// the task must end.
    fn fill(&self, batch: &mut Vec<Pop>, queue: &QueueId, pops: &mut UnboundedReceiver<Pop>) -> bool {
        let mut state = self.0.lock();
        while batch.len() < POPS_MAX
            && let Ok(pop) = pops.try_recv()
        {
            batch.push(pop);
        }
        if batch.is_empty() {
            state.tasks.remove(queue);
        }
        !batch.is_empty()
    }

    /// Returns the number of pops that the script has completed, which are the first ones.
    async fn run(&self, connection: &Connection, queue: &QueueId, pops: &[Pop]) -> Result<usize, Error> {
        let args: Vec<Bytes> = {
            let repeated = &self.0.lock().repeated;
            let flag = |id| Bytes::from_static(if repeated.contains(id) { b"repeated" } else { b"" });
            pops.iter().flat_map(|Pop { id, .. }| [arguments::claim(*id), flag(id)]).collect()
        };
        let mut reply = connection.run(&POP_COMPLETE, &QueueKeys::of(queue), &args).await?;
        let count = usize::try_from(reply.number()?).unwrap_or(usize::MAX).min(pops.len());
        let repeated = &mut self.0.lock().repeated;
        pops[..count].iter().for_each(|pop| _ = repeated.remove(&pop.id));
        Ok(count)
    }
}

impl Pop {
    fn end(self, outcome: Result<(), Error>) {
        // The caller may have been dropped.
        _ = self.outcome.send(outcome);
    }
}
