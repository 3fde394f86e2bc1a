//! `[console]`: the console.

use serde::Deserialize;

use sukkal_domain::options::{Rule, options};

options! {
    /// `[console]`: the console.
    #[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
    pub struct Console {
        /// Whether the service has a console at /console, in which operators see and manage queues
        /// with a browser. Its pages show nothing without the rights that the API requires.
        /// Accepted: true or false. The default is true.
        pub enabled: bool = true in Rule::Boolean;
    }
}
