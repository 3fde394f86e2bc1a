//! Who may send requests, and what each sender may do.

mod audit;
mod check_order;
mod credential_end;
mod host;
mod jwt;
mod keystone;
mod logged_secrets;
pub(crate) mod matrix;
mod policy;
mod proxy;
mod start;
mod stub;
pub(crate) mod stub_keystone;
pub(crate) mod stub_provider;
mod tokens;
mod trusts;
mod unknown_clients;
mod verified;

use std::net::{IpAddr, Ipv4Addr};

use support::sukkal::Sukkal;

pub(crate) const STRATEGIES: &str = "SUKKAL_AUTH__STRATEGIES";
pub(crate) const TRUSTED_PROXIES: &str = "SUKKAL_AUTH__TRUSTED_PROXIES";
const SECRET_KEY: &str = "SUKKAL_SIGNED_URL__SECRET_KEY";
const UNAUTHORIZED: &str = "Unauthorized";
const FORBIDDEN: &str = "Not authorized";

/// The address of clients that are no trusted proxy.
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Starts a server that trusts the headers of 127.0.0.1, with other options too.
fn behind_a_proxy(others: &[(&str, &str)]) -> Sukkal {
    Sukkal::start_with("memory:", &[&[(STRATEGIES, "proxy"), (TRUSTED_PROXIES, "127.0.0.1")], others].concat())
}
