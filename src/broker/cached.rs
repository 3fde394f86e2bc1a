//! A value that takes time to compute. Concurrent callers share one computation, and later callers
//! get its result until it is too old.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

/// A computation that is running or has ended. It returns `None` if it panicked.
type Computation<T> = Shared<BoxFuture<'static, Option<T>>>;

/// A cached value. Clones share it.
#[derive(Clone)]
pub struct Cached<T> {
    /// Age at which the value is computed again. With 0, only concurrent callers share a value.
    max_age: Duration,
    state: Arc<Mutex<CachedState<T>>>,
}

struct CachedState<T> {
    last: Option<Last<T>>,
    computation: Option<Computation<T>>,
    /// How often the value has expired. A value that was computed before the last time is too old.
    expirations: u64,
}

struct Last<T> {
    computed_at: Instant,
    /// How often the value had expired when its computation began.
    expirations: u64,
    value: T,
}

impl<T: Clone + Send + Sync + 'static> Cached<T> {
    /// Returns a value that is computed when it is first needed, and again at this age.
    #[must_use]
    pub fn new(max_age: Duration) -> Self {
        Self { max_age, state: Arc::new(Mutex::new(CachedState { last: None, computation: None, expirations: 0 })) }
    }

    /// Returns the value if it is young enough. Otherwise waits up to `wait_max` for a new one,
    /// which `compute` returns in a task of its own. Returns `None` if that takes longer.
    pub async fn get<F>(&self, wait_max: Duration, compute: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let computation = {
            let mut state = self.state.lock();
            if let Some(last) = &state.last
                && last.computed_at.elapsed() < self.max_age
                && last.expirations == state.expirations
            {
                return Some(last.value.clone());
            }
            // A computation that has panicked is still here.
            let running = state.computation.take().filter(|computation| computation.peek().is_none());
            let expirations = state.expirations;
            let computation = running.unwrap_or_else(|| self.start(expirations, compute()));
            state.computation.insert(computation).clone()
        };
        timeout(wait_max, computation).await.ok().flatten()
    }

    /// Returns the last value, unless it is older than this.
    #[must_use]
    pub fn last(&self, max_age: Duration) -> Option<T> {
        let state = self.state.lock();
        let last = state.last.as_ref()?;
        (last.computed_at.elapsed() < max_age).then(|| last.value.clone())
    }

    /// Lets the next caller of [`Self::get`] wait for a computation that begins from now on. Until
    /// it ends,
    /// [`Self::last`] returns the value as before.
    pub fn expire(&self) {
        let mut state = self.state.lock();
        state.expirations += 1;
        state.computation = None;
    }

    fn start(&self, expirations: u64, compute: impl Future<Output = T> + Send + 'static) -> Computation<T> {
        let this = self.clone();
        let task = tokio::spawn(async move {
            let value = compute.await;
            let mut state = this.state.lock();
            // A computation that began later may have ended before.
            if state.last.as_ref().is_none_or(|last| last.expirations <= expirations) {
                state.last = Some(Last { computed_at: Instant::now(), expirations, value: value.clone() });
            }
            if state.expirations == expirations {
                state.computation = None;
            }
            value
        });
        task.map(Result::ok).boxed().shared()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;
    use tokio::sync::Semaphore;
    use tokio::time::advance;

    use super::*;

    const MAX_AGE: Duration = Duration::from_secs(10);
    /// A millisecond less than [`MAX_AGE`].
    const ALMOST_MAX_AGE: Duration = Duration::from_millis(9_999);
    const WAIT_MAX: Duration = Duration::from_secs(1);

    /// Counts its computations, each of which needs a permit.
    #[derive(Default)]
    struct Source {
        computations: AtomicU32,
    }

    async fn compute(source: Arc<Source>, permits: Arc<Semaphore>) -> u32 {
        let number = source.computations.fetch_add(1, Ordering::SeqCst) + 1;
        permits.acquire().await.unwrap().forget();
        number
    }

    #[tokio::test(start_paused = true)]
    async fn ten_callers_cost_one_computation_until_the_value_is_too_old() {
        let (cached, source, permits) = (Cached::new(MAX_AGE), Arc::<Source>::default(), Arc::new(Semaphore::new(2)));
        let get = || cached.get(WAIT_MAX, || compute(source.clone(), permits.clone()));

        assert_eq!(join_all((0..10).map(|_| get())).await, [Some(1); 10]);
        advance(ALMOST_MAX_AGE).await;
        assert_eq!(get().await, Some(1));
        advance(Duration::from_millis(1)).await;
        assert_eq!(join_all((0..10).map(|_| get())).await, [Some(2); 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_computation_is_not_waited_for_and_not_started_twice() {
        let (cached, source, permits) = (Cached::new(MAX_AGE), Arc::<Source>::default(), Arc::new(Semaphore::new(0)));
        let get = || cached.get(WAIT_MAX, || compute(source.clone(), permits.clone()));

        assert_eq!(get().await, None);
        assert_eq!(join_all([get(), get()]).await, [None; 2]);
        assert_eq!((cached.last(MAX_AGE), source.computations.load(Ordering::SeqCst)), (None, 1));

        permits.add_permits(1);
        assert_eq!(get().await, Some(1));
        assert_eq!(cached.last(MAX_AGE), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_without_a_lifetime_is_not_returned_to_later_callers() {
        let (cached, source, permits) =
            (Cached::new(Duration::ZERO), Arc::<Source>::default(), Arc::new(Semaphore::new(0)));
        let get = || cached.get(WAIT_MAX, || compute(source.clone(), permits.clone()));

        assert_eq!(get().await, None);
        permits.add_permits(3);
        tokio::task::yield_now().await;
        assert_eq!(join_all([get(), get()]).await, [Some(2); 2]);
        assert_eq!(get().await, Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_value_is_computed_again_and_stays_the_last_one_meanwhile() {
        let (cached, source, permits) = (Cached::new(MAX_AGE), Arc::<Source>::default(), Arc::new(Semaphore::new(1)));
        let get = || cached.get(WAIT_MAX, || compute(source.clone(), permits.clone()));
        assert_eq!(get().await, Some(1));

        // The second computation begins before the value expires again, so it is too old when it
        // ends.
        for started in [2, 3] {
            cached.expire();
            assert_eq!(get().await, None);
            assert_eq!((cached.last(MAX_AGE), source.computations.load(Ordering::SeqCst)), (Some(1), started));
        }
        permits.add_permits(1);
        tokio::task::yield_now().await;
        assert_eq!(cached.last(MAX_AGE), Some(2));
        permits.add_permits(1);
        assert_eq!(get().await, Some(3));
        assert_eq!((cached.last(MAX_AGE), get().await), (Some(3), Some(3)));
    }
}
