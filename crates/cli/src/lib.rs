//! The part of the command line that knows a service by its API only: the client, and the
//! benchmark.

#![allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "the documentation of options is the text of --help")]

pub mod bench;
pub mod client;
pub mod duration;
pub mod exit;
