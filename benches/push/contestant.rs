//! A service in a measurement. If it refuses a step, fails or takes too long, the others go on
//! without it.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::timeout;

/// Longer than any step takes.
const STEP_MAX: Duration = Duration::from_secs(300);

/// A service with what the measurement keeps for it.
pub(crate) struct Contestant<T> {
    pub(crate) name: &'static str,
    state: Result<T, String>,
}

impl<T> Contestant<T> {
    /// Carries out the first step, which starts the service.
    pub(crate) async fn start(name: &'static str, start: impl Future<Output = Result<T, String>>) -> Self {
        Self { name, state: bounded(start).await.map_err(|error| format!("{name}: {error}.")) }
    }

    /// Carries out a step. After a failure, this and all further steps do nothing.
    pub(crate) async fn step<U>(&mut self, step: impl AsyncFnOnce(&mut T) -> Result<U, String>) -> Option<U> {
        match bounded(step(self.state.as_mut().ok()?)).await {
            Ok(result) => Some(result),
            Err(error) => {
                self.state = Err(format!("{}: {error}.", self.name));
                None
            }
        }
    }

    /// Stops the service. Returns the figures, or the reason why there are none.
    pub(crate) fn figures<U>(self, figures: impl FnOnce(T) -> U) -> Result<U, String> {
        self.state.map(figures)
    }
}

async fn bounded<U>(step: impl Future<Output = Result<U, String>>) -> Result<U, String> {
    match timeout(STEP_MAX, AssertUnwindSafe(step).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(first_line(panic.as_ref())),
        Err(_) => Err(format!("a step took more than {} s", STEP_MAX.as_secs())),
    }
}

fn first_line(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.and_then(|text| text.lines().next()).unwrap_or("it panicked").to_owned()
}
