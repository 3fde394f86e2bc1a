//! Admission: limits the number of operations in flight in a store. Further requests wait here.
//!
//! Without a limit, a burst of requests makes every command wait in the store's connections, until
//! commands time out although the store works. Here, a request waits before anything is sent for
//! it. Projects take turns, and the requests of one project are served in the order of their
//! arrival. A project that floods the service therefore delays each other request by one operation
//! only. A request that cannot be served in time is refused early.
//!
//! An operation on many messages counts as several, so that the store is not given the work of
//! seconds at once, before which no project gets a turn.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Sum;
use std::sync::Arc;
use std::time::Duration;

use ahash::HashMap;
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::error::Error;
use super::service_rate::ServiceRate;
use sukkal_domain::{ProjectId, QueueId};

/// Time between two refusals. Otherwise, clients that retry immediately would use so much processor
/// time that the rate of served requests could not recover.
const PAUSE_BETWEEN_REFUSALS: Duration = Duration::from_micros(250);
/// Number of messages that take a store about as long as the other parts of an operation.
const MESSAGES_PER_OPERATION: usize = 16;

/// Provides the admission that bounds the operations on a store. The broker acquires a permit
/// before it calls an operation for a client; drivers do not.
#[async_trait]
pub trait AdmissionControl: Send + Sync {
    /// Returns the admission for operations on this queue.
    fn queue_admission(&self, queue: &QueueId) -> Arc<Admission>;

    /// Returns the admission for operations on this queue; `None` if it is not known which store
    /// has the queue: see [`Self::locate`].
    fn known_queue_admission(&self, queue: &QueueId) -> Option<Arc<Admission>> {
        Some(self.queue_admission(queue))
    }

    /// Finds out which store has the queue. Waits for the admission to that at most for `wait_max`.
    async fn locate(&self, _queue: &QueueId, _wait_max: Duration) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the admission for operations on the project's list of queues.
    fn project_admission(&self, project: &ProjectId) -> Arc<Admission>;

    /// Returns the load of the whole store, with all its servers.
    fn load(&self) -> Load;
}

/// The number of operations in flight that one operation counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(usize);

impl Weight {
    /// The weight of most operations.
    pub const ONE: Self = Self(1);

    /// Returns the weight of an operation that stores this number of messages.
    #[must_use]
    pub const fn of_messages(count: usize) -> Self {
        Self(1 + count / MESSAGES_PER_OPERATION)
    }
}

/// Bounds the operations in flight in a store, or in one server of a store. Further requests wait.
#[derive(Debug)]
pub struct Admission {
    weight_max: usize,
    state: Mutex<AdmissionState>,
}

/// The load of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of operations in flight.
    pub in_flight: usize,
    /// Number of waiting requests.
    pub waiting: usize,
}

impl Sum for Load {
    fn sum<I: Iterator<Item = Self>>(loads: I) -> Self {
        let add = |sum: Self, load: Self| Self {
            in_flight: sum.in_flight + load.in_flight,
            waiting: sum.waiting + load.waiting,
        };
        loads.fold(Self::default(), add)
    }
}

/// Permission for one operation. When it is dropped, it passes to the next waiting request.
#[derive(Debug)]
#[must_use = "the operation is in flight for as long as this exists"]
pub struct Permit {
    admission: Arc<Admission>,
    weight: Weight,
}

type Answer = Result<Permit, Error>;

#[derive(Debug, Default)]
struct AdmissionState {
    /// Number of operations in flight.
    in_flight: usize,
    /// Their weight. It is the maximum or more while requests wait.
    weight: usize,
    waiting: usize,
    /// Waiting requests of each project, by their numbers.
    queues: HashMap<ProjectId, BTreeMap<u64, Request>>,
    /// Projects with waiting requests, in the order of their turns.
    turns: VecDeque<ProjectId>,
    next_number: u64,
    rate: ServiceRate,
    last_refusal: Option<Instant>,
}

/// A waiting request, as the admission sees it.
#[derive(Debug)]
struct Request {
    weight: Weight,
    answer: oneshot::Sender<Answer>,
}

/// A waiting request, as its sender sees it. It stops waiting when this is dropped.
struct Ticket<'a> {
    admission: &'a Admission,
    project: &'a ProjectId,
    number: u64,
    answer: oneshot::Receiver<Answer>,
}

impl Admission {
    /// Returns an admission that allows at most `in_flight_max` operations in flight. Those on many
    /// messages count as several.
    #[must_use]
    pub fn new(in_flight_max: usize) -> Arc<Self> {
        Arc::new(Self { weight_max: in_flight_max, state: Mutex::default() })
    }

    /// Waits until a request of this project may be served, at most for `wait_max`.
    ///
    /// # Errors
    ///
    /// [`Error::Overloaded`] if the wait is too long, or would be. The early refusal comes at once,
    /// or a short time after the previous refusal. Returns the error of [`Self::refuse_waiting`] if
    /// that was called meanwhile.
    pub async fn acquire(self: &Arc<Self>, project: &ProjectId, wait_max: Duration) -> Answer {
        self.acquire_weighted(project, Weight::ONE, wait_max).await
    }

    /// Does the same for an operation of this weight. It begins as soon as the operations in flight
    /// are below the maximum, however large its weight is.
    ///
    /// # Errors
    ///
    /// Those of [`Self::acquire`].
    pub async fn acquire_weighted(self: &Arc<Self>, project: &ProjectId, weight: Weight, wait_max: Duration) -> Answer {
        let ticket = {
            let mut state = self.state.lock();
            if state.weight < self.weight_max {
                state.begin(weight);
                return Ok(Permit { admission: self.clone(), weight });
            }
            state.join(project, weight, wait_max).map(|(number, answer)| Ticket {
                admission: self,
                project,
                number,
                answer,
            })
        };
        let mut ticket = match ticket {
            Ok(ticket) => ticket,
            Err(refusal) => {
                sleep_until(refusal).await;
                return Err(Error::Overloaded);
            }
        };
        match timeout(wait_max, &mut ticket.answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(Error::Overloaded),
        }
    }

    /// Refuses all waiting requests with this error, because the store does not reply.
    pub fn refuse_waiting(&self, error: &Error) {
        let queues = self.state.lock().clear();
        for request in queues.into_values().flat_map(BTreeMap::into_values) {
            let _canceled_meanwhile = request.answer.send(Err(error.clone()));
        }
    }

    /// Returns the current load.
    #[must_use]
    pub fn load(&self) -> Load {
        let state = self.state.lock();
        Load { in_flight: state.in_flight, waiting: state.waiting }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Self { admission, weight } = self;
        let mut next = admission.state.lock().end(*weight, admission.weight_max);
        while let Some(Request { weight, answer }) = next {
            // If the receiver was dropped, the new permit is dropped too, and passes to further
            // requests.
            let _canceled_meanwhile = answer.send(Ok(Permit { admission: admission.clone(), weight }));
            next = admission.state.lock().next(admission.weight_max);
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.admission.state.lock().leave(self.project, self.number);
    }
}

impl AdmissionState {
    /// Adds a request, unless it would wait for longer than `wait_max`. The error is the time at
    /// which to refuse it.
    fn join(
        &mut self,
        project: &ProjectId,
        weight: Weight,
        wait_max: Duration,
    ) -> Result<(u64, oneshot::Receiver<Answer>), Instant> {
        if self.waiting == 0 {
            self.rate = ServiceRate::new(wait_max);
        }
        let own = self.queues.get(project).map_or(0, BTreeMap::len);
        let projects = self.turns.len() + usize::from(own == 0);
        // Before this request, no project has more turns than this request's own project.
        let ahead = self.waiting.min((own + 1) * projects);
        if ahead > self.rate.within_wait() {
            let now = Instant::now();
            let next = self.last_refusal.map_or(now, |last| last + PAUSE_BETWEEN_REFUSALS).clamp(now, now + wait_max);
            self.last_refusal = Some(next);
            return Err(next);
        }
        let (sender, answer) = oneshot::channel();
        let number = self.next_number;
        self.next_number += 1;
        self.waiting += 1;
        if own == 0 {
            self.turns.push_back(project.clone());
        }
        self.queues.entry(project.clone()).or_default().insert(number, Request { weight, answer: sender });
        Ok((number, answer))
    }

    /// Removes a request if it is still waiting.
    fn leave(&mut self, project: &ProjectId, number: u64) {
        let Some(queue) = self.queues.get_mut(project) else {
            return;
        };
        self.waiting -= usize::from(queue.remove(&number).is_some());
        if queue.is_empty() {
            self.queues.remove(project);
            self.turns.retain(|other| other != project);
        }
    }

    fn begin(&mut self, weight: Weight) {
        self.in_flight += 1;
        self.weight += weight.0;
    }

    /// Ends an operation. Returns the request whose turn it is, if any may begin.
    fn end(&mut self, weight: Weight, weight_max: usize) -> Option<Request> {
        self.in_flight -= 1;
        self.weight -= weight.0;
        self.next(weight_max)
    }

    /// Begins the operation of the request whose turn it is, if any may begin.
    fn next(&mut self, weight_max: usize) -> Option<Request> {
        if self.weight >= weight_max {
            return None;
        }
        let project = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&project)?;
        let (_number, request) = queue.pop_first()?;
        if queue.is_empty() {
            self.queues.remove(&project);
        } else {
            self.turns.push_back(project);
        }
        self.waiting -= 1;
        self.rate.count();
        self.begin(request.weight);
        Some(request)
    }

    fn clear(&mut self) -> HashMap<ProjectId, BTreeMap<u64, Request>> {
        self.waiting = 0;
        self.turns.clear();
        std::mem::take(&mut self.queues)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::task::{JoinHandle, yield_now};
    use tokio::time::sleep;

    use super::*;

    const LONG: Duration = Duration::from_secs(5);

    fn project(name: &str) -> ProjectId {
        ProjectId::new(name).unwrap()
    }

    /// Acquires a permit in a task, reports that on `admitted`, and holds the permit for
    /// `duration`.
    async fn request(
        admission: &Arc<Admission>,
        name: &'static str,
        duration: Duration,
        admitted: &mpsc::UnboundedSender<&'static str>,
    ) -> JoinHandle<Result<(), Error>> {
        let (admission, admitted) = (admission.clone(), admitted.clone());
        let task = tokio::spawn(async move {
            let _permit = admission.acquire(&project(name), LONG).await?;
            admitted.send(name).unwrap();
            sleep(duration).await;
            Ok(())
        });
        yield_now().await;
        task
    }

    #[tokio::test(start_paused = true)]
    async fn projects_take_turns_however_many_requests_each_has() {
        let admission = Admission::new(1);
        let (sender, mut admitted) = mpsc::unbounded_channel();
        for name in ["busy", "busy", "busy", "busy", "quiet", "third", "quiet"] {
            request(&admission, name, Duration::from_millis(1), &sender).await;
        }
        drop(sender);

        let mut order = Vec::new();
        while let Some(name) = admitted.recv().await {
            order.push(name);
        }

        assert_eq!(order, ["busy", "busy", "quiet", "third", "busy", "quiet", "busy"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_on_many_messages_counts_as_several() {
        let admission = Admission::new(64);
        let post = || {
            let admission = admission.clone();
            let weight = Weight::of_messages(61 * MESSAGES_PER_OPERATION);
            async move { admission.acquire_weighted(&project("busy"), weight, LONG).await.unwrap() }
        };
        let (first, second) = (post().await, post().await);
        let third = tokio::spawn(post());
        let (sender, mut admitted) = mpsc::unbounded_channel();
        yield_now().await;
        for name in ["quiet", "other"] {
            request(&admission, name, LONG, &sender).await;
        }
        assert_eq!(admission.load(), Load { in_flight: 2, waiting: 3 });

        drop(first);

        let _third = third.await.unwrap();
        assert_eq!(admission.load(), Load { in_flight: 2, waiting: 2 });
        drop(second);
        assert_eq!([admitted.recv().await, admitted.recv().await], [Some("quiet"), Some("other")]);
        assert_eq!(admission.load(), Load { in_flight: 3, waiting: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_no_longer_than_its_maximum_and_its_turn_passes_to_the_next() {
        let admission = Admission::new(1);
        let held = admission.acquire(&project("a"), LONG).await.unwrap();
        let start = Instant::now();

        let late = admission.acquire(&project("a"), LONG).await;

        assert_eq!(late.unwrap_err(), Error::Overloaded);
        assert_eq!(start.elapsed(), LONG);
        let (sender, mut admitted) = mpsc::unbounded_channel();
        request(&admission, "abandoned", LONG, &sender).await.abort();
        yield_now().await;
        request(&admission, "next", LONG, &sender).await;
        assert_eq!(admission.load().waiting, 1);
        drop(held);
        assert_eq!(admitted.recv().await, Some("next"));
        assert_eq!(admission.load().waiting, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_cannot_be_served_in_time_is_refused_at_once() {
        let admission = Admission::new(1);
        let (sender, _admitted) = mpsc::unbounded_channel();
        // Ten are served per second, so fifty can be served in time.
        for _ in 0..80 {
            request(&admission, "busy", Duration::from_millis(100), &sender).await;
        }
        sleep(Duration::from_secs(2)).await;
        let start = Instant::now();

        let refused = admission.acquire(&project("busy"), LONG).await;

        assert_eq!(refused.unwrap_err(), Error::Overloaded);
        assert_eq!(start.elapsed(), Duration::ZERO);
        let other = request(&admission, "quiet", Duration::ZERO, &sender).await;
        other.await.unwrap().unwrap();
        assert!(start.elapsed() <= Duration::from_millis(200), "it waited {:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_pause_of_the_store_causes_no_refusals() {
        let admission = Admission::new(1);
        let (sender, _admitted) = mpsc::unbounded_channel();
        for number in 0..2_000 {
            let duration = if number == 1_000 { Duration::from_secs(1) } else { Duration::from_millis(1) };
            request(&admission, "busy", duration, &sender).await;
        }
        sleep(Duration::from_millis(2_100)).await;

        let next = request(&admission, "busy", Duration::ZERO, &sender).await;

        next.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_requests_are_refused_when_the_store_does_not_reply() {
        let admission = Admission::new(1);
        let held = admission.acquire(&project("a"), LONG).await.unwrap();
        let (sender, mut admitted) = mpsc::unbounded_channel();
        let waiting = request(&admission, "a", LONG, &sender).await;
        let silent = Error::Unavailable("silent".to_owned());

        admission.refuse_waiting(&silent);

        assert_eq!(waiting.await.unwrap(), Err(silent));
        request(&admission, "b", LONG, &sender).await;
        drop(held);
        assert_eq!(admitted.recv().await, Some("b"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_for_a_canceled_request_passes_to_the_next() {
        let admission = Admission::new(1);
        let held = admission.acquire(&project("a"), LONG).await.unwrap();
        let (sender, mut admitted) = mpsc::unbounded_channel();
        let canceled = request(&admission, "a", LONG, &sender).await;
        request(&admission, "b", LONG, &sender).await;

        // The permit is sent, and its receiver is dropped before it runs again.
        drop(held);
        canceled.abort();

        assert_eq!(admitted.recv().await, Some("b"));
    }
}
