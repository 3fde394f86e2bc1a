//! A model of the turns of a fair queue, against which stores are tested.

use std::collections::{BTreeMap, VecDeque};

use sukkal_storage::PREFERRED_IN_A_ROW_MAX;

/// The position of messages without a shard: after all shards.
pub(in crate::conformance) const UNSHARDED: u16 = 1024;

/// The turn of a fair queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::conformance) struct TurnModel {
    /// The position that was served last.
    turn: Option<u16>,
    preferred_in_a_row: u16,
}

impl TurnModel {
    /// Takes up to `limit` of these available messages, which are given with their positions in
    /// rank order.
    pub(in crate::conformance) fn take<T: Copy>(&mut self, free: &[(u16, T)], limit: usize, prefer: &[u16]) -> Vec<T> {
        let mut places: BTreeMap<u16, VecDeque<T>> = BTreeMap::new();
        let mut preferred = Vec::new();
        for (position, message) in free {
            places.entry(*position).or_default().push_back(*message);
            if prefer.contains(position) && !preferred.contains(position) {
                preferred.push(*position);
            }
        }
        if self.preferred_in_a_row < PREFERRED_IN_A_ROW_MAX && !preferred.is_empty() {
            self.preferred_in_a_row += 1;
            return serve(&mut places, &preferred, limit).into_iter().map(|(_, message)| message).collect();
        }
        let (done, next): (Vec<u16>, Vec<u16>) = places.keys().partition(|position| Some(**position) <= self.turn);
        let served = serve(&mut places, &[next, done].concat(), limit);
        if let Some((position, _)) = served.last() {
            (self.turn, self.preferred_in_a_row) = (Some(*position), 0);
        }
        served.into_iter().map(|(_, message)| message).collect()
    }
}

/// Serves the positions round-robin, one message each, until `limit` is reached or none is left.
fn serve<T>(places: &mut BTreeMap<u16, VecDeque<T>>, positions: &[u16], limit: usize) -> Vec<(u16, T)> {
    let left = positions.iter().filter_map(|position| places.get(position)).map(VecDeque::len).sum();
    let mut round = positions.iter().cycle();
    let mut served = Vec::new();
    while served.len() < limit.min(left) {
        let position = *round.next().expect("a message is left");
        served.extend(places.get_mut(&position).and_then(VecDeque::pop_front).map(|message| (position, message)));
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_on_behind_the_last_and_begin_again_at_the_end() {
        let mut rotation = TurnModel::default();
        let free = [(7, 'a'), (3, 'b'), (7, 'c'), (UNSHARDED, 'd'), (3, 'e')];

        assert_eq!(rotation.take(&free, 1, &[]), ['b']);
        assert_eq!(rotation.take(&free[2..], 9, &[]), ['c', 'd', 'e']);
        assert_eq!(rotation.take(&free, 4, &[]), ['a', 'd', 'b', 'c']);
        assert_eq!(rotation.take(&free[..0], 4, &[]), [' '; 0]);
        assert_eq!(rotation.turn, Some(7));
    }

    #[test]
    fn a_preference_is_served_by_age_and_leaves_the_turn() {
        let mut rotation = TurnModel::default();
        let free = [(7, 'a'), (3, 'b'), (7, 'c'), (UNSHARDED, 'd'), (3, 'e')];

        for _ in 0..PREFERRED_IN_A_ROW_MAX {
            assert_eq!(rotation.take(&free, 3, &[3, 7, 5]), ['a', 'b', 'c']);
        }
        assert_eq!(rotation.take(&free, 1, &[7]), ['b']);
        assert_eq!(rotation.take(&free, 9, &[7]), ['a', 'c']);
        assert_eq!(rotation.take(&free, 1, &[5]), ['a']);
    }
}
