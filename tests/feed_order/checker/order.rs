//! Checks positions: messages of one request are adjacent, later posts follow, and delayed messages
//! are where they are due.

use std::collections::{BTreeMap, HashMap};

use super::feed::{Feed, Message, NEVER};
use super::unknown_posts::{UnknownPost, unknown_posts};
use super::{Rule, Violation};
use crate::feed_order::history::{History, Span};
use support::timeline::clock::StoreClock;

/// Largest number of gaps that may be too small for a request before it is spread over them.
const GAPS_PASSED_MAX: usize = 17;

/// The messages of one request that have the same delay.
struct Group {
    post: usize,
    delay_us: i64,
    first: usize,
    last: usize,
    count: usize,
}

/// Checks the positions of messages.
pub(super) struct Order<'a> {
    history: &'a History,
    feed: &'a Feed,
    clock: &'a StoreClock,
    groups: Vec<Group>,
    unknown_posts: Vec<UnknownPost>,
}

impl<'a> Order<'a> {
    pub(super) fn new(history: &'a History, feed: &'a Feed, clock: &'a StoreClock) -> Self {
        let mut groups: HashMap<(usize, u32), Group> = HashMap::new();
        for (index, message) in feed.messages.iter().enumerate() {
            let delay_us = i64::from(message.delay_s) * 1_000_000;
            let group = Group { post: message.post, delay_us, first: index, last: index, count: 0 };
            let group = groups.entry((message.post, message.delay_s)).or_insert(group);
            group.last = index;
            group.count += 1;
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.sort_unstable_by_key(|group| group.first);
        Self { history, feed, clock, groups, unknown_posts: unknown_posts(history, &feed.messages, clock) }
    }

    pub(super) fn check(&self) -> Result<(), Violation> {
        self.check_order_in_post()?;
        for group in &self.groups {
            self.check_adjacency(group)?;
        }
        self.check_order_of_posts()?;
        let undelayed = self.last_undelayed();
        self.groups.iter().try_for_each(|group| self.check_due(group, &undelayed))
    }

    /// Returns the number of groups that are spread over gaps between others.
    pub(super) fn spread(&self) -> usize {
        self.groups.iter().filter(|group| group.is_spread()).count()
    }

    /// The messages of a group are in the order of the request.
    fn check_order_in_post(&self) -> Result<(), Violation> {
        let mut before: HashMap<(usize, u32), &Message> = HashMap::new();
        for message in &self.feed.messages {
            let earlier = before.insert((message.post, message.delay_s), message);
            if let Some(earlier) = earlier.filter(|earlier| earlier.tag > message.tag) {
                let what =
                    format!("{} precedes {} in its request but follows it in the feed", message.tag, earlier.tag);
                return Err(self.violation(Rule::BatchUnordered, what, &[earlier, message]));
            }
        }
        Ok(())
    }

    /// The messages of a group are adjacent. Others may be between delayed ones if no position
    /// between them is free.
    fn check_adjacency(&self, group: &Group) -> Result<(), Violation> {
        if !group.is_spread() {
            return Ok(());
        }
        let [first, last] = self.ends(group);
        let between = &self.feed.messages[group.first..=group.last];
        let taken = 1 + between.windows(2).filter(|pair| pair[0].rank() != pair[1].rank()).count();
        let free = usize::try_from(last.rank() - first.rank() + 1).expect("they ascend") - taken;
        // Others may share a rank with a message of the group that was delayed and deleted, so that
        // its rank was free again.
        let is_consecutive = usize::try_from(last.rank() - first.rank() + 1).is_ok_and(|ranks| ranks == group.count);
        if (group.delay_us > 0 || is_consecutive) && free <= self.unknown_by(NEVER) {
            return Ok(());
        }
        let other = between.iter().find(|other| other.post != group.post || other.delay_s != first.delay_s);
        let other = other.expect("it is spread");
        let what =
            format!("between {} and others of its request is {}, {free} positions are free", last.tag, other.tag);
        Err(self.violation(Rule::BatchSplit, what, &[other, last]))
    }

    /// Messages posted after the response to an undelayed post follow that post.
    fn check_order_of_posts(&self) -> Result<(), Violation> {
        let answer = |group: &&Group| self.span(group).answered.filter(|_| group.delay_us == 0);
        let mut answered: Vec<(u64, &Group)> =
            self.groups.iter().filter_map(|group| Some((answer(&group)?, group))).collect();
        answered.sort_by_key(|(moment, _)| *moment);
        let mut begun: Vec<&Group> = self.groups.iter().collect();
        begun.sort_by_key(|group| self.span(group).invoked);

        let mut answered = answered.into_iter().peekable();
        // By their last messages, before which no new message may be inserted.
        let mut before: BTreeMap<usize, &Group> = BTreeMap::new();
        for group in begun {
            while let Some((_, other)) = answered.next_if(|(end, _)| *end < self.span(group).invoked) {
                before.insert(other.last, other);
            }
            if let Some((last, _)) = before.range(group.first..).next_back() {
                let [first, last] = [group.first, *last].map(|index| &self.feed.messages[index]);
                let what = format!("{} was posted after the response for {} but precedes it", first.tag, last.tag);
                return Err(self.violation(Rule::Overtaken, what, &[last, first]));
            }
        }
        Ok(())
    }

    /// A message is due when its delay is over, or later if visible messages had its position by
    /// then: not earlier, and not later without a reason.
    fn check_due(&self, group: &Group, undelayed: &[Option<usize>]) -> Result<(), Violation> {
        let [first, _] = self.ends(group);
        let span = self.span(group);
        let answered = span.answered.unwrap_or(NEVER);
        let earliest = self.clock.between(span.invoked, answered).0 + group.delay_us;
        if group.delay_us > 0 && first.rank() < earliest {
            let what = format!("{} is due at {}, its delay is not over before {earliest}", first.tag, first.rank());
            return Err(self.violation(Rule::DueEarly, what, &[first]));
        }
        if span.answered.is_none() {
            return Ok(());
        }
        let mut from = self.clock.between(0, answered).1.max(self.clock.latest_logical(answered));
        let doubted = self.unknown_posts.iter().filter(|doubt| doubt.invoked < answered);
        from = doubted.map(|doubt| doubt.below).fold(from, i64::max);
        // The nearest undelayed post that may have been the last visible one.
        let mut before =
            self.feed.index_above(first.rank() - group.delay_us - 1).checked_sub(1).and_then(|index| undelayed[index]);
        while let Some(index) = before {
            let other = &self.feed.messages[index];
            if self.history.posts[other.post].span.invoked < answered {
                from = from.max(other.rank() + 1);
                break;
            }
            before = index.checked_sub(1).and_then(|index| undelayed[index]);
        }
        let late = first.rank() - (from + group.delay_us);
        let in_its_way = group.first.saturating_sub(self.feed.index_above(from + group.delay_us - 1));
        let explained = in_its_way + GAPS_PASSED_MAX * (group.count - 1) + self.unknown_by(answered);
        if late > i64::try_from(explained).expect("they are few") {
            let what = format!("{} is due {late} µs late, {in_its_way} messages had its position", first.tag);
            return Err(self.violation(Rule::DueLate, what, &[first]));
        }
        Ok(())
    }

    /// Returns, for each message, the last undelayed one up to it.
    fn last_undelayed(&self) -> Vec<Option<usize>> {
        let mut last = None;
        let messages = self.feed.messages.iter().enumerate();
        let lasts = messages.map(|(index, message)| {
            last = if message.delay_s == 0 { Some(index) } else { last };
            last
        });
        lasts.collect()
    }

    fn unknown_by(&self, moment: u64) -> usize {
        self.unknown_posts.iter().filter(|doubt| doubt.invoked < moment).map(|doubt| doubt.count).sum()
    }

    fn ends(&self, group: &Group) -> [&Message; 2] {
        [group.first, group.last].map(|index| &self.feed.messages[index])
    }

    fn span(&self, group: &Group) -> Span {
        self.history.posts[group.post].span
    }

    fn violation(&self, rule: Rule, what: String, about: &[&Message]) -> Violation {
        let about: Vec<_> = about.iter().map(|message| message.seen()).collect();
        Violation::new(self.history, rule, what, &about)
    }
}

impl Group {
    fn is_spread(&self) -> bool {
        self.last - self.first + 1 > self.count
    }
}
