//! Real clients of the API: python-zaqarclient, a browser, clients generated from the contract, and schemathesis
//! against it.

mod browser;
mod checksum;
mod contract;
mod generated;
mod schemathesis;
mod zaqarclient;
