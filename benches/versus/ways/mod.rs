//! The HTTP service of Sukkal with other ways to post. The routes and the validation are the same,
//! and only `post_messages` differs. All other operations use the normal store.

mod deliveries;
pub(crate) mod layout;
mod stub;
mod tokens;
mod two_steps;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use sukkal::api::http;
use sukkal::app;
use sukkal::config::Config;
use sukkal::domain::{
    Claim, ClaimId, ClaimSummary, Creation, Durability, Fence, Message, MessageId, Metadata, NewClaim, PoolName,
    ProjectId, Queue, QueueId, QueueKind, QueueName, QuotaOverrides, Redrive, Revision, Stats, Summary, Taken, Task,
    TaskId, Term,
};
use sukkal::storage::redis::{BatchLimits, RedisStore};
use sukkal::storage::{
    Admission, AdmissionControl, Arrival, Catalogue, Check, ClaimOutcome, ClaimStore, DeleteOutcome, DiskUsage, Driver,
    Epoch, Error, LeaseFence, Listing, Load, Maintenance, MeasuredQueues, MessageStore, Monitoring, MovedBatch,
    MovedMessageStore, NameRange, Page, Place, PlacePage, PoolList, PoolStore, PoolsVersion, Popped, Post, PostOutcome,
    PresentedClaim, Processed, ProjectPage, QueueEpoch, QueueListing, QueuePage, QueueStatus, QueueStore, QueueUsage,
    QuotaList, QuotaStore, QuotaVersion, RedriveStep, Schedule, TaskCreation, TaskLeases, TaskStore, UpdateOutcome,
    Watch, WatchStore, Watchers,
};
use tokio::net::TcpListener;
use uuid::Uuid;

/// A way to post.
#[async_trait]
trait Poster: Send + Sync {
    /// Posts messages, like [`MessageStore::post_messages`].
    async fn post(&self, store: &RedisStore, queue: &QueueId, post: &Post<'_>) -> Result<PostOutcome, Error>;
}

/// A store that uses another way to post.
struct StoreVariant<P> {
    store: RedisStore,
    poster: P,
}

/// Serves until the process is killed. Prints the address on stdout.
pub(crate) fn serve(way: &str, store_url: &str) {
    let config = Config::load(None, [], &[]).unwrap();
    app::runtime(&config).unwrap().block_on(serve_with(&config, way, store_url));
}

async fn serve_with(config: &Config, way: &str, store_url: &str) {
    // Logs as the service does by default, and discards the log.
    tracing_subscriber::fmt().json().with_env_filter(&config.log.filter).with_writer(std::io::sink).init();
    let batches = if way == "one-script" { BatchLimits::UNBATCHED } else { BatchLimits::default() };
    let store = RedisStore::open_with(&store_url.parse().unwrap(), batches).unwrap();
    let service = app::service(config, driver(way, store, store_url).await).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let (limits, connections) = (app::server_limits(config), service.metrics.connections());
    http::serve(listener, http::router(service), limits, connections, std::future::pending()).await.await;
}

async fn driver(way: &str, store: RedisStore, url: &str) -> Arc<dyn Driver> {
    match way.split_once(':').unwrap_or((way, "")) {
        ("stub", _) => Arc::new(StoreVariant { store, poster: stub::Stub::default() }),
        ("watch", connections) => {
            let poster = watch::Watch::open(url, connections.parse().unwrap()).await;
            Arc::new(StoreVariant { store, poster })
        }
        ("two-steps", _) => Arc::new(StoreVariant { store, poster: two_steps::TwoSteps::open(url).await }),
        ("one-script" | "group-commit", _) => Arc::new(store),
        _ => panic!("there is no way {way:?}"),
    }
}

impl<P: Poster> AdmissionControl for StoreVariant<P> {
    fn queue_admission(&self, queue: &QueueId) -> Arc<Admission> {
        self.store.queue_admission(queue)
    }

    fn project_admission(&self, project: &ProjectId) -> Arc<Admission> {
        self.store.project_admission(project)
    }

    fn load(&self) -> Load {
        self.store.load()
    }
}

impl<P: Poster> Monitoring for StoreVariant<P> {
    fn processed(&self) -> Processed {
        self.store.processed()
    }

    fn disk_usage(&self) -> Option<DiskUsage> {
        self.store.disk_usage()
    }
}

#[async_trait]
impl<P: Poster> QuotaStore for StoreVariant<P> {
    async fn list_quotas(&self, known: Option<&QuotaVersion>) -> Result<Option<QuotaList>, Error> {
        self.store.list_quotas(known).await
    }

    async fn set_quotas(&self, project: &ProjectId, quotas: &QuotaOverrides) -> Result<(), Error> {
        self.store.set_quotas(project, quotas).await
    }

    async fn measure_queues(
        &self,
        project: &ProjectId,
        after: Option<&QueueName>,
        examined_max: usize,
    ) -> Result<MeasuredQueues, Error> {
        self.store.measure_queues(project, after, examined_max).await
    }

    async fn measure_queue(&self, queue: &QueueId) -> Result<QueueUsage, Error> {
        self.store.measure_queue(queue).await
    }
}

#[async_trait]
impl<P: Poster> Catalogue for StoreVariant<P> {
    async fn find_queue(&self, queue: &QueueId) -> Result<Option<Place>, Error> {
        self.store.find_queue(queue).await
    }

    async fn place_queue(&self, queue: &QueueId, pool: &PoolName) -> Result<Place, Error> {
        self.store.place_queue(queue, pool).await
    }

    async fn replace_place(
        &self,
        queue: &QueueId,
        known: &Place,
        pool: Option<&PoolName>,
        lowest: Epoch,
    ) -> Result<Option<Place>, Error> {
        self.store.replace_place(queue, known, pool, lowest).await
    }

    async fn remove_place(&self, queue: &QueueId, known: &Place, last_number: u64) -> Result<(), Error> {
        self.store.remove_place(queue, known, last_number).await
    }

    async fn list_places(
        &self,
        project: &ProjectId,
        names: &NameRange,
        examined_max: usize,
    ) -> Result<PlacePage, Error> {
        self.store.list_places(project, names, examined_max).await
    }

    async fn announce_place(&self, queue: &QueueId) -> Result<(), Error> {
        self.store.announce_place(queue).await
    }
}

#[async_trait]
impl<P: Poster> PoolStore for StoreVariant<P> {
    async fn load_pools(&self, known: Option<&PoolsVersion>) -> Result<Option<PoolList>, Error> {
        self.store.load_pools(known).await
    }

    async fn replace_pools(&self, last_known: Option<&PoolsVersion>, list: &PoolList) -> Result<bool, Error> {
        self.store.replace_pools(last_known, list).await
    }
}

#[async_trait]
impl<P: Poster> MessageStore for StoreVariant<P> {
    async fn post_messages(&self, queue: &QueueId, post: &Post<'_>) -> Result<PostOutcome, Error> {
        self.poster.post(&self.store, queue, post).await
    }

    async fn check_durability(&self, queue: &QueueId, level: Durability) -> Result<(), Error> {
        self.store.check_durability(queue, level).await
    }

    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Page, Error> {
        self.store.list_messages(queue, listing).await
    }

    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId], with_states: bool) -> Result<Vec<Message>, Error> {
        self.store.get_messages(queue, ids, with_states).await
    }

    async fn delete_message(
        &self,
        queue: &QueueId,
        id: MessageId,
        claim: Option<PresentedClaim>,
    ) -> Result<DeleteOutcome, Error> {
        self.store.delete_message(queue, id, claim).await
    }

    async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<(), Error> {
        self.store.delete_messages(queue, ids).await
    }

    async fn delete_claimed(
        &self,
        queue: &QueueId,
        ids: &[MessageId],
        claims: &[ClaimId],
    ) -> Result<DeleteOutcome, Error> {
        self.store.delete_claimed(queue, ids, claims).await
    }

    async fn pop_messages(&self, queue: &QueueId, pop: ClaimId, limit: usize) -> Result<Taken<Vec<Popped>>, Error> {
        self.store.pop_messages(queue, pop, limit).await
    }

    fn pops_are_final(&self) -> bool {
        self.store.pops_are_final()
    }

    async fn complete_pop(&self, queue: &QueueId, pop: ClaimId) -> Result<(), Error> {
        self.store.complete_pop(queue, pop).await
    }

    async fn restore_messages(&self, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
        self.store.restore_messages(queue, popped).await
    }

    async fn purge_queue(&self, queue: &QueueId) -> Result<(), Error> {
        self.store.purge_queue(queue).await
    }

    async fn get_stats(&self, queue: &QueueId, detailed: bool) -> Result<Stats, Error> {
        self.store.get_stats(queue, detailed).await
    }
}

#[async_trait]
impl<P: Poster> MovedMessageStore for StoreVariant<P> {
    async fn queue_epoch(&self, queue: &QueueId) -> Result<Option<QueueEpoch>, Error> {
        self.store.queue_epoch(queue).await
    }

    async fn receive_moved(&self, batch: &MovedBatch) -> Result<Arrival, Error> {
        self.store.receive_moved(batch).await
    }
}

#[async_trait]
impl<P: Poster> QueueStore for StoreVariant<P> {
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error> {
        self.store.create_queue(queue, metadata).await
    }

    async fn get_queue(&self, queue: &QueueId) -> Result<Option<Queue>, Error> {
        self.store.get_queue(queue).await
    }

    async fn update_queue(
        &self,
        queue: &QueueId,
        last_known_revision: Revision,
        metadata: &Metadata,
    ) -> Result<UpdateOutcome, Error> {
        self.store.update_queue(queue, last_known_revision, metadata).await
    }

    async fn delete_queue(&self, queue: &QueueId) -> Result<(), Error> {
        self.store.delete_queue(queue).await
    }

    async fn pause_queue(&self, queue: &QueueId) -> Result<(), Error> {
        self.store.pause_queue(queue).await
    }

    async fn resume_queue(&self, queue: &QueueId) -> Result<(), Error> {
        self.store.resume_queue(queue).await
    }

    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing) -> Result<QueuePage, Error> {
        self.store.list_queues(project, listing).await
    }

    async fn count_queues(&self, project: &ProjectId, kind: Option<QueueKind>) -> Result<u64, Error> {
        self.store.count_queues(project, kind).await
    }

    async fn summarize_queues(&self, queues: &[QueueId]) -> Result<Vec<Summary>, Error> {
        self.store.summarize_queues(queues).await
    }

    async fn list_projects(&self, after: Option<&ProjectId>, examined_max: usize) -> Result<ProjectPage, Error> {
        self.store.list_projects(after, examined_max).await
    }
}

#[async_trait]
impl<P: Poster> ClaimStore for StoreVariant<P> {
    async fn create_claim(&self, queue: &QueueId, id: ClaimId, new: &NewClaim) -> Result<Taken<Claim>, Error> {
        self.store.create_claim(queue, id, new).await
    }

    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error> {
        self.store.get_claim(queue, id).await
    }

    async fn list_claims(
        &self,
        queue: &QueueId,
        after: Option<ClaimId>,
        limit: usize,
    ) -> Result<Vec<ClaimSummary>, Error> {
        self.store.list_claims(queue, after, limit).await
    }

    async fn renew_claim(&self, queue: &QueueId, id: ClaimId, term: Term) -> Result<Option<Fence>, Error> {
        self.store.renew_claim(queue, id, term).await
    }

    async fn return_message(
        &self,
        queue: &QueueId,
        claim: ClaimId,
        id: MessageId,
        delay_s: u32,
    ) -> Result<ClaimOutcome, Error> {
        self.store.return_message(queue, claim, id, delay_s).await
    }

    async fn release_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.store.release_claim(queue, id).await
    }

    async fn withdraw_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.store.withdraw_claim(queue, id).await
    }
}

#[async_trait]
impl<P: Poster> TaskStore for StoreVariant<P> {
    async fn create_redrive(&self, queue: &QueueId, id: TaskId, redrive: &Redrive) -> Result<TaskCreation, Error> {
        self.store.create_redrive(queue, id, redrive).await
    }

    async fn list_tasks(&self, queue: &QueueId) -> Result<Vec<Task>, Error> {
        self.store.list_tasks(queue).await
    }

    async fn get_task(&self, queue: &QueueId, id: TaskId) -> Result<Option<Task>, Error> {
        self.store.get_task(queue, id).await
    }

    async fn delete_task(&self, queue: &QueueId, id: TaskId) -> Result<(), Error> {
        self.store.delete_task(queue, id).await
    }

    async fn redrive_step(&self, queue: &QueueId, id: TaskId, fence: LeaseFence) -> Result<RedriveStep, Error> {
        self.store.redrive_step(queue, id, fence).await
    }

    async fn fail_task(&self, queue: &QueueId, id: TaskId, fence: LeaseFence, error: &str) -> Result<(), Error> {
        self.store.fail_task(queue, id, fence, error).await
    }
}

#[async_trait]
impl<P: Poster> TaskLeases for StoreVariant<P> {
    async fn take_task_lease(&self, queue: &QueueId, task: TaskId, holder: Uuid) -> Result<Option<LeaseFence>, Error> {
        self.store.take_task_lease(queue, task, holder).await
    }
}

#[async_trait]
impl<P: Poster> WatchStore for StoreVariant<P> {
    async fn watch(&self, queue: &QueueId) -> Result<Watch, Error> {
        self.store.watch(queue).await
    }

    fn query_finished(&self, queue: &QueueId) {
        self.store.query_finished(queue);
    }

    fn watchers(&self) -> &Watchers {
        self.store.watchers()
    }

    async fn queue_status(&self, queue: &QueueId) -> Result<QueueStatus, Error> {
        self.store.queue_status(queue).await
    }
}

#[async_trait]
impl<P: Poster> Maintenance for StoreVariant<P> {
    async fn ping(&self) -> Result<(), Error> {
        self.store.ping().await
    }

    async fn probe(&self) -> Result<(), Error> {
        self.store.probe().await
    }

    fn has_full_disk(&self) -> bool {
        self.store.has_full_disk()
    }

    async fn check(&self) -> Result<Check, Error> {
        self.store.check().await
    }

    async fn maintain(&self, schedule: &Schedule) -> Result<u64, Error> {
        self.store.maintain(schedule).await
    }

    async fn maintain_step(&self, after: Option<&QueueId>) -> Result<Option<QueueId>, Error> {
        self.store.maintain_step(after).await
    }
}
