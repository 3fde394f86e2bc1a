//! The history of a work queue as its actors recorded it.

use std::fmt::{self, Debug};
use std::io::{self, Write};

use uuid::Uuid;

use support::timeline::{ClockMove, Moment};

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) seed: u64,
    /// The time of the store's clock (µs since 1970) when the test's own was at 0.
    pub(super) wall_us: i64,
    pub(super) rules: Rules,
    pub(super) posts: Vec<Post>,
    pub(super) claims: Vec<Claim>,
    /// The uses of claims. Those of one claim are in order.
    pub(super) claim_uses: Vec<ClaimUse>,
    pub(super) pops: Vec<Pop>,
    /// In sequence, and never back.
    pub(super) moves: Vec<ClockMove>,
    pub(super) counts: Vec<Count>,
    /// The requests that paused or resumed the queue, in sequence.
    pub(super) switches: Vec<Switch>,
    /// The reads of the dead-letter queue, in order.
    pub(super) readings: Vec<Reading>,
    /// From this time on, claims that outlast the test take all remaining messages.
    pub(super) drained_from: u64,
}

/// The settings of the queue: delay, dead letters and shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) delay_s: u32,
    /// Largest number of deliveries of a message.
    pub(super) count_max: u32,
    /// Ttl of dead letters, in seconds. `None` keeps the remaining life of the message.
    pub(super) dead_letter_ttl_s: Option<u32>,
    /// Whether the queue may be fair at some time, so that the next delivered message need not be
    /// the oldest.
    pub(super) is_fair: bool,
}

/// From sending a request to reading its response. Without a response: until the request has
/// certainly been executed, if it ever was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) invoked: u64,
    pub(super) ended: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) span: Span,
    pub(super) drafts: Vec<Draft>,
    /// `None` if there was no response.
    pub(super) ids: Option<Vec<Uuid>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    /// The body: a number that no other message of the test has.
    pub(super) tag: u64,
    pub(super) ttl_s: u32,
    /// `None` means the queue's default delay.
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
    Paused,
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) struct ClaimUse {
    pub(super) span: Span,
    /// `None` only for a deletion without a claim.
    pub(super) claim: Option<Uuid>,
    pub(super) action: Action,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Renew(Term),
    Release,
    Delete(Uuid),
    /// Returns one message, with a delay in seconds.
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
    /// Whether the response says that the queue is paused.
    pub(super) is_paused: bool,
}

/// A request that pauses or resumes the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) span: Span,
    pub(super) pauses: bool,
    /// Whether there was a response.
    pub(super) is_known: bool,
}

/// The stats of the queue while no other operation was under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) span: Span,
    pub(super) total: u64,
    pub(super) claimed: u64,
    pub(super) free: u64,
    /// The stats of the dead-letter queue.
    pub(super) dead_letters: [u64; 3],
}

/// All new dead letters, read while none was in the outbox and no operation was under way.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) span: Span,
    pub(super) dead_letters: Vec<DeadLetter>,
}

/// A dead letter, and its origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadLetter {
    pub(super) tag: u64,
    pub(super) ttl_s: u32,
    pub(super) source_id: Uuid,
    pub(super) claim_count: u32,
}

impl Claim {
    /// Returns the delivered messages.
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
    /// Returns all events, or those that contain one of the texts, in the order of their
    /// beginnings.
    pub(super) fn events(&self, naming: &[String]) -> Vec<String> {
        let mut events: Vec<(u64, String)> = Vec::new();
        events.extend(self.posts.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.claims.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.claim_uses.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.pops.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.switches.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.counts.iter().map(|event| (event.span.invoked, line(event.span, "", event))));
        events.extend(self.readings.iter().flat_map(|reading| {
            reading.dead_letters.iter().map(|dead_letter| (reading.span.invoked, line(reading.span, "", dead_letter)))
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
