//! Commands that are clients of the service.

mod backup;
mod bench;
mod client;
mod completion;
mod misbehavior;
mod ready;
mod stand_in;
mod tls;
mod transcript;
mod transcripts;
