//! The requests that are measured, at the largest sizes that the limits allow.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::cases::{self, Action, LARGE};
use super::stage::Stage;
use crate::Length;

/// One row of the table.
pub(crate) struct Request {
    /// The name for `--only`.
    pub(crate) name: &'static str,
    /// The description in the table.
    pub(crate) description: &'static str,
    /// Fills the store, with less if the run is not full, and returns the requests.
    pub(crate) prepare: for<'a> fn(&'a Stage, Length) -> BoxFuture<'a, Action>,
}

/// All requests.
pub(crate) const REQUESTS: [Request; 22] = [
    Request {
        name: "list-own-large",
        description: "list with `echo=false` over 520 own messages of 250 KB",
        prepare: |stage, _| cases::list_beside_own(stage, 520, LARGE).boxed(),
    },
    Request {
        name: "list-own-many",
        description: "list with `echo=false` over 500,000 own messages",
        prepare: |stage, length| cases::list_beside_own(stage, part(length, 500_000), 1).boxed(),
    },
    Request {
        name: "list-large",
        description: "list of 20 messages of 250 KB",
        prepare: |stage, _| cases::list_large(stage, 100).boxed(),
    },
    Request {
        name: "claim-large",
        description: "claim of 20 messages of 250 KB",
        prepare: |stage, _| cases::claim_large(stage, 100).boxed(),
    },
    Request {
        name: "pop-large",
        description: "pop of 20 messages of 250 KB",
        prepare: |stage, _| cases::pop_large(stage, 100).boxed(),
    },
    Request {
        name: "post-many",
        description: "post of 1,000 tiny messages",
        prepare: |stage, _| cases::post_many(stage).boxed(),
    },
    Request {
        name: "post-tenants",
        description: "post of 1,000 messages for 64 tenants of a fair queue, each with 4 shards",
        prepare: |stage, _| cases::post_tenants(stage, 4).boxed(),
    },
    Request {
        name: "post-shards",
        description: "post of 1,000 messages for 64 tenants of a fair queue, each with 1,024 shards",
        prepare: |stage, _| cases::post_tenants(stage, 1_024).boxed(),
    },
    Request {
        name: "post-delayed",
        description: "post to a queue in which 300,000 delayed messages are due",
        prepare: |stage, length| cases::post_beside_delayed(stage, part(length, 300_000)).boxed(),
    },
    Request {
        name: "expired-dense",
        description: "list of a queue in which 50,000 messages with ranks next to each other have expired",
        prepare: |stage, length| cases::list_beside_dense(stage, part(length, 50_000)).boxed(),
    },
    Request {
        name: "queues",
        description: "list of 200,000 queues with a filter that matches none",
        prepare: |stage, length| cases::list_queues(stage, part(length, 200_000)).boxed(),
    },
    Request {
        name: "wait-own",
        description: "100 own posts beside a waiting list with `echo=false` and 50,000 own messages",
        prepare: |stage, _| cases::wait_beside_own(stage, 50_000, 100).boxed(),
    },
    Request {
        name: "stats",
        description: "detailed statistics of 1,024 busy shards",
        prepare: |stage, _| cases::stats_of_shards(stage).boxed(),
    },
    Request {
        name: "expired",
        description: "posts to two fair queues with 300,000 expired messages each",
        prepare: |stage, length| cases::post_beside_expired(stage, part(length, 300_000)).boxed(),
    },
    Request {
        name: "delete-queue",
        description: "deletion of a fair queue with 1,000,000 messages",
        prepare: |stage, length| cases::delete_queue(stage, part(length, 1_000_000)).boxed(),
    },
    Request {
        name: "purge",
        description: "purge of a fair queue with 1,000,000 messages",
        prepare: |stage, length| cases::purge(stage, part(length, 1_000_000)).boxed(),
    },
    Request {
        name: "ended-claims",
        description: "claim when 1,000 claims of one message have just ended",
        prepare: |stage, _| cases::claim_after_ended(stage, 1_000).boxed(),
    },
    Request {
        name: "release",
        description: "release of a claim of 20 messages in a fair queue of 1,024 shards",
        prepare: |stage, _| cases::release(stage).boxed(),
    },
    Request {
        name: "bulk-get",
        description: "get of 20 messages of 250 KB by their ids",
        prepare: |stage, _| cases::bulk_get(stage).boxed(),
    },
    Request {
        name: "bulk-delete",
        description: "deletion of 20 messages of 250 KB by their ids",
        prepare: |stage, _| cases::bulk_delete(stage).boxed(),
    },
    Request {
        name: "dead-letters",
        description: "claim that moves 20 dead letters of 250 KB",
        prepare: |stage, _| cases::move_dead_letters(stage).boxed(),
    },
    Request {
        name: "redrive",
        description: "redrive of 20,000 dead letters, until it is done",
        prepare: |stage, length| cases::redrive(stage, part(length, 20_000), 1).boxed(),
    },
];

/// Returns a part of the count if the run is not full.
fn part(length: Length, count: usize) -> usize {
    count / length.choose(1, 10, 100)
}
