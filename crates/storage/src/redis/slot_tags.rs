//! Hash tags that name the slots of a cluster, so that each slot can have a key of its own.
//!
//! The tag of a slot is the smallest number whose decimal text hashes to the slot. Tags are part of
//! the layout. A store that is not a cluster counts as one slot, 0.

use std::sync::LazyLock;

use fred::util::redis_keyslot;

/// Number of slots of a cluster.
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

/// Returns the tag of a slot.
pub(super) fn tag(slot: u16) -> u32 {
    TAGS[usize::from(slot)]
}
