//! What breaks: Redis gone, full or silent, clients that hang up, processes that are told to stop.
