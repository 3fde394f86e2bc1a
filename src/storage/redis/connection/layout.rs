//! The version of the data layout in Redis. A store with another version is refused before any
//! operation runs on it.
//!
//! The version is one key, in a cluster too. It is written when the store is empty. Layout 1 had no
//! version; it is recognized by a key that later layouts do not use.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::storage::Error;

/// The layout that this release reads and writes.
pub(super) const LAYOUT: &str = "3";
/// A key of layout 1, which exists since the first queue was created.
pub(super) const KEY_OF_LAYOUT_1: &str = "sukkal:projects";

/// What is known about the layout of the store. Clones share it.
#[derive(Clone)]
pub(super) struct Layout(Arc<watch::Sender<State>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The version could not be read or written yet, for this reason.
    Unknown(String),
    /// The layout is the one that this release uses.
    Supported,
    /// The layout is another one, as this message says.
    Unsupported(String),
}

impl Layout {
    pub(super) fn unknown() -> Self {
        Self(Arc::new(watch::Sender::new(State::Unknown("the store has not answered yet".to_owned()))))
    }

    /// Records the version of the store; `None` for a store that is not empty and has no version.
    pub(super) fn set_version(&self, version: Option<&str>) {
        let state =
            if version == Some(LAYOUT) { State::Supported } else { State::Unsupported(unsupported_message(version)) };
        self.0.send_replace(state);
    }

    /// Records why the version cannot be read or written. Returns whether the reason is new.
    pub(super) fn set_unknown(&self, reason: &str) -> bool {
        self.0.send_if_modified(|state| match state {
            State::Unknown(known) if known != reason => {
                reason.clone_into(known);
                true
            }
            _ => false,
        })
    }

    pub(super) fn is_supported(&self) -> bool {
        *self.0.borrow() == State::Supported
    }

    /// Waits up to `wait_max` until the store is known to have the supported layout.
    ///
    /// Returns [`Error::Unavailable`] if the layout is another one or still unknown.
    pub(super) async fn wait_until_supported(&self, wait_max: Duration) -> Result<(), Error> {
        let mut receiver = self.0.subscribe();
        let known = receiver.wait_for(|state| !matches!(state, State::Unknown(_)));
        let _known_or_not = timeout(wait_max, known).await.is_ok();
        let state = self.0.borrow().clone();
        match state {
            State::Supported => Ok(()),
            State::Unsupported(reason) | State::Unknown(reason) => Err(Error::Unavailable(reason)),
        }
    }

    /// Completes with a message if the store turns out to have another layout.
    pub(super) async fn unsupported(&self) -> String {
        let mut receiver = self.0.subscribe();
        loop {
            if let State::Unsupported(reason) = &*receiver.borrow_and_update() {
                return reason.clone();
            }
            if receiver.changed().await.is_err() {
                // The sender is gone, so the state cannot change any more.
                return std::future::pending().await;
            }
        }
    }
}

fn unsupported_message(version: Option<&str>) -> String {
    let version = version.unwrap_or("1");
    format!(
        "Redis holds data of Sukkal in layout {version:?}; this release reads layout {LAYOUT:?} only. Use the release that \
         wrote the data, or another Redis or database"
    )
}
