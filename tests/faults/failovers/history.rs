//! What clients were told before, during and after a failover, and what must hold afterwards.
//!
//! Redis acknowledges a write before its replica has it. So a failover loses the last writes to the
//! old master. Responses within the *window* of the failover may be about such writes. All other
//! responses must hold. Times are microseconds of the test's own clock.

use std::collections::{BTreeMap, HashMap, HashSet};

/// From sending a request to reading its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) invoked: u64,
    pub(super) answered: u64,
}

/// An acknowledged post, claim or deletion of the messages with these tags. No two messages have
/// the same tag.
#[derive(Clone, Debug)]
pub(super) struct Acknowledged {
    pub(super) span: Span,
    pub(super) tags: Vec<u64>,
}

/// A message as it is listed: its id and its tag. If a post was waiting for the old master, the
/// service repeats it on the new one. Then two messages have its tag, and the first of them is
/// lost.
pub(super) type Listed = (String, u64);

/// All responses to clients, and the messages that exist at the end.
#[derive(Debug, Default)]
pub(super) struct History {
    /// From the last moment whose writes the replica is known to have until the first write to the
    /// new master.
    pub(super) window: (u64, u64),
    /// If posts require a receipt of a replica: the time in which no server had one.
    pub(super) without_replica: Option<(u64, u64)>,
    /// Posts to the feed, from which nothing is deleted, and to the queue of the workers.
    pub(super) feed_posts: Vec<Acknowledged>,
    pub(super) work_posts: Vec<Acknowledged>,
    /// What each observer has read, in order.
    pub(super) readings: Vec<Vec<Listed>>,
    pub(super) claims: Vec<Acknowledged>,
    pub(super) deletions: Vec<Acknowledged>,
    /// The messages that exist at the end, in order.
    pub(super) feed: Vec<Listed>,
    pub(super) work: Vec<Listed>,
}

/// The counts of one history, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Number of messages whose post was acknowledged.
    pub(super) acknowledged: usize,
    /// Number of these that do not exist, although no client has deleted them.
    pub(super) lost: usize,
    pub(super) observed: usize,
    pub(super) claimed: usize,
    pub(super) deleted: usize,
}

impl History {
    /// Returns the first violation, if there is one.
    pub(super) fn check(&self) -> Result<Summary, String> {
        let feed = tags_of(&self.feed);
        if feed.len() != self.feed.len() {
            return Err("a message is in the feed twice".to_owned());
        }
        for (observer, reading) in self.readings.iter().enumerate() {
            self.check_reading(reading).map_err(|wrong| format!("observer {observer} {wrong}"))?;
        }
        self.check_work()?;
        self.check_receipts()?;
        let claimed: HashSet<u64> = self.claims.iter().flat_map(|claim| &claim.tags).copied().collect();
        let work = tags_of(&self.work);
        let lost_posts = self.lost(&self.feed_posts, |tag| feed.contains(&tag))?
            + self.lost(&self.work_posts, |tag| work.contains(&tag) || claimed.contains(&tag))?;
        Ok(Summary {
            acknowledged: tags(&self.feed_posts).count() + tags(&self.work_posts).count(),
            lost: lost_posts,
            observed: self.readings.iter().map(Vec::len).sum(),
            claimed: tags(&self.claims).count(),
            deleted: tags(&self.deletions).count(),
        })
    }

    /// An observer may have read messages that were lost later. Of those that exist, it has read
    /// each once, and in order.
    fn check_reading(&self, reading: &[Listed]) -> Result<(), String> {
        let feed: HashSet<&Listed> = self.feed.iter().collect();
        let once: HashSet<&Listed> = reading.iter().collect();
        if once.len() != reading.len() {
            return Err("has read a message twice".to_owned());
        }
        if let Some((_, missed)) = self.feed.iter().find(|message| !once.contains(message)) {
            return Err(format!("has missed message {missed}"));
        }
        let kept = reading.iter().filter(|message| feed.contains(message));
        if kept.eq(&self.feed) { Ok(()) } else { Err("has read messages in another order".to_owned()) }
    }

    /// A claimed message is not claimed again, and a deleted one does not come back. No claim
    /// expires.
    fn check_work(&self) -> Result<(), String> {
        let mut claims: HashMap<u64, Vec<Span>> = HashMap::new();
        for claim in &self.claims {
            claim.tags.iter().for_each(|tag| claims.entry(*tag).or_default().push(claim.span));
        }
        let claimed_after = |tag: &u64, span: Span| {
            claims.get(tag).is_some_and(|claims| claims.iter().any(|claim| claim.invoked > span.answered))
        };
        let work = tags_of(&self.work);
        for (what, acknowledged) in [("claimed", &self.claims), ("deleted", &self.deletions)] {
            for Acknowledged { span, tags } in acknowledged.iter().filter(|one| self.holds(one.span)) {
                if let Some(tag) = tags.iter().find(|tag| claimed_after(tag, *span)) {
                    return Err(format!("message {tag} was {what} in {span:?} and claimed again: {:?}", claims[tag]));
                }
                if what == "deleted"
                    && let Some(tag) = tags.iter().find(|tag| work.contains(tag))
                {
                    return Err(format!("message {tag} was deleted in {span:?} and exists"));
                }
            }
        }
        Ok(())
    }

    /// No post is acknowledged without the receipt that it requires.
    fn check_receipts(&self) -> Result<(), String> {
        let Some((began, ended)) = self.without_replica else { return Ok(()) };
        let posts = self.feed_posts.iter().chain(&self.work_posts);
        match posts.map(|post| post.span).find(|span| span.invoked > began && span.answered < ended) {
            Some(span) => Err(format!("a post got a receipt in {span:?}, when there was no replica")),
            None => Ok(()),
        }
    }

    /// Counts messages that were posted within the window and do not exist.
    fn lost(&self, posts: &[Acknowledged], exists: impl Fn(u64) -> bool) -> Result<usize, String> {
        let missing = posts.iter().flat_map(|post| post.tags.iter().map(move |tag| (*tag, post.span)));
        let missing: BTreeMap<u64, Span> = missing.filter(|(tag, _)| !exists(*tag)).collect();
        match missing.iter().find(|(_, span)| self.holds(**span)) {
            Some((tag, span)) => Err(format!("message {tag} was posted in {span:?} and does not exist")),
            None => Ok(missing.len()),
        }
    }

    /// Returns whether a failover cannot undo what was acknowledged then.
    fn holds(&self, span: Span) -> bool {
        span.answered < self.window.0 || span.invoked > self.window.1
    }
}

fn tags_of(messages: &[Listed]) -> HashSet<u64> {
    messages.iter().map(|(_, tag)| *tag).collect()
}

fn tags(acknowledged: &[Acknowledged]) -> impl Iterator<Item = &u64> {
    acknowledged.iter().flat_map(|one| &one.tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut History);

    fn at(invoked: u64, tags: &[u64]) -> Acknowledged {
        Acknowledged { span: Span { invoked, answered: invoked + 1 }, tags: tags.to_vec() }
    }

    fn listed(tags: &[u64]) -> Vec<Listed> {
        tags.iter().map(|tag| (format!("id-{tag}"), *tag)).collect()
    }

    /// A failover from 100 to 200 that has lost message 2, the deletion of message 11, and message
    /// 3 before it was posted again.
    fn history() -> History {
        History {
            window: (100, 200),
            without_replica: Some((112, 190)),
            feed_posts: vec![at(10, &[1]), at(110, &[2]), at(210, &[3])],
            work_posts: vec![at(20, &[10, 11])],
            readings: vec![[listed(&[1, 2]), vec![("old".to_owned(), 3)], listed(&[3])].concat(), listed(&[1, 3])],
            claims: vec![at(30, &[10]), at(120, &[11]), at(220, &[11])],
            deletions: vec![at(40, &[10]), at(130, &[11])],
            feed: listed(&[1, 3]),
            work: listed(&[11]),
        }
    }

    #[test]
    fn a_failover_may_undo_only_what_was_acknowledged_within_its_window() {
        let summary = history().check().unwrap();
        assert_eq!(summary, Summary { acknowledged: 5, lost: 1, observed: 6, claimed: 3, deleted: 2 });

        let violations: [(&str, Change); 11] = [
            ("in the feed twice", |h| h.feed.push(("again".to_owned(), 3))),
            ("was posted", |h| h.feed_posts[1] = at(50, &[2])),
            ("was posted", |h| h.feed_posts[1] = at(210, &[2])),
            ("was posted", |h| h.work_posts.push(at(50, &[12]))),
            ("has missed message 3", |h| h.readings[1] = listed(&[1])),
            ("has read a message twice", |h| h.readings[0] = listed(&[1, 2, 2, 3])),
            ("in another order", |h| h.readings[1] = listed(&[3, 1])),
            ("was claimed in", |h| h.claims.push(at(230, &[11]))),
            ("was deleted in", |h| h.work.extend(listed(&[10]))),
            ("got a receipt", |h| h.feed_posts[1] = at(113, &[2])),
            ("got a receipt", |h| h.work_posts.push(at(188, &[11]))),
        ];
        for (expected, change) in violations {
            let mut history = history();
            change(&mut history);

            let violation = history.check().unwrap_err();
            assert!(violation.contains(expected), "{violation}, not {expected}");
        }
    }
}
