//! Puts the service together and runs it: store, broker, HTTP, janitor; and takes it down in order.

use std::future::{Future, IntoFuture};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::api::http::{Service, Settings, router};
use crate::broker::Broker;
use crate::config::Config;
use crate::janitor;
use crate::storage::redis::{InvalidUri, RedisStore, RedisUri};
use crate::storage::{self, Driver};

/// Why the service does not run.
#[derive(Debug, Error)]
pub enum Error {
    /// The store's address makes no sense.
    #[error("store: {0}")]
    StoreUri(#[from] InvalidUri),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] storage::Error),
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}: {reason}")]
    Bind {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        reason: io::Error,
    },
    /// The network broke down.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Serves until `stop` is over, then finishes what is under way.
pub async fn serve(config: &Config, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
    let uri: RedisUri = config.store.parse()?;
    let store: Arc<dyn Driver> = Arc::new(RedisStore::open(&uri)?);
    let broker = Broker::new(store.clone(), config.transport.limits.clone());
    let settings = Settings { admin_mode: config.admin_mode, client_id: config.transport.client_id() };
    let service = Service { broker: broker.clone(), settings: Arc::new(settings) };

    let listener =
        TcpListener::bind(config.bind).await.map_err(|reason| Error::Bind { address: config.bind, reason })?;
    info!(address = %listener.local_addr()?, store = %uri, "listening");
    let janitor = tokio::spawn(janitor::run(store, Duration::from_secs(config.janitor.pause_s)));

    let (stopping, mut stopped) = watch::channel(false);
    let signal = async move {
        stop.await;
        info!("draining");
        stopping.send_replace(true);
    };
    let listener = listener.tap_io(|stream| {
        // Answers are small and complete; waiting for more to send would only delay them.
        let _best_effort = stream.set_nodelay(true);
    });
    let server = axum::serve(listener, router(service)).with_graceful_shutdown(signal);
    let patience = async {
        let _sender_lives = stopped.wait_for(|stopping| *stopping).await;
        tokio::time::sleep(Duration::from_secs(config.drain_timeout_s)).await;
    };
    tokio::select! {
        outcome = server.into_future() => outcome?,
        () = patience => warn!("some requests did not finish in time"),
    }
    janitor.abort();
    broker.drain().await;
    info!("stopped");
    Ok(())
}
