//! Real clients of the API: python-zaqarclient, and schemathesis against the contract.

mod checksum;
mod contract;
mod schemathesis;
mod zaqarclient;
