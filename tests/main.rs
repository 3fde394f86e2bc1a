//! All integration tests in one binary, which is linked once and whose tests share servers.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a panic is how a test fails")]

mod auth;
mod blocking;
mod byte_order_marks;
mod cli;
mod clients;
mod conformance;
mod console;
mod documented;
mod exclusive_claims;
mod faults;
mod feed_order;
mod fence_recipes;
mod guides;
mod http;
mod migration;
mod operations;
mod pools;
mod private_keys;
mod push;
mod quotas;
mod read_back;
mod resharding;
mod siege;
mod tidy;
mod tls;
mod unreadable;
mod wake_ups;
mod websocket;
mod wire;
