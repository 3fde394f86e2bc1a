//! Options of a broker for unit tests: the default values.

use serde::de::DeserializeOwned;

use sukkal_domain::options::{Declarations, Declare};
use sukkal_domain::{Limits, PushConfig};

pub(super) fn limits() -> Limits {
    defaults()
}

pub(super) fn push_config() -> PushConfig {
    defaults()
}

fn defaults<T: Declare + DeserializeOwned>() -> T {
    toml::from_str(&Declarations::of::<T>().into_text()).unwrap()
}
