//! The history of a race as its actors recorded it. Times are microseconds of the test's own clock,
//! taken before a request is sent and after its response is read.

use std::fmt;
use std::io::{self, Write};

use uuid::Uuid;

use support::timeline::{ClockMove, Moment};

/// All events of a race.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) seed: u64,
    /// The time of the store's clock (µs since 1970) when the test's own was at 0.
    pub(super) wall_us: i64,
    /// Largest deviation of the two clocks from that, in microseconds.
    pub(super) slack_us: i64,
    /// The default delay of the queue, in seconds. If it is 0, no message is delayed.
    pub(super) default_delay_s: u32,
    pub(super) observers: Vec<Observer>,
    pub(super) posts: Vec<Post>,
    pub(super) deletes: Vec<Delete>,
    /// In sequence.
    pub(super) moves: Vec<ClockMove>,
    pub(super) pages: Vec<Page>,
    /// The time when all operations that change the queue had ended.
    pub(super) quiet: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Observer {
    /// The producer whose client id the observer shares: with `echo=false` it does not receive that
    /// producer's messages.
    pub(super) excluded_producer: Option<usize>,
}

/// From sending a request to reading its response, if there was a usable one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) invoked: u64,
    pub(super) answered: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) span: Span,
    pub(super) producer: usize,
    pub(super) drafts: Vec<Draft>,
    /// The ids in the response.
    pub(super) ids: Vec<Uuid>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    /// The body: a number that no other message of the race has.
    pub(super) tag: u64,
    pub(super) ttl_s: u32,
    /// `None` means the queue's default delay.
    pub(super) delay_s: Option<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Delete {
    pub(super) span: Span,
    pub(super) ids: Vec<Uuid>,
}

/// A list with its response. A list without one is not recorded, because it proves nothing.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) invoked: u64,
    pub(super) answered: u64,
    pub(super) observer: usize,
    pub(super) marker: Option<Uuid>,
    pub(super) limit: usize,
    pub(super) messages: Vec<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: Uuid,
    pub(super) tag: u64,
}

/// Returns the time in a version 7 UUID as the store writes it: milliseconds, and after the version
/// the microseconds.
pub(super) fn rank_of(id: Uuid) -> i64 {
    let (high, _) = id.as_u64_pair();
    i64::try_from((high >> 16) * 1000 + (high & 0xfff)).expect("48 bits of milliseconds")
}

impl Observer {
    pub(super) fn receives_from(self, producer: usize) -> bool {
        self.excluded_producer != Some(producer)
    }
}

impl History {
    /// Returns the delay of a message, in seconds.
    pub(super) fn delay_s(&self, draft: Draft) -> u32 {
        draft.delay_s.unwrap_or(self.default_delay_s)
    }

    /// Writes all events, one per line, in the order of their beginnings.
    pub(super) fn dump(&self, to: &mut impl Write) -> io::Result<()> {
        writeln!(to, "seed {}, clock {} µs, quiet from {}", self.seed, self.wall_us, Moment(self.quiet))?;
        writeln!(to, "clocks agree within {} µs, default delay {} s", self.slack_us, self.default_delay_s)?;
        for (index, observer) in self.observers.iter().enumerate() {
            writeln!(to, "observer {index} excludes the messages of {:?}", observer.excluded_producer)?;
        }
        let mut events: Vec<(u64, &dyn fmt::Display)> = Vec::new();
        events.extend(self.posts.iter().map(|post| (post.span.invoked, post as &dyn fmt::Display)));
        events.extend(self.deletes.iter().map(|delete| (delete.span.invoked, delete as &dyn fmt::Display)));
        events.extend(self.moves.iter().map(|step| (step.invoked, step as &dyn fmt::Display)));
        events.extend(self.pages.iter().map(|page| (page.invoked, page as &dyn fmt::Display)));
        events.sort_by_key(|(invoked, _)| *invoked);
        for (_, event) in events {
            writeln!(to, "{event}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} post by producer {}:", self.span, self.producer)?;
        for (index, draft) in self.drafts.iter().enumerate() {
            let id = self.ids.get(index).map_or("id unknown".to_owned(), Uuid::to_string);
            write!(f, " {} ({id}, ttl {} s", draft.tag, draft.ttl_s)?;
            draft.delay_s.map_or(Ok(()), |delay_s| write!(f, ", delay {delay_s} s"))?;
            write!(f, ")")?;
        }
        Ok(())
    }
}

impl fmt::Display for Delete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} delete:", self.span)?;
        self.ids.iter().try_for_each(|id| write!(f, " {id}"))
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = Span { invoked: self.invoked, answered: Some(self.answered) };
        let marker = self.marker.map_or("nothing".to_owned(), |marker| marker.to_string());
        write!(f, "{span} list by observer {} after {marker}, limit {}:", self.observer, self.limit)?;
        self.messages.iter().try_for_each(|seen| write!(f, " {} ({})", seen.tag, seen.id))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.answered {
            Some(answered) => write!(f, "[{} - {}]", Moment(self.invoked), Moment(answered)),
            None => write!(f, "[{} - no response]", Moment(self.invoked)),
        }
    }
}
