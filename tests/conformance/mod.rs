//! The driver suite: every guarantee of the storage traits, tested for every driver.
//!
//! A case is an `async fn` of a file in `cases` that takes nothing but a [`subject::Subject`]. Its
//! name states the rule. Each case is one test per driver: `conformance::DRIVER::FILE::CASE`. A new
//! driver is one word below and a function of that name in `drivers`. Cases that only apply to one
//! driver are tests of their own.

mod cases;
mod model;
mod support;

// The driver comes first in a test's name, so that tests of one driver run next to each other and
// share its servers.
macro_rules! suite {
    (drivers: [$($driver:ident),+], cases: $cases:tt) => { $(suite! { $driver $cases })+ };
    ($driver:ident { $($file:ident: [$($case:ident),+ $(,)?]),+ $(,)? }) => {
        mod $driver {
            $(mod $file {
                $(#[tokio::test]
                async fn $case() {
                    let subject = crate::conformance::support::drivers::$driver();
                    subject.wait_until_ready().await;
                    crate::conformance::cases::$file::$case(&subject).await;
                    subject.assert_consistent().await;
                })+
            })+
        }
    };
}

// `build.rs` lists the cases in the macros `every_case` and `single_store_case`.
include!(concat!(env!("OUT_DIR"), "/cases.rs"));

every_case!(redis, redis_cluster, embedded, memory, pooled_redis, pooled_embedded);

/// Cases for single stores. With pools, the list of pools is in the management store; and a dead
/// letter that goes to another store may arrive after the response, which the model does not
/// expect.
mod single_stores {
    single_store_case!(redis, redis_cluster, embedded, memory);
}
