//! The `sukkal` command.

fn main() {}
