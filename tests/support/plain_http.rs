//! HTTP clients for servers without TLS.
//!
//! A client of reqwest has a TLS configuration all the same. Without one of its own, it panics,
//! because nothing sets a TLS provider for the whole process.

use reqwest::{Client, ClientBuilder, IntoUrl, Response, Result};
use sukkal_base::outbound::tls_config;
use tokio_rustls::rustls::RootCertStore;

/// Returns the settings of a client.
pub fn builder() -> ClientBuilder {
    Client::builder().tls_backend_preconfigured(tls_config(RootCertStore::empty()))
}

/// Returns a client with these settings.
pub fn client() -> Client {
    builder().build().expect("these settings are valid")
}

/// Sends a `GET` request with a client of its own.
pub async fn get(url: impl IntoUrl) -> Result<Response> {
    client().get(url).send().await
}
