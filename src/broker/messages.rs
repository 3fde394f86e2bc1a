//! Operations on messages.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::taken::{Taken, WayBack};
use super::{Admitted, Broker, Error, check_range};
use crate::auth::Caller;
use crate::domain::limits::MESSAGE_TTL_S_MIN;
use crate::domain::{
    Body, ClaimId, ClientId, Lot, Message, MessageId, Metadata, NewMessage, Once, QueueId, Rank, Revision, Sharding,
    Tenant, Warned, Warning,
};
use crate::storage::{self, Deletion, GivenClaim, Listing, Page, Post, Posting, Scope};

/// How often a post follows a queue that changes under it.
const TRIES_MAX: usize = 32;
/// Maximum number of tenants that one request to a fair queue may name.
const TENANTS_PER_POST_MAX: usize = 64;

/// A message as its poster describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// How long it shall live, in seconds; the queue's default without it.
    pub ttl_s: Option<i64>,
    /// How long it shall be kept from everybody first.
    pub delay: Delay,
    /// Whom it is for.
    pub tenant: TenantDraft,
    /// What it says.
    pub body: Body,
}

/// A delay as a poster names it. Only queues that delay messages look at it, so it may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// The queue's default.
    #[default]
    Unset,
    /// So many seconds.
    Seconds(i64),
    /// Something that is no integer.
    Malformed,
}

/// A tenant as a poster names it. Only fair queues look at it, so it may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TenantDraft {
    /// The client that posts.
    #[default]
    Unset,
    /// That one.
    Named(Tenant),
    /// Something that is no tenant.
    Malformed,
}

/// A request that posts.
#[derive(Clone, Debug, PartialEq)]
pub struct PostRequest {
    /// What is posted.
    pub drafts: Vec<Draft>,
    /// The size of the request that brought it, in bytes, which queues may limit.
    pub bytes: u64,
    /// By what it knows itself again, if it is to happen once.
    pub once: Option<Once>,
}

/// Which messages of a feed to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageQuery {
    /// Only messages behind the one with this id, whether that is still there or not.
    pub marker: Option<String>,
    /// Only messages that are posted from then on.
    pub since: Option<Since>,
    /// How long to wait for a message where there is none, in seconds.
    pub wait_s: Option<i64>,
    /// How many; the service's default without it.
    pub limit: Option<i64>,
    /// Whether the caller's own messages are listed too.
    pub echo: bool,
    /// Which messages are listed beside the free ones.
    pub scope: Scope,
}

/// A time to start reading at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The moment at which the store is asked.
    Now,
    /// The first position that is not before this time: in microseconds since 1970.
    Time(u64),
}

/// Where reading starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Oldest,
    Behind(Rank),
    Now,
}

/// A page of a feed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// The page.
    pub page: Page,
    /// The position that it goes up to; none where it stands before the oldest message.
    pub position: Option<Rank>,
}

impl Start {
    /// The position behind which reading starts; `None` for the oldest message.
    pub(super) async fn position(self, store: &Admitted, queue: &QueueId) -> Result<Option<Rank>, Error> {
        Ok(match self {
            Self::Oldest => None,
            Self::Behind(rank) => Some(rank),
            Self::Now => Some(store.sight(queue).await?.position()),
        })
    }
}

impl MessageQuery {
    /// Where reading starts; `None` for behind something that is no id of this queue.
    pub(super) fn start(&self, queue: &QueueId) -> Result<Option<Start>, Error> {
        match (&self.marker, self.since) {
            (Some(_), Some(_)) => {
                Err(Error::Limit("\"marker\" and \"since\" cannot be combined; give one of them".to_owned()))
            }
            (Some(marker), None) => Ok(MessageId::parse(marker, queue).map(|id| Start::Behind(id.rank()))),
            (None, Some(Since::Now)) => Ok(Some(Start::Now)),
            (None, Some(Since::Time(0)) | None) => Ok(Some(Start::Oldest)),
            (None, Some(Since::Time(time_us))) => Ok(Some(Start::Behind(Rank::new(time_us - 1).unwrap_or(Rank::MAX)))),
        }
    }
}

impl Broker {
    /// Posts all the messages or none, creating the queue if need be.
    pub async fn post_messages(
        &self,
        caller: &Caller,
        queue: QueueId,
        request: PostRequest,
    ) -> Result<Warned<Vec<MessageId>>, Error> {
        let (count, most) = (request.drafts.len(), self.limits.max_messages_per_post);
        if !(1..=most as usize).contains(&count) {
            return Err(Error::Limit(format!("the request has {count} messages; it must have between 1 and {most}")));
        }
        // A queue that is as it was last seen takes one step, which a store does to its end by itself.
        let store = self.admitted(&queue).await?;
        let seen = self.seen.get(&queue);
        if let Some(known) = &seen
            && let Ok(messages) = self.prepare(caller, &queue, &known.metadata, &request)
        {
            match self.try_to_post(&store, caller, &queue, known.revision, &messages, &request).await? {
                Posting::Posted(ids) => return Ok(warned(ids, &known.metadata, &request)),
                Posting::Stale(_) => {}
                Posting::OtherContent => return Err(Error::OtherContent),
            }
        }
        let this = self.clone();
        let caller = caller.clone();
        self.to_the_end(async move { this.post_until_known(&store, &caller, queue, &request).await }).await
    }

    /// Posts to a queue that has changed since it was last seen, or was not seen before.
    async fn post_until_known(
        &self,
        store: &Admitted,
        caller: &Caller,
        queue: QueueId,
        request: &PostRequest,
    ) -> Result<Warned<Vec<MessageId>>, Error> {
        let mut known = store.get_queue(&queue).await?;
        let unset = Metadata::default();
        for _ in 0..TRIES_MAX {
            let metadata = known.as_ref().map_or(&unset, |queue| &queue.metadata);
            // Before the queue is created: a refused request changes nothing.
            let messages = self.prepare(caller, &queue, metadata, request)?;
            let Some(current) = known else {
                store.create_queue(&queue, &unset).await?;
                known = store.get_queue(&queue).await?;
                continue;
            };
            match self.try_to_post(store, caller, &queue, current.revision, &messages, request).await? {
                Posting::Posted(ids) => {
                    let posted = warned(ids, &current.metadata, request);
                    self.seen.insert(queue, Arc::new(current));
                    return Ok(posted);
                }
                Posting::Stale(now) => known = now,
                Posting::OtherContent => return Err(Error::OtherContent),
            }
        }
        Err(storage::Error::Unavailable(format!("queue {queue} changes too often")).into())
    }

    async fn try_to_post(
        &self,
        store: &Admitted,
        caller: &Caller,
        queue: &QueueId,
        seen: Revision,
        messages: &[NewMessage],
        request: &PostRequest,
    ) -> Result<Posting, Error> {
        let once = request.once.as_ref().map(|once| (once, self.limits.idempotency_key_ttl));
        Ok(store.post_messages(queue, &Post { seen, client: &caller.client, messages, once }).await?)
    }

    /// A page of the feed. Empty only if none that the query lets through is left, and none turns up while the caller
    /// waits.
    pub async fn list_messages(&self, caller: &Caller, queue: &QueueId, query: &MessageQuery) -> Result<Listed, Error> {
        let limit = self.admit_page(query.limit)?;
        let wait = self.admit_wait(query.wait_s)?;
        // Nothing stands behind what is no id of this queue.
        let Some(start) = query.start(queue)? else {
            return Ok(Listed::default());
        };
        let store = self.admitted(queue).await?;
        let after = start.position(&store, queue).await?;
        let listing =
            Listing { after, limit, not_from: (!query.echo).then(|| caller.client.clone()), scope: query.scope };
        let page = if wait.is_zero() {
            store.list_messages(queue, &listing).await?
        } else {
            drop(store);
            self.look_until(queue, &listing, Instant::now() + wait).await?
        };
        let page = self.sealing.open_page(queue, page)?;
        let position = page.messages.last().map(|message| message.id.rank()).or(after);
        Ok(Listed { page, position })
    }

    /// How many messages a page has at most.
    pub(super) fn admit_page(&self, limit: Option<i64>) -> Result<usize, Error> {
        let limit = match limit {
            Some(limit) => check_range("limit", limit, 1, self.limits.max_messages_per_page)?,
            None => self.limits.messages_per_page(),
        };
        Ok(limit as usize)
    }

    /// The message with that id.
    pub async fn get_message(&self, queue: &QueueId, id: &str) -> Result<Message, Error> {
        let ids: Vec<MessageId> = MessageId::parse(id, queue).into_iter().collect();
        let found = self.find_messages(queue, &ids).await?;
        found.into_iter().next().ok_or_else(|| no_message(queue, &[id.to_owned()]))
    }

    /// The messages with those ids, in the order and as often as asked for; those that are not
    /// there are passed over, if there is one at least.
    pub async fn get_messages(&self, queue: &QueueId, ids: &[String]) -> Result<Vec<Message>, Error> {
        let wanted = self.parse_ids(queue, ids)?;
        let mut unique = wanted.clone();
        unique.sort_unstable();
        unique.dedup();
        let found = self.find_messages(queue, &unique).await?;
        let found: HashMap<MessageId, Message> = found.into_iter().map(|message| (message.id, message)).collect();
        if found.is_empty() {
            return Err(no_message(queue, ids));
        }
        Ok(wanted.iter().filter_map(|id| found.get(id).cloned()).collect())
    }

    async fn find_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<Vec<Message>, Error> {
        if ids.is_empty() {
            self.ping_for(queue).await?;
            return Ok(Vec::new());
        }
        self.sealing.open_all(queue, self.admitted(queue).await?.get_messages(queue, ids).await?)
    }

    /// Deletes the message with that id, if it is there: a claimed one by its claim, a free one by none.
    pub async fn delete_message(&self, queue: QueueId, id: &str, claim: Option<&str>) -> Result<(), Error> {
        let Some(id) = MessageId::parse(id, &queue) else {
            return self.ping_for(&queue).await;
        };
        let claim = claim.map(|claim| ClaimId::parse(claim).map_or(GivenClaim::Malformed, GivenClaim::Id));
        let store = self.admitted(&queue).await?;
        let deletion = self.to_the_end(async move { store.delete_message(&queue, id, claim).await }).await?;
        outcome(deletion)
    }

    /// Hands out the messages that are next and deletes them in the same step; waits so long for some, in seconds.
    pub async fn pop_messages(
        &self,
        queue: QueueId,
        count: i64,
        wait_s: Option<i64>,
    ) -> Result<Taken<Vec<Message>>, Error> {
        let limit = check_range("pop", count, 1, self.limits.max_messages_per_claim_or_pop)?;
        let wait = self.admit_wait(wait_s)?;
        let look = |store| {
            let (this, queue) = (self.clone(), queue.clone());
            self.to_the_end(async move { this.pop_once(&store, &queue, limit as usize, !wait.is_zero()).await })
        };
        let popped = self.look_in_turn(&queue, wait, look).await?;
        Ok(popped.unwrap_or_else(|| Taken { value: Vec::new(), way_back: WayBack::none() }))
    }

    async fn pop_once(
        &self,
        store: &Admitted,
        queue: &QueueId,
        limit: usize,
        may_go_back: bool,
    ) -> Result<Option<Taken<Vec<Message>>>, Error> {
        let limit = self.look_ahead(store, queue, limit).await?;
        let popped = store.pop_messages(queue, limit).await?;
        if popped.is_empty() {
            return Ok(None);
        }
        let copy = popped.clone();
        let value = self.open_popped(queue, popped).await?;
        // What was opened is in its order.
        let mut left = value.iter().map(|message| message.id).peekable();
        let opened = copy.into_iter().filter(|popped| left.next_if_eq(&popped.message.id).is_some());
        let way_back = if may_go_back {
            WayBack::of_popped(self, queue, opened.collect())
        } else {
            self.metrics.picked_up(opened.filter_map(|popped| popped.waited));
            WayBack::none()
        };
        Ok(Some(Taken { value, way_back }))
    }

    /// Deletes those of the messages with these ids that are there. Where the operator wants it so,
    /// each must be under one of the claims, or nothing is deleted; else the claims do not matter.
    pub async fn delete_messages(&self, queue: QueueId, ids: &[String], claims: &[String]) -> Result<(), Error> {
        let ids = self.parse_ids(&queue, ids)?;
        let takes_claims = self.limits.message_delete_with_claim_id;
        if takes_claims && claims.is_empty() {
            return Err(Error::Limit(
                "this server deletes \"ids\" only with \"claim_ids\"; name the claims of the messages".to_owned(),
            ));
        }
        if ids.is_empty() {
            return self.ping_for(&queue).await;
        }
        let store = self.admitted(&queue).await?;
        if !takes_claims {
            return self.to_the_end(async move { Ok(store.delete_messages(&queue, &ids).await?) }).await;
        }
        let claims: Vec<ClaimId> = claims.iter().filter_map(|claim| ClaimId::parse(claim)).collect();
        outcome(self.to_the_end(async move { store.delete_claimed(&queue, &ids, &claims).await }).await?)
    }

    /// The messages as they are stored in a queue with this metadata.
    fn prepare(
        &self,
        caller: &Caller,
        queue: &QueueId,
        metadata: &Metadata,
        request: &PostRequest,
    ) -> Result<Vec<NewMessage>, Error> {
        let mut messages = self.admit(metadata, request)?;
        if let Some(sharding) = metadata.sharding() {
            draw_lots(sharding, &caller.client, &request.drafts, &mut messages)?;
        }
        self.sealing.seal(queue, metadata, messages)
    }

    /// The messages with what a queue with this metadata gives them, if it takes them.
    fn admit(&self, metadata: &Metadata, request: &PostRequest) -> Result<Vec<NewMessage>, Error> {
        let (bytes, most) = (request.bytes, metadata.post_bytes_max(&self.limits));
        if bytes > most {
            return Err(Error::Limit(format!("the request has {bytes} bytes; at most {most} are allowed")));
        }
        let default_ttl_s = metadata.default_message_ttl_s(&self.limits);
        let default_delay_s = metadata.default_message_delay_s();
        if default_delay_s.is_some() && request.drafts.iter().any(|draft| draft.delay == Delay::Malformed) {
            return Err(Error::DelayType);
        }
        let admit = |draft: &Draft| {
            let ttl_s = match draft.ttl_s {
                Some(ttl) => check_range("ttl", ttl, MESSAGE_TTL_S_MIN, self.limits.max_message_ttl)?,
                None => default_ttl_s,
            };
            let delay_s = match (default_delay_s, draft.delay) {
                (Some(_), Delay::Seconds(delay)) => check_range("delay", delay, 0, self.limits.max_message_delay)?,
                (default, _) => default.unwrap_or(0),
            };
            Ok(NewMessage { ttl_s, delay_s, body: draft.body.clone(), lot: None })
        };
        request.drafts.iter().map(admit).collect()
    }

    /// Those of the ids that can be this queue's; others name nothing here.
    fn parse_ids(&self, queue: &QueueId, ids: &[String]) -> Result<Vec<MessageId>, Error> {
        let most = self.limits.max_messages_per_page;
        if ids.is_empty() || ids.len() > most as usize {
            return Err(Error::Limit(format!("\"ids\" has {} ids; it must have between 1 and {most}", ids.len())));
        }
        Ok(ids.iter().filter_map(|id| MessageId::parse(id, queue)).collect())
    }
}

/// Gives each message the lot of its tenant, who is the client unless it names one.
fn draw_lots(
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
    let mut lots: HashMap<&Tenant, Arc<Lot>> = HashMap::new();
    for (tenant, message) in tenants.iter().zip(messages) {
        message.lot = Some(lots.entry(tenant).or_insert_with(|| Arc::new(sharding.draw(tenant))).clone());
    }
    Ok(())
}

/// What was posted to a queue with this metadata, with a warning if delays were named in vain. A delay of 0 is none.
fn warned(ids: Vec<MessageId>, metadata: &Metadata, request: &PostRequest) -> Warned<Vec<MessageId>> {
    let names_delay = |draft: &Draft| !matches!(draft.delay, Delay::Unset | Delay::Seconds(0));
    let is_ignored = metadata.default_message_delay_s().is_none() && request.drafts.iter().any(names_delay);
    Warned { value: ids, warnings: is_ignored.then_some(Warning::DelayIgnored).into_iter().collect() }
}

fn outcome(deletion: Deletion) -> Result<(), Error> {
    match deletion {
        Deletion::Done => Ok(()),
        Deletion::Held | Deletion::HeldByOther => Err(Error::Claimed),
        Deletion::Free => Err(Error::NotClaimed),
        Deletion::UnknownClaim => Err(Error::UnknownClaim),
    }
}

fn no_message(queue: &QueueId, ids: &[String]) -> Error {
    let (name, project) = (queue.name(), queue.project());
    Error::NoMessage(format!(
        "No messages with IDs: ['{}'] found in the queue {name} for project {project}.",
        ids.join("', '")
    ))
}
