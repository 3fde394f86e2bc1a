//! Verifies the outboxes: each message can be delivered or returned.

use crate::embedded::check::findings::Findings;
use crate::embedded::engine::tables::Table;
use crate::embedded::transaction::read::View;
use crate::moved_messages::OutgoingMessage;
use crate::{Check, Error};

impl<T: Table> View<T> {
    pub(crate) fn check_outboxes(&self, check: &mut Check) -> Result<(), Error> {
        for source in self.queues_with_outbox(None, None)? {
            let mut findings = Findings { check, subject: format!("the outbox of {source}") };
            for row in self.outbox(&source)? {
                let (number, _, value) = row?;
                match OutgoingMessage::check(&source, &value) {
                    Ok(stored) => {
                        findings.expect(stored == number, format_args!("message {number} has number {stored}"));
                    }
                    Err(error) => findings.expect(false, error),
                }
            }
        }
        Ok(())
    }
}
