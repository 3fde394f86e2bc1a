//! Tests of the Redis store that inspect its keys and commands.

mod access_control;
mod bytes;
mod check;
mod claim_keys;
mod concurrent_posts;
mod dead_letters;
mod deliveries;
mod keys;
mod maintenance;
mod pops;
mod registrations;
mod states;
