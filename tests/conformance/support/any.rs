//! Property tests: random values are tried one after the other, and a failing value is reduced to a
//! simple one.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use tokio::runtime::Handle;

use support::random::seed;

/// Asserts that the property holds for `cases` random values.
pub(in crate::conformance) async fn check_random_values<S: Strategy>(
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
