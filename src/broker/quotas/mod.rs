//! Quotas of projects: the limits in force, the checks against them, and what projects use.

mod checks;
mod concurrency;
mod limits;
mod post_limits;
mod rates;
mod settings;
mod usage;
mod usage_cache;

pub(super) use self::concurrency::ConcurrencyLimit;
pub use self::concurrency::ConcurrencyUnit;
pub(super) use self::limits::Quotas;
pub(super) use self::post_limits::PostLimits;
pub use self::settings::QuotaSettings;
pub use self::usage::Usage;
