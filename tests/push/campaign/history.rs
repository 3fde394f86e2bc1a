//! What a campaign records: each request that the endpoint has received, and each disturbance.
//! Times are microseconds since the start of the campaign.

use std::io::{self, Write};

use super::fleet::pool_of;
use support::timeline::Moment;

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) subscriptions: Vec<Subscriber>,
    /// For each queue the id of each message, in the order of the feed.
    pub(super) posted: Vec<Vec<String>>,
    /// In the order in which they were received.
    pub(super) requests: Vec<Request>,
    pub(super) disturbances: Vec<Disturbance>,
}

/// A subscription. Its number is its place in the history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subscriber {
    pub(super) queue: usize,
    pub(super) is_ordered: bool,
}

/// A request that the endpoint has received.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) subscription: usize,
    /// The number of the message in the feed of its queue, from 0.
    pub(super) message: usize,
    pub(super) message_id: String,
    pub(super) received: u64,
    /// When it was answered or its connection was closed; absent if the client closed it first.
    pub(super) ended: Option<u64>,
    /// The status of the answer, if there was one.
    pub(super) status: Option<u16>,
}

/// Something that the campaign has done to the servers or the store, from its begin to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disturbance {
    pub(super) kind: DisturbanceKind,
    pub(super) affected: Affected,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The queues that a disturbance affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Affected {
    All,
    /// The queues of a pool.
    Pool(usize),
    Queue(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DisturbanceKind {
    /// One or all processes were killed.
    Kill,
    /// The store was down, or the queue moved to another one.
    Outage,
    /// A process was told to stop, and has handed over its work.
    Stop,
}

impl Request {
    /// Returns when the endpoint has acknowledged the message, if it has.
    pub(super) fn acknowledged(&self) -> Option<u64> {
        self.ended.filter(|_| self.status.is_some_and(|status| (200..300).contains(&status)))
    }
}

impl History {
    /// Returns the outages that affected a queue.
    pub(super) fn outages(&self, queue: usize) -> impl Iterator<Item = &Disturbance> {
        let outages = self.of_kind(DisturbanceKind::Outage);
        outages.filter(move |outage| match outage.affected {
            Affected::All => true,
            Affected::Pool(pool) => pool == pool_of(queue),
            Affected::Queue(moved) => moved == queue,
        })
    }

    /// Returns the disturbances of one kind.
    pub(super) fn of_kind(&self, kind: DisturbanceKind) -> impl Iterator<Item = &Disturbance> + Clone {
        self.disturbances.iter().filter(move |disturbance| disturbance.kind == kind)
    }

    pub(super) fn dump(&self, to: &mut impl Write) -> io::Result<()> {
        for (number, subscriber) in self.subscriptions.iter().enumerate() {
            let order = if subscriber.is_ordered { "ordered" } else { "unordered" };
            writeln!(to, "subscription {number}: queue {}, {order}", subscriber.queue)?;
        }
        for Disturbance { kind, affected, from, to: until } in &self.disturbances {
            writeln!(to, "{} to {} {kind:?} {affected:?}", Moment(*from), Moment(*until))?;
        }
        for request in &self.requests {
            let Request { subscription, message, message_id, received, ended, status } = request;
            let (received, ended) = (Moment(*received), ended.map_or("never".to_owned(), |at| Moment(at).to_string()));
            writeln!(to, "{received} to {ended}: {subscription} gets {message} ({message_id}): {status:?}")?;
        }
        Ok(())
    }
}
