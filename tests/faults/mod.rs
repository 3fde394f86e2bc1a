//! Faults: Redis down, full or silent, clients that disconnect, and processes that are told to
//! stop.

mod addresses;
mod cluster;
mod cuts;
mod disconnected_waiters;
mod drain;
mod durability;
mod embedded;
mod failovers;
mod full;
mod full_claims;
mod full_disk;
pub(crate) mod gate;
mod half_done;
mod half_expired;
mod half_placed;
mod hang_up;
mod janitor;
mod layout;
mod lost_delivery_replies;
mod lost_replies;
mod misconfigured;
mod options;
mod outage;
mod overload;
mod power_cut;
pub(crate) mod process;
mod redis_tls;
mod redrive;
mod registration;
mod rekey;
mod requests;
mod sentinel;
mod service_manager;
mod stalls;
mod stored;
mod waiting;
