//! Posts messages: checks them against the queue's metadata, and stores all of them or none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::auth::{Caller, Client};
use crate::broker::access::{AdmittedStore, require_client};
use crate::broker::quotas::PostLimits;
use crate::broker::range::check_range;
use crate::broker::{Action, Broker, Error};
use sukkal_domain::limits::MESSAGE_TTL_S_MIN;
use sukkal_domain::{
    Body, ClientId, Durability, IdempotencyKey, MessageId, Metadata, NewMessage, Origin, Queue, QueueId, QueueKind,
    ShardAssignment, Sharding, Tenant, TraceContext, Warning, WithWarnings,
};
use sukkal_storage::{Post, PostOutcome, Weight};

/// Maximum number of attempts of a post whose queue changes at the same time.
const ATTEMPTS_MAX: usize = 32;
/// Maximum number of tenants that one request to a fair queue may name.
const TENANTS_PER_POST_MAX: usize = 64;

/// A message as its poster describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Time to live in seconds; `None` for the queue's default.
    pub ttl_s: Option<i64>,
    /// The time before the message becomes available.
    pub delay: Delay,
    /// The tenant that the message belongs to.
    pub tenant: TenantDraft,
    /// The content of the message.
    pub body: Body,
}

/// The delay that a poster names. Only queues that delay messages check it, so it may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// The queue's default.
    #[default]
    Unset,
    /// This number of seconds.
    Seconds(i64),
    /// A value that is not an integer.
    Malformed,
}

/// The tenant that a poster names. Only fair queues check it, so it may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TenantDraft {
    /// The client that posts.
    #[default]
    Unset,
    /// This tenant.
    Named(Tenant),
    /// A value that is not a tenant.
    Malformed,
}

/// A request to post messages.
#[derive(Clone, Debug, PartialEq)]
pub struct PostRequest {
    /// The messages.
    pub drafts: Vec<Draft>,
    /// Size of the request in bytes, which a queue may limit.
    pub bytes: u64,
    /// The key by which the store recognizes a repetition of the request.
    pub idempotency: Option<IdempotencyKey>,
    /// The trace context of the request.
    pub trace: Option<TraceContext>,
    /// If the message is the dead letter of a subscription: its origin, and the time at which its
    /// age begins, in seconds since 1970.
    pub origin: Option<Box<(Origin, u64)>>,
    /// The durability that the client requires.
    pub durability: Option<Durability>,
}

/// Messages that were posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The ids of the messages, in the order of the request.
    pub ids: Vec<MessageId>,
    /// The durability that they have reached; `None` if none was required.
    pub durability: Option<Durability>,
}

impl Broker {
    /// Posts all the messages or none, and creates the queue if it does not exist. If the request
    /// or the queue requires a durability, the messages have reached it.
    pub async fn post_messages(
        &self,
        caller: &Caller,
        queue: QueueId,
        request: PostRequest,
    ) -> Result<WithWarnings<Posted>, Error> {
        let client = require_client(caller)?;
        let access = self.store.authorize(caller, Action::PostMessages, &queue)?;
        let (count, max) = (request.drafts.len(), self.limits.max_messages_per_post);
        if !(1..=max as usize).contains(&count) {
            return Err(Error::Limit(format!("the request has {count} messages; it must have between 1 and {max}")));
        }
        let bodies = request.drafts.iter().map(|draft| &draft.body);
        let limits =
            self.post_limits(caller, queue.project(), bodies, request.trace, request.idempotency.is_some()).await?;
        // A queue at its last known revision takes one operation, which a store completes by
        // itself.
        let mut store = access.admit_weighted(Weight::of_messages(count)).await?;
        let known = self.known_queues.get(&queue);
        if let Some(known) = &known
            && let Ok(messages) = self.prepare(client, &queue, &known.metadata, &request)
        {
            match self.try_to_post(&mut store, client, &queue, known, &messages, (&request, &limits)).await? {
                PostOutcome::Posted(ids) => {
                    return Ok(posted(queue.name().kind(), ids, &known.metadata, &request, &messages));
                }
                PostOutcome::Stale(_) => {}
                PostOutcome::Full(quota) => return Err(limits.exceeded(quota)),
                PostOutcome::KeyReused => return Err(Error::OtherContent),
            }
        }
        let this = self.clone();
        let caller = caller.clone();
        self.run_to_completion(async move {
            this.post_at_current_revision(store, &caller, queue, (&request, &limits)).await
        })
        .await
    }

    /// Posts to a queue that has changed since its last known revision, or is not known yet.
    async fn post_at_current_revision(
        &self,
        mut store: AdmittedStore,
        caller: &Caller,
        queue: QueueId,
        (request, limits): (&PostRequest, &PostLimits),
    ) -> Result<WithWarnings<Posted>, Error> {
        let client = require_client(caller)?;
        let mut known = store.get_queue(&queue).await?;
        let unset = Metadata::default();
        for _ in 0..ATTEMPTS_MAX {
            let metadata = known.as_ref().map_or(&unset, |queue| &queue.metadata);
            // Before the queue is created, because a refused request changes nothing.
            let messages = self.prepare(client, &queue, metadata, request)?;
            let Some(current) = known else {
                limits.check_new_queue(&messages, request.trace)?;
                self.check_new_queue(caller, &store, &queue).await?;
                match required_durability(metadata, request) {
                    Some(level) => store.create_queue_for(&queue, level).await?,
                    None => store.create_queue(&queue, &unset).await?,
                };
                known = store.get_queue(&queue).await?;
                continue;
            };
            match self.try_to_post(&mut store, client, &queue, &current, &messages, (request, limits)).await? {
                PostOutcome::Posted(ids) => {
                    let posted = posted(queue.name().kind(), ids, &current.metadata, request, &messages);
                    self.known_queues.insert(queue, Arc::new(current));
                    return Ok(posted);
                }
                PostOutcome::Stale(now) => known = now,
                PostOutcome::Full(quota) => return Err(limits.exceeded(quota)),
                PostOutcome::KeyReused => return Err(Error::OtherContent),
            }
        }
        Err(sukkal_storage::Error::Unavailable(format!("queue {queue} changes too often")).into())
    }

    async fn try_to_post(
        &self,
        store: &mut AdmittedStore,
        client: &Client,
        queue: &QueueId,
        known: &Queue,
        messages: &[NewMessage],
        (request, limits): (&PostRequest, &PostLimits),
    ) -> Result<PostOutcome, Error> {
        let idempotency =
            request.idempotency.as_ref().map(|idempotency| (idempotency, self.limits.idempotency_key_ttl));
        let wait_max = Duration::from_secs(self.limits.max_durability_wait.into());
        let durability = required_durability(&known.metadata, request).map(|level| (level, wait_max));
        if durability.is_some() {
            // Replicas may be slow, and other operations do not wait for them.
            store.release_permit();
        }
        let (last_known_revision, client) = (known.revision, &client.id);
        let (trace, origin, limits) = (request.trace, request.origin.as_deref(), limits.queue);
        let post = Post { last_known_revision, client, messages, trace, origin, limits, idempotency, durability };
        Ok(store.post_messages(queue, &post).await?)
    }

    /// Returns the messages as a queue with this metadata stores them.
    fn prepare(
        &self,
        client: &Client,
        queue: &QueueId,
        metadata: &Metadata,
        request: &PostRequest,
    ) -> Result<Vec<NewMessage>, Error> {
        let mut messages = self.check_drafts(metadata, request)?;
        if let Some(sharding) = metadata.sharding() {
            assign_shards(sharding, &client.id, &request.drafts, &mut messages)?;
        }
        self.encryption.encrypt(queue, metadata, messages)
    }

    /// Checks the messages against the metadata of their queue, and fills in its defaults.
    fn check_drafts(&self, metadata: &Metadata, request: &PostRequest) -> Result<Vec<NewMessage>, Error> {
        let (bytes, max) = (request.bytes, metadata.post_bytes_max(&self.limits));
        if bytes > max {
            return Err(Error::Limit(format!("the request has {bytes} bytes; at most {max} are allowed")));
        }
        let default_ttl_s = metadata.default_message_ttl_s(&self.limits);
        let default_delay_s = metadata.default_message_delay_s();
        if default_delay_s.is_some() && request.drafts.iter().any(|draft| draft.delay == Delay::Malformed) {
            return Err(Error::DelayType);
        }
        let life_follows_delay = metadata.life_follows_delay();
        let check = |draft: &Draft| {
            let ttl_s = match draft.ttl_s {
                Some(ttl) => check_range("ttl", ttl, MESSAGE_TTL_S_MIN, self.limits.max_message_ttl)?,
                None => default_ttl_s,
            };
            let delay_s = match (default_delay_s, draft.delay) {
                (Some(_), Delay::Seconds(delay)) => check_range("delay", delay, 0, self.limits.max_message_delay)
                    .map_err(|error| {
                        Error::Limit(format!("{error}, which the operator sets with max_message_delay"))
                    })?,
                (default, _) => default.unwrap_or(0),
            };
            // A message lives from its post on, so a life that follows the delay includes it.
            let ttl_s = if life_follows_delay { ttl_s.saturating_add(delay_s) } else { ttl_s };
            Ok(NewMessage { ttl_s, delay_s, body: draft.body.clone(), assignment: None })
        };
        request.drafts.iter().map(check).collect()
    }
}

/// Gives each message the shard assignment of its tenant, which is the client if the draft names
/// none.
fn assign_shards(
    sharding: Sharding,
    client: &ClientId,
    drafts: &[Draft],
    messages: &mut [NewMessage],
) -> Result<(), Error> {
    let unnamed = Tenant::of_client(client);
    let tenant_of = |draft: &Draft| match &draft.tenant {
        TenantDraft::Unset => Ok(unnamed.clone()),
        TenantDraft::Named(tenant) => Ok(tenant.clone()),
        TenantDraft::Malformed => Err(Error::TenantType),
    };
    let tenants: Vec<Tenant> = drafts.iter().map(tenant_of).collect::<Result<_, _>>()?;
    let count = tenants.iter().collect::<HashSet<_>>().len();
    if count > TENANTS_PER_POST_MAX {
        return Err(Error::Limit(format!(
            "the request names {count} tenants; in a fair queue it may name at most {TENANTS_PER_POST_MAX}"
        )));
    }
    let mut assignments: HashMap<&Tenant, Arc<ShardAssignment>> = HashMap::new();
    for (tenant, message) in tenants.iter().zip(messages) {
        message.assignment =
            Some(assignments.entry(tenant).or_insert_with(|| Arc::new(sharding.assign(tenant))).clone());
    }
    Ok(())
}

/// Returns the durability that the request and the queue require together. A request cannot require
/// less than its queue.
fn required_durability(metadata: &Metadata, request: &PostRequest) -> Option<Durability> {
    match (request.durability, metadata.durability()) {
        (Some(of_request), Some(of_queue)) => Some(of_request.and(of_queue)),
        (of_request, of_queue) => of_request.or(of_queue),
    }
}

/// Returns the result of a post, with warnings if the request names delays or tenants that the
/// queue ignores, or if a message expires before its delay ends. A delay of 0 does not count.
fn posted(
    kind: QueueKind,
    ids: Vec<MessageId>,
    metadata: &Metadata,
    request: &PostRequest,
    messages: &[NewMessage],
) -> WithWarnings<Posted> {
    let names_delay = |draft: &Draft| !matches!(draft.delay, Delay::Unset | Delay::Seconds(0));
    let names_tenant = |draft: &Draft| !matches!(draft.tenant, TenantDraft::Unset);
    let is_delay_ignored = metadata.default_message_delay_s().is_none() && request.drafts.iter().any(names_delay);
    let has_shards = kind == QueueKind::Queue && metadata.sharding().is_some();
    let is_tenant_ignored = !has_shards && request.drafts.iter().any(names_tenant);
    let value = Posted { ids, durability: required_durability(metadata, request) };
    let delay = is_delay_ignored.then_some(Warning::DelayIgnored);
    let tenant = is_tenant_ignored.then_some(match kind {
        QueueKind::Queue => Warning::TenantIgnored,
        QueueKind::Topic => Warning::NotInTopics("tenant"),
    });
    let expires_delayed = messages.iter().any(|message| message.delay_s > 0 && message.delay_s >= message.ttl_s);
    let expired = expires_delayed.then_some(Warning::ExpiresDelayed);
    WithWarnings { value, warnings: delay.into_iter().chain(tenant).chain(expired).collect() }
}
