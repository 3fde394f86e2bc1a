//! Limits the mails that ask people to confirm. Otherwise, a client could flood somebody by many
//! subscriptions, or by one that it creates again and again.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use sukkal_domain::{MailTo, ProjectId};

/// The time in which mails are counted.
const PERIOD: Duration = Duration::from_secs(3_600);
/// Maximum number of mails to one address in that time.
const PER_ADDRESS_MAX: usize = 3;
/// Maximum number of mails of one project in that time.
const PER_PROJECT_MAX: usize = 100;
/// Maximum number of addresses and projects that are counted. Beyond it, no mail is sent to others.
const COUNTED_MAX: usize = 100_000;

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Counted {
    /// In lower case, and in the name without dots and what follows a plus sign. Such addresses
    /// have one mailbox, at least at some providers.
    Address(String),
    Project(ProjectId),
}

/// The mails of the last hour.
pub(super) struct ConfirmationLimits {
    counted_max: usize,
    sent: Mutex<HashMap<Counted, Vec<Instant>>>,
}

impl Default for ConfirmationLimits {
    fn default() -> Self {
        Self::new(COUNTED_MAX)
    }
}

impl ConfirmationLimits {
    fn new(counted_max: usize) -> Self {
        Self { counted_max, sent: Mutex::default() }
    }

    /// Counts a mail of a project to these recipients. Returns why it may not be sent, and then
    /// counts nothing.
    pub(super) fn count(&self, project: &ProjectId, mailto: &MailTo) -> Result<(), String> {
        let mut sent = self.sent.lock();
        let now = Instant::now();
        let is_recent = |time: &Instant| now.duration_since(*time) < PERIOD;
        let mut counted: BTreeSet<_> = mailto.recipients.iter().map(mailbox).collect();
        counted.insert(Counted::Project(project.clone()));
        for one in &counted {
            let recent = sent.get(one).map_or(0, |times| times.iter().filter(|time| is_recent(time)).count());
            match one {
                Counted::Address(_) if recent >= PER_ADDRESS_MAX => {
                    return Err(format!("the recipient has got {recent} confirmations in the last hour"));
                }
                Counted::Project(_) if recent >= PER_PROJECT_MAX => {
                    return Err(format!("the project has sent {recent} confirmations in the last hour"));
                }
                _ => {}
            }
        }
        let is_full = |sent: &HashMap<_, _>| {
            let new = counted.iter().filter(|one| !sent.contains_key(*one)).count();
            sent.len() + new > self.counted_max
        };
        if is_full(&sent) {
            sent.retain(|_, times| times.last().is_some_and(is_recent));
            if is_full(&sent) {
                return Err("there were too many confirmations in the last hour".to_owned());
            }
        }
        for one in counted {
            let times = sent.entry(one).or_default();
            times.retain(is_recent);
            times.push(now);
        }
        Ok(())
    }
}

fn mailbox(address: &lettre::Address) -> Counted {
    let name = address.user().split('+').next().unwrap_or_default().replace('.', "");
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
        for (project, mailto) in [("p", "ab@b.example"), ("q", "A.b+x.y@b.example"), ("r", "a.B+y@B.example")] {
            assert_eq!(count(&limits, project, mailto), Ok(()));
        }
        for again in ["ab@b.example", "a.b@b.example"] {
            assert!(count(&limits, "s", again).unwrap_err().starts_with("the recipient has got 3"));
        }
        assert_eq!(count(&limits, "s", "ab@b.b.example"), Ok(()), "dots of a domain matter");
        assert_eq!(count(&limits, "s", "c@b.example"), Ok(()));
        tokio::time::advance(PERIOD).await;
        assert_eq!(count(&limits, "s", "ab@b.example"), Ok(()));
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
    #[tokio::test(start_paused = true)]
    async fn a_project_that_has_reached_its_limit_takes_no_place_from_others() {
        let limits = ConfirmationLimits::new(PER_PROJECT_MAX + 3);
        for number in 0..1_000 {
            assert_eq!(count(&limits, "p", &format!("a{number}@b.example")).is_ok(), number < PER_PROJECT_MAX);
        }

        assert_eq!(count(&limits, "q", "a@c.example"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_free_again_after_an_hour() {
        let limits = ConfirmationLimits::new(3);
        assert_eq!(count(&limits, "p", "a@b.example"), Ok(()));
        assert!(count(&limits, "q", "c@b.example").unwrap_err().starts_with("there were too many"));
        tokio::time::advance(PERIOD / 2).await;
        assert_eq!(count(&limits, "p", "c@b.example"), Ok(()), "only the address is new");
        assert_eq!(count(&limits, "p", "c@b.example"), Ok(()), "nothing is new");

        tokio::time::advance(PERIOD / 2).await;

        assert_eq!(count(&limits, "p", "d@b.example"), Ok(()), "in the place of the first address");
        assert!(count(&limits, "p", "e@b.example").unwrap_err().starts_with("there were too many"));
    }
}
