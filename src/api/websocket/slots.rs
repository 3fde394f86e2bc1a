//! The slots of WebSockets: how many there may be. A client that is unknown has its slot only
//! until another one needs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::wire::Error;

/// Unknown clients have at most one of this number of slots.
const UNKNOWN_SHARE: usize = 4;

/// The slots of the process. Clones share them.
#[derive(Clone)]
pub(in crate::api) struct Slots(Arc<SharedSlots>);

struct SharedSlots {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// Number of slots of known clients.
    known: usize,
    /// The slots of unknown clients, each with the token that ends its connection, from the oldest
    /// one on.
    unknown: BTreeMap<u64, CancellationToken>,
    next_number: u64,
}

/// A slot, until it is dropped.
pub(super) struct Slot {
    slots: Slots,
    /// The number of the slot of an unknown client.
    number: Option<u64>,
    lost: CancellationToken,
}

impl Slots {
    pub(in crate::api) fn new(max: usize) -> Self {
        Self(Arc::new(SharedSlots { max, taken: Mutex::default() }))
    }

    /// Takes a slot, if necessary that of the unknown client that has had one for longest.
    pub(super) fn take(&self, is_known: bool) -> Result<Slot, Error> {
        let max = self.0.max;
        let mut taken = self.0.taken.lock();
        let is_full = taken.known + taken.unknown.len() >= max;
        let has_share = !is_known && taken.unknown.len() >= max.div_ceil(UNKNOWN_SHARE);
        if is_full || has_share {
            let (_, lost) = taken.unknown.pop_first().ok_or(Error::TooManySockets(max))?;
            lost.cancel();
        }
        let mut slot = Slot { slots: self.clone(), number: None, lost: CancellationToken::new() };
        if is_known {
            taken.known += 1;
        } else {
            let number = taken.next_number;
            taken.next_number += 1;
            taken.unknown.insert(number, slot.lost.clone());
            slot.number = Some(number);
        }
        Ok(slot)
    }
}

impl Slot {
    /// Completes when another client has got the slot.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Keeps the slot, because the client is known now.
    pub(super) fn keep(&mut self) {
        let Some(number) = self.number else { return };
        let mut taken = self.slots.0.taken.lock();
        if taken.unknown.remove(&number).is_some() {
            taken.known += 1;
            self.number = None;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.0.taken.lock();
        match self.number {
            Some(number) => drop(taken.unknown.remove(&number)),
            None => taken.known -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_clients_get_the_places_of_unknown_ones() {
        let slots = Slots::new(4);
        let unknown: Vec<Slot> = (0..3).map(|_| slots.take(false).unwrap()).collect();
        let lost = |slot: &Slot| slot.lost.is_cancelled();
        assert_eq!(unknown.iter().map(lost).collect::<Vec<_>>(), [true, true, false]);

        let mut known: Vec<Slot> = (0..4).map(|_| slots.take(true).unwrap()).collect();

        assert!(lost(&unknown[2]) && !known.iter().any(lost));
        assert!(slots.take(true).is_err() && slots.take(false).is_err());
        known.pop();
        drop(unknown);
        let mut authenticated = slots.take(false).unwrap();
        authenticated.keep();
        assert!(slots.take(true).is_err() && !lost(&authenticated));
        drop((known, authenticated));
        assert!((0..4).map(|_| slots.take(true)).collect::<Vec<_>>().iter().all(Result::is_ok));
    }
}
