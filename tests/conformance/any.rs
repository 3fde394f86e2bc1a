//! What holds for anything of a kind: random values, tried one after the other, and the simplest of those that fail.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use tokio::runtime::Handle;

use super::seed::seed;

/// Fails unless the claim holds for so many random values.
pub(super) async fn holds_for_any<S: Strategy>(
    cases: u32,
    values: impl FnOnce() -> S + Send + 'static,
    claim: impl AsyncFn(S::Value) + Send + 'static,
) {
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed()),
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let runtime = Handle::current();
    let verdict = tokio::task::spawn_blocking(move || {
        let run = |value| {
            runtime.block_on(claim(value));
            Ok(())
        };
        TestRunner::new(config).run(&values(), run).map_err(|error| error.to_string())
    });
    if let Err(error) = verdict.await.expect("the runner does not panic") {
        panic!("{error}");
    }
}
