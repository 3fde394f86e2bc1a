//! The operations of the model, and the probability of each.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use sukkal_domain::{Order, Scope};

/// Largest number of shards of a queue in the model.
const SHARDS_MAX: u16 = 6;

/// Settings of a queue, from which its metadata is derived.
#[derive(Clone, Copy, Debug)]
pub(in crate::conformance) struct QueueSettings {
    pub(in crate::conformance) color: u8,
    /// Number of shards, and number of shards per tenant, in a sequence whose queue may be fair.
    pub(in crate::conformance) shards: u16,
    pub(in crate::conformance) own: Option<u16>,
}

/// The messages of one post.
#[derive(Clone, Debug)]
pub(in crate::conformance) struct Batch {
    pub(in crate::conformance) client: u8,
    /// Number of tenants that post in turn.
    pub(in crate::conformance) tenants: usize,
    pub(in crate::conformance) count: usize,
    pub(in crate::conformance) ticks: u32,
    /// Delay of two of three messages, in ticks.
    pub(in crate::conformance) delay_ticks: Option<u32>,
}

/// A list in any order, with any filters, that shows the states of its messages.
#[derive(Clone, Debug)]
pub(in crate::conformance) struct Peek {
    pub(in crate::conformance) after: Option<Index>,
    pub(in crate::conformance) limit: usize,
    pub(in crate::conformance) not_from: Option<u8>,
    pub(in crate::conformance) scope: Scope,
    pub(in crate::conformance) order: Order,
}

/// Messages that were ever posted are selected by an [`Index`] into all of them.
#[derive(Clone, Debug)]
pub(in crate::conformance) enum Operation {
    Create(QueueSettings),
    Delete,
    Purge,
    Pause,
    Resume,
    Update(QueueSettings),
    UpdateStale,
    Post(Batch),
    PostStale,
    List { after: Option<Index>, limit: usize, not_from: Option<u8> },
    Get(Vec<Index>),
    DeleteMessages(Vec<Index>),
    Count,
    Pop(usize),
    PopForRestore(usize),
    Restore(Index),
    Stats,
    Claim { limit: usize, ticks: u32, grace_ticks: u32, prefer: Vec<u16> },
    GetClaim(Index),
    Renew { claim: Index, ticks: u32, grace_ticks: u32 },
    Release(Index),
    DeleteWithClaim { message: Index, claim: Option<Index> },
    DeleteClaimed { messages: Vec<Index>, claims: Vec<Index> },
    Return { claim: Index, message: Index, delay_ticks: Option<u32> },
    Redrive(Option<u32>),
    ListWithClaimed(usize),
    ListWithDelayed(usize),
    Peek(Peek),
    Maintain,
    Advance(u32),
    Rewind(u32),
}

pub(in crate::conformance) fn operation() -> impl Strategy<Value = Operation> {
    use Operation as O;

    let picks = || vec(any::<Index>(), 0..30);
    let listing = (any::<Option<Index>>(), 1_usize..80, option::of(0_u8..3));
    prop_oneof![
        2 => queue_settings().prop_map(O::Create),
        1 => Just(O::Delete),
        1 => Just(O::Purge),
        1 => Just(O::Pause),
        3 => Just(O::Resume),
        4 => queue_settings().prop_map(O::Update),
        1 => Just(O::UpdateStale),
        8 => batch().prop_map(O::Post),
        1 => Just(O::PostStale),
        8 => listing.prop_map(|(after, limit, not_from)| O::List { after, limit, not_from }),
        3 => picks().prop_map(O::Get),
        4 => picks().prop_map(O::DeleteMessages),
        2 => Just(O::Count),
        2 => (1_usize..30).prop_map(O::Pop),
        1 => (1_usize..30).prop_map(O::PopForRestore),
        1 => any::<Index>().prop_map(O::Restore),
        3 => Just(O::Stats),
        4 => (1_usize..40, 0_u32..4, 0_u32..3)
            .prop_map(|(limit, ticks, grace_ticks)| O::Claim { limit, ticks, grace_ticks, prefer: Vec::new() }),
        4 => (1_usize..9, 0_u32..4, 0_u32..3, subsequence((0..SHARDS_MAX).collect::<Vec<_>>(), 0..4))
            .prop_map(|(limit, ticks, grace_ticks, prefer)| O::Claim { limit, ticks, grace_ticks, prefer }),
        3 => any::<Index>().prop_map(O::GetClaim),
        2 => (any::<Index>(), 0_u32..4, 0_u32..3)
            .prop_map(|(claim, ticks, grace_ticks)| O::Renew { claim, ticks, grace_ticks }),
        2 => any::<Index>().prop_map(O::Release),
        4 => (any::<Index>(), any::<Option<Index>>())
            .prop_map(|(message, claim)| O::DeleteWithClaim { message, claim }),
        2 => (picks(), vec(any::<Index>(), 0..4))
            .prop_map(|(messages, claims)| O::DeleteClaimed { messages, claims }),
        3 => (any::<Index>(), any::<Index>(), option::of(0_u32..3))
            .prop_map(|(claim, message, delay_ticks)| O::Return { claim, message, delay_ticks }),
        1 => option::of(1_u32..40).prop_map(O::Redrive),
        3 => (1_usize..80).prop_map(O::ListWithClaimed),
        2 => (1_usize..80).prop_map(O::ListWithDelayed),
        6 => peek().prop_map(O::Peek),
        1 => Just(O::Maintain),
        3 => (1_u32..4).prop_map(O::Advance),
        1 => (1_u32..4).prop_map(O::Rewind),
    ]
}

/// Generates settings of a queue. About every second queue is plain.
pub(in crate::conformance) fn queue_settings() -> impl Strategy<Value = QueueSettings> {
    let sharding = prop_oneof![
        2 => Just((1, None)),
        3 => (2..=SHARDS_MAX).prop_flat_map(|shards| (Just(shards), option::of(1..=shards))),
    ];
    (any::<u8>(), sharding).prop_map(|(color, (shards, own))| QueueSettings { color, shards, own })
}

fn peek() -> impl Strategy<Value = Peek> {
    let scope = any::<[bool; 2]>().prop_map(|[claimed, delayed]| Scope { claimed, delayed });
    let order = prop_oneof![1 => Just(Order::OldestFirst), 2 => Just(Order::NewestFirst)];
    (any::<Option<Index>>(), 1_usize..80, option::of(0_u8..3), scope, order)
        .prop_map(|(after, limit, not_from, scope, order)| Peek { after, limit, not_from, scope, order })
}

fn batch() -> impl Strategy<Value = Batch> {
    (0_u8..3, 1_usize..4, prop_oneof![1_usize..8, 1_usize..70], 0_u32..4, option::of(0_u32..3))
        .prop_map(|(client, tenants, count, ticks, delay_ticks)| Batch { client, tenants, count, ticks, delay_ticks })
}
