//! Commands that use the service as anybody might.

mod bench;
mod ready;
mod stand_in;
