//! Names for the slots of a cluster, so that there can be one key in each.
//!
//! The tag of a slot is the smallest number whose decimal text hashes to the slot. It is part of the layout. A
//! store that is no cluster counts as one slot, 0.

use std::sync::LazyLock;

use fred::util::redis_keyslot;

use super::keys;

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16_384;

static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; usize::from(SLOTS)];
    let mut missing = tags.len();
    for number in 0_u32.. {
        let tag = &mut tags[usize::from(redis_keyslot(number.to_string().as_bytes()))];
        if tag.is_none() {
            *tag = Some(number);
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    tags.into_iter().flatten().collect()
});

/// The key of the index of due queues in a slot.
pub(super) fn due_key(slot: u16) -> String {
    keys::due(TAGS[usize::from(slot)])
}

/// A key of a slot that never exists.
pub(super) fn probe_key(slot: u16) -> String {
    keys::probe(TAGS[usize::from(slot)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_a_key_of_its_own() {
        for slot in 0..SLOTS {
            assert_eq!(redis_keyslot(due_key(slot).as_bytes()), slot);
        }
    }

    #[test]
    fn tags_stay_what_they_are() {
        let keys = [0, 1, 8_191, SLOTS - 1].map(due_key);

        assert_eq!(keys, ["sukkal:{3560}:due", "sukkal:{22179}:due", "sukkal:{42163}:due", "sukkal:{39296}:due"]);
    }
}
