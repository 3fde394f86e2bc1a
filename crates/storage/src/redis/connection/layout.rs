//! The version of the data layout in Redis. A store with another version is refused before any
//! operation runs on it.
//!
//! The version is one key, in a cluster too. It is written when the store is empty. Layout 1 had no
//! version; it is recognized by a key that later layouts do not use. While a migration fills a
//! store, the key has the id of the migration instead of a version, so that no process uses the
//! store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

use crate::Error;
use crate::redis::uri::Clock;

/// The layout that an empty store gets.
const LAYOUT: &str = "4";
/// The layout of the release before, which this one reads and writes too.
const LAYOUT_BEFORE: &str = "3";
/// What the version of a store has after its number if tests can move the clock. Other processes
/// would take its times for real ones.
const WITH_MOVABLE_CLOCK: &str = " with a movable clock";
/// Begins the layout of a store that a migration fills.
const MIGRATING: &str = "migrating ";
/// A key of layout 1, which exists since the first queue was created.
pub(super) const KEY_OF_LAYOUT_1: &str = "sukkal:projects";

/// A layout that this release reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::redis) enum Version {
    /// The one that earlier releases read and write too.
    Three = 3,
    /// The one of new stores.
    Four = 4,
}

/// The layout that a process expects, and what is known about that of the store. Clones share it.
#[derive(Clone)]
pub(super) struct Layout {
    /// What an empty store gets.
    expected: Arc<str>,
    state: Arc<watch::Sender<LayoutState>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LayoutState {
    /// The version could not be read or written yet, for this reason.
    Unknown(String),
    /// The layout is one that this release supports.
    Supported(Version),
    /// The layout is another one, as this message says.
    Unsupported(String),
}

/// Returns the layout of a store whose scripts read this clock.
pub(in crate::redis) fn layout_of(clock: Clock) -> String {
    match clock {
        Clock::Redis => LAYOUT.to_owned(),
        Clock::Movable => format!("{LAYOUT}{WITH_MOVABLE_CLOCK}"),
    }
}

/// Returns the layout of a store that the migration with this id fills.
pub(in crate::redis) fn migrating_layout(id: Uuid) -> String {
    format!("{MIGRATING}{id}")
}

impl Layout {
    pub(super) fn expecting(layout: &str) -> Self {
        let state = LayoutState::Unknown("the store has not answered yet".to_owned());
        Self { expected: layout.into(), state: Arc::new(watch::Sender::new(state)) }
    }

    /// Returns the expected layout.
    pub(super) fn expected(&self) -> &str {
        &self.expected
    }

    /// Returns whether a migration fills the store, which must be empty before.
    pub(super) fn is_migrating(&self) -> bool {
        self.expected.starts_with(MIGRATING)
    }

    /// Records the version of the store; `None` for a store that is not empty and has no version.
    pub(super) fn set_version(&self, version: Option<&str>) {
        let state = self.supported_version(version).map_or_else(
            || LayoutState::Unsupported(unsupported_message(&self.expected, version)),
            LayoutState::Supported,
        );
        self.state.send_replace(state);
    }

    /// Records why the version cannot be read or written. Returns whether the reason is new.
    pub(super) fn set_unknown(&self, reason: &str) -> bool {
        self.state.send_if_modified(|state| match state {
            LayoutState::Unknown(known) if known != reason => {
                reason.clone_into(known);
                true
            }
            _ => false,
        })
    }

    fn supported_version(&self, version: Option<&str>) -> Option<Version> {
        let version = version?;
        if version == &*self.expected {
            return Some(Version::Four);
        }
        let clock = self.expected.strip_prefix(LAYOUT)?;
        (version.strip_prefix(LAYOUT_BEFORE)? == clock).then_some(Version::Three)
    }

    /// Returns the version of the store, if it is known and supported.
    pub(super) fn version(&self) -> Option<Version> {
        match *self.state.borrow() {
            LayoutState::Supported(version) => Some(version),
            LayoutState::Unknown(_) | LayoutState::Unsupported(_) => None,
        }
    }

    /// Waits up to `wait_max` until the store is known to have a supported layout.
    ///
    /// Returns [`Error::Unavailable`] if the layout is another one or still unknown.
    pub(super) async fn wait_until_supported(&self, wait_max: Duration) -> Result<Version, Error> {
        let mut receiver = self.state.subscribe();
        let known = receiver.wait_for(|state| !matches!(state, LayoutState::Unknown(_)));
        let _known_or_not = timeout(wait_max, known).await.is_ok();
        let state = self.state.borrow().clone();
        match state {
            LayoutState::Supported(version) => Ok(version),
            LayoutState::Unsupported(reason) | LayoutState::Unknown(reason) => Err(Error::Unavailable(reason)),
        }
    }

    /// Completes with a message if the store turns out to have another layout.
    pub(super) async fn unsupported(&self) -> String {
        let mut receiver = self.state.subscribe();
        loop {
            if let LayoutState::Unsupported(reason) = &*receiver.borrow_and_update() {
                return reason.clone();
            }
            if receiver.changed().await.is_err() {
                // The sender is gone, so the state cannot change any more.
                return std::future::pending().await;
            }
        }
    }
}

fn unsupported_message(expected: &str, version: Option<&str>) -> String {
    let version = version.unwrap_or("1");
    match (expected.starts_with(MIGRATING), version.starts_with(MIGRATING)) {
        (false, false) => format!(
            "Redis holds data of Sukkal in layout {version:?}; this process reads layouts {LAYOUT_BEFORE:?} and \
             {expected:?} only. Use the release that wrote the data, or another Redis or database"
        ),
        (false, true) => "a migration to this Redis is not complete: repeat `sukkal migrate`, or remove all keys that \
                          begin with sukkal:"
            .to_owned(),
        (true, false) => "Redis has data of Sukkal already; a migration needs a Redis or a database without any keys \
                          that begin with sukkal:"
            .to_owned(),
        (true, true) => "another store is being migrated to this Redis: complete that migration, or remove all keys \
                         that begin with sukkal:"
            .to_owned(),
    }
}
