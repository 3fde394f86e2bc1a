//! The states of messages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::Part;
use crate::embedded::rows::located::Located;
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::read::View;
use crate::key::rank_of;
use sukkal_domain::{ClaimId, ClientId, Message, MessageState, QueueId};

impl<T: Table> View<T> {
    /// Returns these messages with their states.
    pub(crate) fn messages_with_states(
        &self,
        queue: &QueueId,
        number: u64,
        state: &QueueState,
        located: &[Located],
        now_us: u64,
    ) -> Result<Vec<Message>, Error> {
        let mut messages = self.messages(queue, number, located.iter().copied(), now_us)?;
        let mut claims = HashMap::new();
        for (message, located) in messages.iter_mut().zip(located) {
            message.state = Some(self.message_state(number, state, located, &mut claims)?);
        }
        Ok(messages)
    }

    /// Returns the state of a message. `claims` has the expiry and the client of the claims that
    /// have been read so far.
    fn message_state(
        &self,
        number: u64,
        state: &QueueState,
        located: &Located,
        claims: &mut HashMap<ClaimId, (u64, ClientId)>,
    ) -> Result<MessageState, Error> {
        let Some(claim) = located.entry.claim else {
            return Ok(match located.set {
                Part::InFlight => MessageState::Delayed { until_us: located.entry.returned_until_us },
                Part::Delayed => {
                    MessageState::Delayed { until_us: rank_of(located.key()).saturating_sub(state.offset) }
                }
                _ => MessageState::Available,
            });
        };
        let (until_us, client) = match claims.entry(claim) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let row = self.claim(number, claim)?.ok_or_else(|| damaged("a claim"))?;
                unknown.insert((row.end_us, row.client))
            }
        };
        Ok(MessageState::Claimed { until_us: *until_us, client: client.clone() })
    }
}
