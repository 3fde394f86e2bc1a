//! What the stores, the service and the command line share: bounds on memory, connections to other
//! servers, and texts from files.

pub mod memory_budget;
pub mod outbound;
pub mod text;
