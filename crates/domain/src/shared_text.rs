//! Ids and names that are text, of which clones share one allocation.

/// Implements `as_str` and `Display` for types that wrap an `Arc<str>`.
macro_rules! shared_text {
    ($($name:ident),+) => {$(
        impl $name {
            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

pub(super) use shared_text;
