//! What happened to a queue of work, as its actors saw it.

use std::fmt::{self, Debug};
use std::io::{self, Write};

use uuid::Uuid;

use crate::support::chronicle::{ClockMove, Moment};

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) seed: u64,
    /// The store's clock (µs since 1970) when the test's own stood at 0.
    pub(super) wall_us: i64,
    pub(super) rules: Rules,
    pub(super) posts: Vec<Post>,
    pub(super) claims: Vec<Claim>,
    /// What was done through claims; what is done through one claim is in order.
    pub(super) turns: Vec<Turn>,
    pub(super) pops: Vec<Pop>,
    /// One after the other, and never back.
    pub(super) moves: Vec<ClockMove>,
    pub(super) counts: Vec<Count>,
    /// What was read of the dead letters, in the order of reading.
    pub(super) readings: Vec<Reading>,
    /// From here on all that is left is claimed, under claims that outlast the test.
    pub(super) drained_from: u64,
}

/// What the queue was told of delay, dead letters and shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) delay_s: u32,
    /// How often a message is given out at most.
    pub(super) count_max: u32,
    /// How long dead letters live; without it, as long as they would have.
    pub(super) letter_ttl_s: Option<u32>,
    /// Whether it may be a fair queue meanwhile, so that what is given out next need not be the oldest.
    pub(super) is_fair: bool,
}

/// From sending a request to reading its answer. Without an answer: until it has surely been carried
/// out, if it ever was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) invoked: u64,
    pub(super) ended: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) span: Span,
    pub(super) drafts: Vec<Draft>,
    /// Nothing when there was no answer.
    pub(super) ids: Option<Vec<Uuid>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    /// The body: a number that no other message of the test has.
    pub(super) tag: u64,
    pub(super) ttl_s: u32,
    /// The queue's default if there is none.
    pub(super) delay_s: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: Uuid,
    pub(super) tag: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub(super) ttl_s: u32,
    pub(super) grace_s: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) span: Span,
    pub(super) limit: usize,
    pub(super) term: Term,
    pub(super) outcome: Claimed,
}

#[derive(Clone, Debug)]
pub(super) enum Claimed {
    Got(Uuid, Vec<Seen>),
    Nothing,
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) span: Span,
    /// None only for a deletion without a claim.
    pub(super) claim: Option<Uuid>,
    pub(super) act: Act,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Renew(Term),
    Release,
    Delete(Uuid),
    /// Gives one message back, which is kept from everybody for so long (s).
    Return(Uuid, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Refused,
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) struct Pop {
    pub(super) span: Span,
    pub(super) limit: usize,
    pub(super) messages: Option<Vec<Seen>>,
}

/// What the queue said of itself while nothing else went on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) span: Span,
    pub(super) total: u64,
    pub(super) claimed: u64,
    pub(super) free: u64,
    /// The same of the queue for dead letters.
    pub(super) letters: [u64; 3],
}

/// Dead letters that nobody has read before, all there were: none was under way, and nothing else went on.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) span: Span,
    pub(super) letters: Vec<Letter>,
}

/// A dead letter, and what it says of where it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letter {
    pub(super) tag: u64,
    pub(super) ttl_s: u32,
    pub(super) source_id: Uuid,
    pub(super) claim_count: u32,
}

impl Claim {
    /// The messages that were given out.
    pub(super) fn messages(&self) -> &[Seen] {
        match &self.outcome {
            Claimed::Got(_, messages) => messages,
            _ => &[],
        }
    }
}

impl Pop {
    pub(super) fn messages(&self) -> &[Seen] {
        self.messages.as_deref().unwrap_or_default()
    }
}

impl History {
    /// All events, or those that name one of the texts, in the order of their beginnings.
    pub(super) fn events(&self, naming: &[String]) -> Vec<String> {
        let mut events: Vec<(u64, String)> = Vec::new();
        events.extend(self.posts.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.claims.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.turns.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.pops.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.counts.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.readings.iter().flat_map(|reading| {
            reading.letters.iter().map(|letter| (reading.span.invoked, line(reading.span, "", letter)))
        }));
        events.extend(self.moves.iter().map(|event| {
            let span = Span { invoked: event.invoked, ended: event.answered };
            (event.invoked, line(span, "clock ", &(event.offset_us / 1_000_000)))
        }));
        events.retain(|(_, event)| naming.is_empty() || naming.iter().any(|text| event.contains(text)));
        events.sort();
        events.into_iter().map(|(_, event)| event).collect()
    }

    pub(super) fn dump(&self, to: &mut impl Write) -> io::Result<()> {
        writeln!(to, "seed {}, clock {} µs, drained from {}", self.seed, self.wall_us, Moment(self.drained_from))?;
        writeln!(to, "{:?}", self.rules)?;
        self.events(&[]).iter().try_for_each(|event| writeln!(to, "{event}"))
    }
}

fn line(span: Span, what: &str, event: &impl Debug) -> String {
    format!("{span} {what}{event:?}")
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} - {}]", Moment(self.invoked), Moment(self.ended))
    }
}
