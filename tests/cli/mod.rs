//! Commands that are clients of the service.

mod bench;
mod ready;
mod stand_in;
