//! A service over a store that outlives it. It restarts while a console is open.

use std::net::SocketAddr;

use tempfile::TempDir;

use super::{Console, PROJECT};
use support::ports::free_port;
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};

const UNREACHABLE: &str = "The service cannot be reached";

/// Runs each of these tests over Redis and over an embedded store.
macro_rules! over_both_stores {
    ($($test:ident,)*) => {
        mod redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::console::service::Store::redis()).await;
            })*
        }

        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::console::service::Store::embedded()).await;
            })*
        }
    };
}
pub(super) use over_both_stores;

/// A store that is removed on drop.
pub(super) enum Store {
    Redis(RedisServer),
    Embedded(TempDir),
}

impl Store {
    pub(super) fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    pub(super) fn embedded() -> Self {
        Self::Embedded(tempfile::tempdir().unwrap())
    }

    fn url(&self) -> String {
        match self {
            Self::Redis(redis) => redis.url(),
            Self::Embedded(folder) => format!("embedded:{}", folder.path().display()),
        }
    }
}

/// A service that keeps its address and its store when it restarts.
pub(super) struct Service {
    sukkal: Sukkal,
    address: SocketAddr,
    options: Vec<(String, String)>,
    store: Store,
}

impl Service {
    /// Starts a service with these environment variables.
    pub(super) fn start(store: Store, options: &[(&str, &str)]) -> Self {
        let address: SocketAddr = ([127, 0, 0, 1], free_port()).into();
        let sukkal = Sukkal::start_where(&address.to_string(), &store.url(), options);
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { sukkal, address, options, store }
    }

    pub(super) fn sukkal(&self) -> &Sukkal {
        &self.sukkal
    }

    pub(super) fn url(&self, path: &str) -> String {
        self.sukkal.url(path)
    }

    /// Returns a client for the project of the console.
    pub(super) fn api(&self) -> Api {
        self.sukkal.project(PROJECT)
    }

    pub(super) fn stop(&mut self) {
        self.sukkal.terminate();
        assert!(self.sukkal.wait().success());
    }

    pub(super) fn start_again(&mut self) {
        let options: Vec<(&str, &str)> = self.options.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.sukkal = Sukkal::start_where(&self.address.to_string(), &self.store.url(), &options);
    }

    /// Restarts the service while the console shows a page that refreshes itself. The page says
    /// that the service is away, and recovers without the help of its reader.
    pub(super) async fn restart(&mut self, console: &Console) {
        self.stop();
        console.shows(UNREACHABLE).await;
        self.start_again();
        console.hides(UNREACHABLE).await;
    }

    /// Restarts the service while the console shows a page that is read only on demand. `click`
    /// reads it, and `Retry` repeats that.
    pub(super) async fn restart_and_retry(&mut self, console: &Console, click: &str) {
        self.stop();
        console.click(click).await;
        console.shows(UNREACHABLE).await;
        self.start_again();
        console.click("Retry").await;
        console.hides(UNREACHABLE).await;
    }
}
