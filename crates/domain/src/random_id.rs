//! Ids that are random UUIDs: of claims, tasks, subscriptions and tokens.

/// Defines an id that is a random UUID. Ids are ordered by their bytes.
macro_rules! random_id {
    ($(#[$documentation:meta])* $name:ident) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(uuid::Uuid);

        impl $name {
            /// Returns a new random id.
            #[must_use]
            pub fn random() -> Self {
                Self(uuid::Uuid::new_v4())
            }

            /// Parses an id in its canonical form: lowercase, with hyphens. No id has another form.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                uuid::Uuid::try_parse(text).ok().map(Self).filter(|id| id.to_string() == text)
            }

            /// Parses an id that a client names. A text of another form becomes an id that does not
            /// exist, so the store answers as it does to any unknown id.
            #[must_use]
            pub fn parse_or_unknown(text: &str) -> Self {
                Self::parse(text).unwrap_or_else(Self::random)
            }

            /// Returns the id with these bytes, as a store keeps it.
            #[must_use]
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(uuid::Uuid::from_bytes(bytes))
            }

            /// Returns the sixteen bytes of the id.
            #[must_use]
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }
    };
}

pub(super) use random_id;
