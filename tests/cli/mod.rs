//! Commands that use the service as anybody might.

mod bench;
mod stand_in;
