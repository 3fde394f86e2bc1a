//! Values of keys that exist as long as somebody uses them, such as locks and limits of projects.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The values that are in use. One that nobody uses any more is dropped.
#[derive(Debug)]
pub struct InUse<K, V>(Mutex<HashMap<K, Weak<V>>>);

impl<K: Eq + Hash, V> InUse<K, V> {
    /// Returns the value of a key. If nobody uses it, that is a new one.
    pub fn get_or_insert_with(&self, key: K, new: impl FnOnce() -> Arc<V>) -> Arc<V> {
        let mut values = self.0.lock();
        if let Some(value) = values.get(&key).and_then(Weak::upgrade) {
            return value;
        }
        values.retain(|_, value| value.strong_count() > 0);
        let value = new();
        values.insert(key, Arc::downgrade(&value));
        value
    }

    /// Returns the number of values that are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl<K, V> Default for InUse<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
