//! Forwards the locks of a storage backend to the backend that it wraps.

/// Implements the lock methods of `StorageBackend` by those of a field.
macro_rules! forward_locks {
    (@ $backend:tt: $($name:ident -> $result:ty),+) => {
        $(forward_locks! { @@ $backend $name $result })+
    };
    (@@ ($($backend:tt)+) $name:ident $result:ty) => {
        fn $name(&self, start: std::ops::Bound<u64>, end: std::ops::Bound<u64>) -> Result<$result, redb::BackendError> {
            self.$($backend)+.$name(start, end)
        }
    };
    ($($backend:tt)+) => {
        forward_locks! { @ ($($backend)+):
            try_lock_range -> bool, try_lock_shared_range -> bool, lock_range -> (), lock_shared_range -> (),
            unlock_range -> (), query_lock_range -> bool
        }
    };
}

pub(crate) use forward_locks;
