//! Real clients of the API: python-zaqarclient, and schemathesis against the contract.

mod contract;
mod schemathesis;
mod zaqarclient;
