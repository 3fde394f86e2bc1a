//! Admission: a bounded number of operations is in flight in a store, and further requests wait here.
//!
//! Without a bound, a burst of requests makes every command wait in the store's connections, until commands time out
//! although the store works. Here a request waits before anything is sent for it. Projects take turns, and within a
//! project requests are served in the order in which they arrived, so a project that floods the service delays others
//! by one operation each. A request that cannot be served in time is refused early.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::iter::Sum;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::Error;
use crate::domain::ProjectId;

/// The longest wait is divided into so many windows. The highest rate of these counts, so that a pause of the store
/// refuses nobody.
const WINDOWS: u32 = 10;
/// The rate is not known before so many windows have passed.
const WINDOWS_MIN: usize = 3;
/// Time between two refusals. Clients that try again at once would otherwise take the processor from the requests that
/// are served, and would never let the rate recover.
const PAUSE_BETWEEN_REFUSALS: Duration = Duration::from_micros(250);

/// The operations of one store, or of one server of it, that are in flight or wait.
#[derive(Debug)]
pub struct Admission {
    in_flight_max: usize,
    state: Mutex<State>,
}

/// How busy a store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of operations in flight.
    pub in_flight: usize,
    /// Number of requests that wait.
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

/// Allows one operation. The next one follows when this is dropped.
#[derive(Debug)]
#[must_use = "the operation is in flight for as long as this exists"]
pub struct Permit(Arc<Admission>);

type Answer = Result<Permit, Error>;

#[derive(Debug, Default)]
struct State {
    /// While requests wait, this is the maximum.
    in_flight: usize,
    waiting: usize,
    /// The requests of each project that has any, by their numbers.
    queues: HashMap<ProjectId, BTreeMap<u64, oneshot::Sender<Answer>>>,
    /// The projects with requests, in the order of their turns.
    turns: VecDeque<ProjectId>,
    next_number: u64,
    rate: Rate,
    last_refusal: Option<Instant>,
}

/// A request that waits, until this is dropped.
struct Ticket<'a> {
    admission: &'a Admission,
    project: &'a ProjectId,
    number: u64,
    answer: oneshot::Receiver<Answer>,
}

impl Admission {
    /// Lets at most `in_flight_max` operations run side by side.
    #[must_use]
    pub fn new(in_flight_max: usize) -> Arc<Self> {
        Arc::new(Self { in_flight_max, state: Mutex::default() })
    }

    /// Waits for the turn of a request of this project, at most for `wait_max`.
    ///
    /// # Errors
    ///
    /// [`Error::Overloaded`] if the wait would be longer: at once, or when it is its turn among the refusals. Or the
    /// error with which all requests that waited were refused.
    pub async fn enter(self: &Arc<Self>, project: &ProjectId, wait_max: Duration) -> Answer {
        let ticket = {
            let mut state = self.lock();
            if state.in_flight < self.in_flight_max {
                state.in_flight += 1;
                return Ok(Permit(self.clone()));
            }
            state.join(project, wait_max).map(|(number, answer)| Ticket { admission: self, project, number, answer })
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

    /// Refuses all requests that wait: the store does not answer.
    pub fn refuse_waiting(&self, error: &Error) {
        let queues = self.lock().clear();
        for request in queues.into_values().flat_map(BTreeMap::into_values) {
            let _gone_meanwhile = request.send(Err(error.clone()));
        }
    }

    /// How busy the store is now.
    #[must_use]
    pub fn load(&self) -> Load {
        let state = self.lock();
        Load { in_flight: state.in_flight, waiting: state.waiting }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = self.0.lock().next();
        if let Some(request) = next {
            // Without a receiver, the new permit is dropped in turn and serves the request behind it.
            let _gone_meanwhile = request.send(Ok(Permit(self.0.clone())));
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.admission.lock().leave(self.project, self.number);
    }
}

impl State {
    /// Adds a request, unless it would have to wait for longer than that. The error says when to refuse it.
    fn join(&mut self, project: &ProjectId, wait_max: Duration) -> Result<(u64, oneshot::Receiver<Answer>), Instant> {
        if self.waiting == 0 {
            self.rate = Rate::new(wait_max);
        }
        let own = self.queues.get(project).map_or(0, BTreeMap::len);
        let projects = self.turns.len() + usize::from(own == 0);
        // Each project has at most as many turns before this request as its own project.
        let ahead = self.waiting.min((own + 1) * projects);
        if ahead > self.rate.within_wait() {
            let now = Instant::now();
            let next = self.last_refusal.map_or(now, |last| last + PAUSE_BETWEEN_REFUSALS).clamp(now, now + wait_max);
            self.last_refusal = Some(next);
            return Err(next);
        }
        let (request, answer) = oneshot::channel();
        let number = self.next_number;
        self.next_number += 1;
        self.waiting += 1;
        if own == 0 {
            self.turns.push_back(project.clone());
        }
        self.queues.entry(project.clone()).or_default().insert(number, request);
        Ok((number, answer))
    }

    /// Removes a request, if it still waits.
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

    /// The request to which a permit goes that is free again; without one, an operation less is in flight.
    fn next(&mut self) -> Option<oneshot::Sender<Answer>> {
        let request = self.turns.pop_front().and_then(|project| {
            let queue = self.queues.get_mut(&project)?;
            let (_number, request) = queue.pop_first()?;
            if queue.is_empty() {
                self.queues.remove(&project);
            } else {
                self.turns.push_back(project);
            }
            self.waiting -= 1;
            self.rate.count();
            Some(request)
        });
        self.in_flight -= usize::from(request.is_none());
        request
    }

    fn clear(&mut self) -> HashMap<ProjectId, BTreeMap<u64, oneshot::Sender<Answer>>> {
        self.waiting = 0;
        self.turns.clear();
        std::mem::take(&mut self.queues)
    }
}

/// How fast requests have been served while others waited.
#[derive(Debug, Default)]
struct Rate {
    wait_max: Duration,
    began: Option<Instant>,
    served: u32,
    /// For each of the last windows, number of requests that can be served within the longest wait at its rate.
    windows: [Option<usize>; WINDOWS as usize],
}

impl Rate {
    fn new(wait_max: Duration) -> Self {
        Self { wait_max, began: Some(Instant::now()), ..Self::default() }
    }

    fn count(&mut self) {
        self.served += 1;
        let elapsed = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        if elapsed > self.wait_max / WINDOWS {
            let within_wait = u128::from(self.served) * self.wait_max.as_micros() / elapsed.as_micros().max(1);
            self.windows.rotate_right(1);
            self.windows[0] = Some(usize::try_from(within_wait).unwrap_or(usize::MAX));
            self.began = Some(Instant::now());
            self.served = 0;
        }
    }

    /// Number of requests that can be served within the longest wait, at the highest rate of the last windows; unlimited
    /// while that is not known.
    fn within_wait(&self) -> usize {
        let known = self.windows.iter().flatten();
        if known.clone().count() < WINDOWS_MIN { usize::MAX } else { known.copied().max().unwrap_or_default() }
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

    /// Enters in a task, in which each operation takes so long, and says when it is let in.
    async fn request(
        admission: &Arc<Admission>,
        name: &'static str,
        takes: Duration,
        admitted: &mpsc::UnboundedSender<&'static str>,
    ) -> JoinHandle<Result<(), Error>> {
        let (admission, admitted) = (admission.clone(), admitted.clone());
        let task = tokio::spawn(async move {
            let _permit = admission.enter(&project(name), LONG).await?;
            admitted.send(name).unwrap();
            sleep(takes).await;
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
    async fn a_request_waits_no_longer_than_it_may_and_its_turn_goes_to_the_next() {
        let admission = Admission::new(1);
        let held = admission.enter(&project("a"), LONG).await.unwrap();
        let start = Instant::now();

        let late = admission.enter(&project("a"), LONG).await;

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
        // Ten a second, so that fifty can be served in time.
        for _ in 0..80 {
            request(&admission, "busy", Duration::from_millis(100), &sender).await;
        }
        sleep(Duration::from_secs(2)).await;
        let start = Instant::now();

        let refused = admission.enter(&project("busy"), LONG).await;

        assert_eq!(refused.unwrap_err(), Error::Overloaded);
        assert_eq!(start.elapsed(), Duration::ZERO);
        let other = request(&admission, "quiet", Duration::ZERO, &sender).await;
        other.await.unwrap().unwrap();
        assert!(start.elapsed() <= Duration::from_millis(200), "it waited {:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_pause_of_the_store_refuses_nobody() {
        let admission = Admission::new(1);
        let (sender, _admitted) = mpsc::unbounded_channel();
        for number in 0..2_000 {
            let takes = if number == 1_000 { Duration::from_secs(1) } else { Duration::from_millis(1) };
            request(&admission, "busy", takes, &sender).await;
        }
        sleep(Duration::from_millis(2_100)).await;

        let next = request(&admission, "busy", Duration::ZERO, &sender).await;

        next.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_wait_are_refused_when_the_store_is_silent() {
        let admission = Admission::new(1);
        let held = admission.enter(&project("a"), LONG).await.unwrap();
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
    async fn a_permit_that_nobody_receives_any_more_is_passed_on() {
        let admission = Admission::new(1);
        let held = admission.enter(&project("a"), LONG).await.unwrap();
        let (sender, mut admitted) = mpsc::unbounded_channel();
        let cancelled = request(&admission, "a", LONG, &sender).await;
        request(&admission, "b", LONG, &sender).await;

        // The permit is sent, and its receiver is dropped before it runs again.
        drop(held);
        cancelled.abort();

        assert_eq!(admitted.recv().await, Some("b"));
    }
}
