//! Real clients of the API: python-zaqarclient, a browser, and schemathesis against the contract.

mod browser;
mod checksum;
mod contract;
mod schemathesis;
mod zaqarclient;
