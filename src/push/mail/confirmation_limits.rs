//! Limits the mails that ask people to confirm. Otherwise, a client could flood somebody by many
//! subscriptions, or by one that it creates again and again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::{MailTo, ProjectId};

/// The time in which mails are counted.
const PERIOD: Duration = Duration::from_secs(3_600);
/// Maximum number of mails to one address in that time.
const PER_ADDRESS_MAX: usize = 3;
/// Maximum number of mails of one project in that time.
const PER_PROJECT_MAX: usize = 100;
/// Maximum number of addresses and projects that are counted. Beyond it, no mail is sent.
const COUNTED_MAX: usize = 100_000;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Counted {
    /// In lower case, and without what follows a plus sign in the name. Such addresses have one
    /// mailbox.
    Address(String),
    Project(ProjectId),
}

/// The mails of the last hour.
#[derive(Default)]
pub(super) struct ConfirmationLimits(Mutex<HashMap<Counted, Vec<Instant>>>);

impl ConfirmationLimits {
    /// Counts a mail of a project to these recipients. Returns why it may not be sent.
    pub(super) fn count(&self, project: &ProjectId, mailto: &MailTo) -> Result<(), String> {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if sent.len() >= COUNTED_MAX {
            sent.retain(|_, times| times.last().is_some_and(|time| now.duration_since(*time) < PERIOD));
        }
        let mut counted: Vec<_> = mailto.recipients.iter().map(|one| (mailbox(one), PER_ADDRESS_MAX)).collect();
        counted.push((Counted::Project(project.clone()), PER_PROJECT_MAX));
        if sent.len() + counted.len() > COUNTED_MAX {
            return Err("there were too many confirmations in the last hour".to_owned());
        }
        for (one, max) in &counted {
            let times = sent.entry(one.clone()).or_default();
            times.retain(|time| now.duration_since(*time) < PERIOD);
            if times.len() >= *max {
                return Err(match one {
                    Counted::Address(_) => format!("the recipient has got {max} confirmations in the last hour"),
                    Counted::Project(_) => format!("the project has sent {max} confirmations in the last hour"),
                });
            }
        }
        for (one, _) in counted {
            sent.entry(one).or_default().push(now);
        }
        Ok(())
    }
}

fn mailbox(address: &lettre::Address) -> Counted {
    let name = address.user().split('+').next().unwrap_or_default();
    Counted::Address(format!("{name}@{}", address.domain()).to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(limits: &ConfirmationLimits, project: &str, mailto: &str) -> Result<(), String> {
        limits.count(&ProjectId::new(project).unwrap(), &MailTo::parse(mailto).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_mailbox_gets_three_confirmations_in_an_hour_from_all_projects() {
        let limits = ConfirmationLimits::default();
        for (project, mailto) in [("p", "a@b.example"), ("q", "A+x@b.example"), ("r", "a+y@B.example")] {
            assert_eq!(count(&limits, project, mailto), Ok(()));
        }
        assert!(count(&limits, "s", "a@b.example").unwrap_err().starts_with("the recipient has got 3"));
        assert_eq!(count(&limits, "s", "c@b.example"), Ok(()));
        tokio::time::advance(PERIOD).await;
        assert_eq!(count(&limits, "s", "a@b.example"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_project_sends_a_hundred_confirmations_in_an_hour() {
        let limits = ConfirmationLimits::default();
        for number in 0..100 {
            assert_eq!(count(&limits, "p", &format!("a{number}@b.example")), Ok(()));
        }
        assert!(count(&limits, "p", "a@b.example").unwrap_err().starts_with("the project has sent 100"));
        assert_eq!(count(&limits, "q", "a@b.example"), Ok(()));
    }
}
