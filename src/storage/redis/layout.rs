//! The version of the layout that a store in Redis has. A store of another layout is refused before anything is done
//! in it.
//!
//! The version is one key of a deployment, in a cluster too. It is written when the store is empty. Layout 1 had no version; it is
//! recognized by a key that later layouts do not use.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::storage::Error;

/// The layout that this release reads and writes.
pub(super) const LAYOUT: &str = "2";
/// A key of layout 1, which is there since the first queue was created.
pub(super) const KEY_OF_LAYOUT_1: &str = "sukkal:projects";

/// What is known about the layout of the store. Clones are the same.
#[derive(Clone)]
pub(super) struct Layout(Arc<watch::Sender<Finding>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Finding {
    /// It could not be read or written yet, for this reason.
    Unknown(String),
    /// It is ours.
    Ours,
    /// It is another one, named in this message.
    Other(String),
}

impl Layout {
    pub(super) fn unknown() -> Self {
        Self(Arc::new(watch::Sender::new(Finding::Unknown("the store has not answered yet".to_owned()))))
    }

    /// Notes which version a store at this address has, `None` for a store without a version that is not empty.
    pub(super) fn found(&self, version: Option<&str>) {
        let finding = if version == Some(LAYOUT) { Finding::Ours } else { Finding::Other(refusal(version)) };
        self.0.send_replace(finding);
    }

    /// Notes why the version cannot be read or written. Returns whether that is another reason than before.
    pub(super) fn not_found(&self, reason: &str) -> bool {
        self.0.send_if_modified(|finding| match finding {
            Finding::Unknown(known) if known != reason => {
                reason.clone_into(known);
                true
            }
            _ => false,
        })
    }

    pub(super) fn is_ours(&self) -> bool {
        *self.0.borrow() == Finding::Ours
    }

    /// Waits until the store is known to have our layout.
    pub(super) async fn admit(&self, patience: Duration) -> Result<(), Error> {
        let mut receiver = self.0.subscribe();
        let known = receiver.wait_for(|finding| !matches!(finding, Finding::Unknown(_)));
        let _known_or_not = timeout(patience, known).await.is_ok();
        let finding = self.0.borrow().clone();
        match finding {
            Finding::Ours => Ok(()),
            Finding::Other(reason) | Finding::Unknown(reason) => Err(Error::Unavailable(reason)),
        }
    }

    /// Completes if the store turns out to have another layout, and says so.
    pub(super) async fn refused(&self) -> String {
        let mut receiver = self.0.subscribe();
        loop {
            if let Finding::Other(reason) = &*receiver.borrow_and_update() {
                return reason.clone();
            }
            if receiver.changed().await.is_err() {
                // Nobody can find anything any more.
                return std::future::pending().await;
            }
        }
    }
}

fn refusal(version: Option<&str>) -> String {
    let version = version.unwrap_or("1");
    format!(
        "Redis holds data of Sukkal in layout {version:?}; this release reads layout {LAYOUT:?} only. Use the release that \
         wrote the data, or another Redis or database"
    )
}
