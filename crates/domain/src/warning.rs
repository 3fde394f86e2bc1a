//! Warnings about accepted requests of which a part has no effect. The API returns them in a
//! header, so a warning is one short line of printable ASCII, whatever the client has sent.

use thiserror::Error;

use super::QueueKind;

/// Maximum number of unknown names of one kind with a warning each. One further warning says that
/// there are others.
pub const UNKNOWN_NAMES_MAX: usize = 4;
/// Maximum number of unknown names of one kind that are compared with known ones. A request can
/// have many.
const EXAMINED_MAX: u32 = 100;
/// Maximum number of characters that a warning shows of a text from a client.
const SHOWN_CHARS_MAX: usize = 64;
/// Words of Amazon SQS and SNS and of other services, with those that mean the same here.
const OTHER_WORDS: [(&str, &[&str]); 20] = [
    ("DelaySeconds", &["delay", "_default_message_delay"]),
    ("MessageRetentionPeriod", &["_default_message_ttl"]),
    ("DefaultTtl", &["_default_message_ttl"]),
    ("MessageTtl", &["_default_message_ttl"]),
    ("RedrivePolicy", &["_dead_letter_queue", "dead_letter_queue"]),
    ("DeliveryPolicy", &["_retry_policy"]),
    ("Filter", &["match"]),
    ("MaximumMessageSize", &["_max_messages_post_size"]),
    ("KmsMasterKeyId", &["_enable_encrypt_messages"]),
    ("SqsManagedSseEnabled", &["_enable_encrypt_messages"]),
    ("DeadLetterTargetArn", &["_dead_letter_queue"]),
    ("Dlq", &["_dead_letter_queue", "dead_letter_queue"]),
    ("MaxReceiveCount", &["_max_claim_count"]),
    ("MaxAttempts", &["_retry_policy", "_max_claim_count"]),
    ("MaxRetries", &["_retry_policy"]),
    ("MessageBody", &["body"]),
    ("MessageGroupId", &["tenant"]),
    ("FilterPolicy", &["match"]),
    ("Headers", &["post_headers"]),
    ("Template", &["post_data"]),
];
/// Minimum number of characters of a name that resembles another one.
const NAME_CHARS_MIN: usize = 3;
/// A name may have one wrong character in this number of them.
const TYPO_DISTANCE: usize = 6;
/// Minimum Jaro similarity (0 to 1) at which a warning suggests a known name in place of an unknown
/// one.
const SIMILARITY_MIN: f64 = 0.75;

/// Reasons for which a part of an accepted request has no effect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Warning {
    /// A name has no meaning at its place.
    #[error("{}", unknown(*.what, .name, *.nearest))]
    Unknown {
        /// What the name is.
        what: NameKind,
        /// The name in printable ASCII, truncated if it is long.
        name: String,
        /// The most similar known name, if one is similar enough.
        nearest: Option<&'static str>,
    },
    /// There are further unknown names.
    #[error("further {}", more_unknown(*.0))]
    MoreUnknown(NameKind),
    /// A query parameter has no value.
    #[error("query parameter \"{0}\" has no value, and so no effect")]
    NoValue(&'static str),
    /// A query parameter with one value is repeated.
    #[error("query parameter \"{0}\" is repeated, and only its last value has an effect; send it once")]
    Repeated(&'static str),
    /// A query parameter has no effect beside another one.
    #[error("query parameter \"{name}\" has no effect beside \"{other}\"")]
    Beside {
        /// The parameter that has no effect.
        name: &'static str,
        /// The other one.
        other: &'static str,
    },
    /// A field of a request over a WebSocket has no effect beside another one.
    #[error("field \"{name}\" has no effect beside \"{other}\"")]
    FieldBeside {
        /// The field that has no effect.
        name: &'static str,
        /// The other one.
        other: &'static str,
    },
    /// A metadata key is set without another one that it needs.
    #[error("\"{key}\" has no effect without \"{missing}\"; set both")]
    Needs {
        /// The key that has no effect.
        key: &'static str,
        /// The key that is missing.
        missing: &'static str,
    },
    /// A metadata key is one that the service uses, but without its leading `_` or in another
    /// spelling.
    #[error("metadata key \"{key}\" is one of your own, which the service does not use; did you mean \"{known}\"?")]
    OwnKey {
        /// The key in printable ASCII, truncated if it is long.
        key: String,
        /// The key that the service uses.
        known: &'static str,
    },
    /// The dead letters of a queue come back to it.
    #[error("\"_dead_letter_queue\" is the queue itself, so dead letters come back as new messages")]
    OwnDeadLetters,
    /// A request has created the queue that it pauses.
    #[error("the {noun} did not exist; an empty {noun} was created and paused", noun = .0.noun())]
    CreatedPaused(QueueKind),
    /// A list that is no event stream has the id of the last event.
    #[error("Last-Event-ID has no effect on a list; send Accept: text/event-stream, or use \"marker\"")]
    NotAStream,
    /// A credential of a service that verifies none.
    #[error("{0} is ignored, because no strategy in auth.strategies verifies it")]
    CredentialIgnored(&'static str),
    /// A name has a meaning at another place.
    #[error("field \"{name}\" has no effect here; it is {place}")]
    Elsewhere {
        /// The name.
        name: &'static str,
        /// What it is there.
        place: &'static str,
    },
    /// The start of a subscription whose subscriber must confirm it first.
    #[error(
        "\"since\" has no effect, because the subscriber only gets messages from after its confirmation; redeliver \
         older ones then"
    )]
    SinceIgnored,
    /// Another flavor of a queue that exists.
    #[error("\"_flavor\" does not move the queue, which stays in its pool; an operator can move it")]
    FlavorKept,
    /// A flavor has lost its last pool to another one.
    #[error("a flavor has lost its last pool, so no queue can be created with it; give it another pool")]
    FlavorWithoutPools,
    /// A pool has a flavor that no project has.
    #[error(
        "no project has the flavor of the pool, so the pool gets no new queues; create the flavor, or correct its \
         name"
    )]
    NoSuchFlavor,
    /// Pools have lost their flavor.
    #[error("a pool has no flavor now, so it gets new queues that have none")]
    PoolsWithoutFlavor,
    /// `X-Roles` names a role that the credentials do not have.
    #[error("X-Roles is ignored, because the credentials of the request determine its roles")]
    RolesIgnored,
    /// The service does not require that subscribers confirm.
    #[error(
        "\"confirmed\" has no effect, because the service requires no confirmation from this subscriber; pause or \
         delete the subscription instead"
    )]
    ConfirmationNotRequired,
    /// Some of the messages that are to be delivered again do not exist.
    #[error("{}", missing(*.0))]
    MissingMessages(usize),
    /// A claim does not hold the message that it is to return.
    #[error("the claim does not hold the message, so nothing was returned")]
    NotHeld,
    /// A queue from which messages are taken is paused.
    #[error("the queue is paused, so nobody gets its messages until it is resumed")]
    Paused,
    /// An option of a subscription has no effect beside another one.
    #[error("the option \"{option}\" has no effect beside \"{other}\"")]
    OptionBeside {
        /// The option that has no effect.
        option: &'static str,
        /// The other one.
        other: &'static str,
    },
    /// The retry policy of the queue has precedence over that of the subscription.
    #[error(
        "the option \"_retry_policy\" has no effect, because \"ignore_subscription_override\" gives precedence to the \
         queue's policy"
    )]
    PolicyOfQueue,
    /// `_flavor` is set in a service without pools.
    #[error("\"_flavor\" has no effect, because the service has no pools")]
    NoPools,
    /// A claim prefers a shard that its queue does not have. The queue has this number of shards.
    #[error("query parameter \"prefer\" has no effect, because \"_shards\" of the queue is {0}")]
    PreferIgnored(u16),
    /// A request that posts no messages has this header of posts.
    #[error("{0} has no effect on this request; it is for posts of messages")]
    HeaderOfPosts(&'static str),
    /// A message has a `delay`, but its queue does not delay messages.
    #[error(
        "\"delay\" is ignored, because the queue does not delay messages; set its \"_enable_message_delay\" to true"
    )]
    DelayIgnored,
    /// A metadata key or a field of a message configures claims, which topics do not have.
    #[error("\"{0}\" has no effect in a topic, whose messages are not claimed")]
    NotInTopics(&'static str),
    /// A subscription of a connection has an option that configures deliveries to subscribers.
    #[error("the option \"{0}\" has no effect, because the subscriber is the connection")]
    NotForConnections(&'static str),
    /// An option of a subscription has no effect for its kind of subscriber.
    #[error("the option \"{0}\" has no effect for this kind of subscriber")]
    NotForSubscriber(&'static str),
    /// A field of a subscription is among its options.
    #[error("the option \"{0}\" has no effect; send \"{0}\" beside \"options\"")]
    NoOption(&'static str),
    /// The template of the request body has no place for the message.
    #[error(
        "the option \"post_data\" does not contain \"$zaqar_message$\" with its quotes, so requests do not contain \
         the message"
    )]
    NoPlaceholder,
    /// A subscriber that has not confirmed its subscription subscribes again, with other settings.
    #[error(
        "the subscription exists, and its settings, which are different, were not changed; change them with PATCH, or \
         with `sukkal subscription set`"
    )]
    SubscriptionUnchanged,
    /// A deletion has an id that cannot be that of a message of the queue.
    #[error("an id was ignored, because it cannot be the id of a message of this queue")]
    InvalidMessageId,
    /// A deletion names claims, which the service does not check.
    #[error(
        "\"claim_ids\" is ignored, because the option message_delete_with_claim_id of the service is false; claimed \
         messages were deleted too"
    )]
    ClaimIdsIgnored,
    /// A message expires before its delay ends.
    #[error("a message expires before its delay ends, so nobody receives it; give it a longer \"ttl\"")]
    ExpiresDelayed,
    /// The key `metadata` of a new queue is an object that seems to be the metadata.
    #[error(
        "\"metadata\" is one of your own metadata keys; the body itself is the metadata, so send the value of this \
         key alone"
    )]
    NestedMetadata,
    /// A message that is posted over a WebSocket has a `delay`.
    #[error("\"delay\" is ignored over WebSockets, as in Zaqar; post delayed messages over HTTP")]
    DelayOverWebSocket,
    /// A message has a `tenant`, but its queue is not fair.
    #[error("\"tenant\" is ignored, because the queue is not fair; set its \"_shards\" to the number of shards")]
    TenantIgnored,
    /// A request would create a queue that exists, and whose metadata is different.
    #[error(
        "the {} exists, and its metadata, which is different, was not changed; change it with PATCH, or with `sukkal \
         queue set{}`",
        .0.noun(), if *.0 == QueueKind::Topic { " --topic" } else { "" }
    )]
    MetadataUnchanged(QueueKind),
    /// A request reads a queue that does not exist.
    #[error("the {} does not exist", .0.noun())]
    NoQueue(QueueKind),
    /// A pool was deleted that has queues or may have some.
    #[error(
        "the pool may have queues; it gets no new ones, and keeps those that it has until they are moved or deleted"
    )]
    PoolRetired,
    /// The headers that can name the project name different ones.
    #[error("X-Project-ID, X-Tenant-Id and X-Tenant name different projects; {used} is used; send one of the headers")]
    ProjectsDiffer {
        /// The header that is used.
        used: &'static str,
    },
    /// `X-Project-ID` names another project than that of the credential.
    #[error("{named} is ignored, because the credential is for another project; leave it out")]
    ProjectIgnored {
        /// The header that names it.
        named: &'static str,
    },
    /// `_max_claim_count` is 0 or negative.
    #[error(
        "\"_max_claim_count\" of 0 or less has no effect; use 1 to move a message after its first delivery, or remove \
         the key"
    )]
    NoClaimLimit,
    /// At present, the server of the queue has fewer replicas than its `_durability` requires.
    #[error(
        "the server of the queue has fewer replicas than \"_durability\" requires; until it has them, every post is \
         refused with 503"
    )]
    TooFewReplicas,
    /// A purge names no kind of resources.
    #[error("\"resource_types\" is empty, so nothing was deleted")]
    NothingToPurge,
    /// A request has a body that its handler does not read.
    #[error("the body has no effect, because this request takes none")]
    BodyIgnored,
    /// `name` is `true`, as if a list could be without the names.
    #[error("\"name\" selects the {noun}s with \"true\" in their names; a list always has the names", noun = .0.noun())]
    NameIsText(QueueKind),
    /// The marker of a list of messages cannot be the id of a message.
    #[error(
        "the marker is not valid, so the page is empty; use the id of a message of this {}, or the link of a page",
        .0.noun()
    )]
    InvalidMarker(QueueKind),
}

/// Kinds of names in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A metadata key that begins with `_`.
    MetadataKey,
    /// A parameter of the query.
    Parameter,
    /// A parameter of the query of a list, which filters it by metadata and resembles another
    /// parameter.
    Filter,
    /// A header that resembles one with a meaning.
    Header,
    /// A field of the body.
    Field,
    /// A field of a message.
    MessageField,
    /// A field of an operation of a patch.
    OperationField,
    /// An option of a subscription that resembles one with a meaning.
    SubscriptionOption,
    /// A key of a retry policy.
    PolicyKey,
    /// A kind of resources that a purge deletes.
    ResourceType,
}

impl NameKind {
    fn text(self) -> &'static str {
        match self {
            Self::MetadataKey => "metadata key",
            Self::Parameter | Self::Filter => "query parameter",
            Self::Header => "header",
            Self::Field => "field",
            Self::MessageField => "message field",
            Self::OperationField => "field of an operation",
            Self::SubscriptionOption => "subscription option",
            Self::PolicyKey => "key of a retry policy",
            Self::ResourceType => "resource type",
        }
    }
}

impl Warning {
    /// Returns the warning that a query parameter of a list filters by a metadata key.
    #[must_use]
    pub fn filter(name: &str) -> Self {
        Self::Unknown { what: NameKind::Filter, name: shown(name), nearest: None }
    }
}

/// A result, with the warnings about its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithWarnings<T> {
    /// The result.
    pub value: T,
    /// The warnings; usually empty.
    pub warnings: Vec<Warning>,
}

/// The unknown names of one kind in a request, each of them once.
#[derive(Debug)]
pub struct UnknownNames<'k> {
    what: NameKind,
    known: &'k [&'static str],
    /// Number of unknown names that are still examined.
    left: u32,
    warnings: Vec<Warning>,
}

impl<'k> UnknownNames<'k> {
    /// Begins without a name. `known` are the names that have a meaning.
    #[must_use]
    pub fn new(what: NameKind, known: &'k [&'static str]) -> Self {
        Self { what, known, left: EXAMINED_MAX, warnings: Vec::new() }
    }

    /// Notes a name if it is unknown.
    pub fn check(&mut self, name: &str) {
        if self.left == 0 || self.known.contains(&name) {
            return;
        }
        self.left -= 1;
        let nearest = other_word(name, self.known).or_else(|| nearest(name, self.known.iter().copied()));
        let warning = Warning::Unknown { what: self.what, name: shown(name), nearest };
        // Names that resemble no known one may have a meaning for the client.
        let may_be_own = matches!(self.what, NameKind::Filter | NameKind::Header);
        let is_own = may_be_own && matches!(warning, Warning::Unknown { nearest: None, .. });
        if is_own || self.warnings.contains(&warning) {
            return;
        }
        if self.warnings.len() < UNKNOWN_NAMES_MAX {
            self.warnings.push(warning);
        } else {
            self.warnings.push(Warning::MoreUnknown(self.what));
            self.left = 0;
        }
    }

    /// Returns the warnings about the names.
    #[must_use]
    pub fn into_warnings(self) -> Vec<Warning> {
        self.warnings
    }
}

/// Returns warnings about those of the names that are unknown.
#[must_use]
pub fn of_unknown<'n>(
    what: NameKind,
    known: &[&'static str],
    names: impl IntoIterator<Item = &'n str>,
) -> Vec<Warning> {
    let mut unknown = UnknownNames::new(what, known);
    for name in names {
        unknown.check(name);
    }
    unknown.into_warnings()
}

impl<T> WithWarnings<T> {
    /// Returns a result without warnings.
    #[must_use]
    pub fn none(value: T) -> Self {
        Self { value, warnings: Vec::new() }
    }
}

fn unknown(what: NameKind, name: &str, nearest: Option<&str>) -> String {
    let effect = match what {
        NameKind::Filter => format!("query parameter \"{name}\" filters by a metadata key of this name"),
        _ => format!("unknown {} \"{name}\" has no effect", what.text()),
    };
    match (nearest, what) {
        (Some(nearest), _) => format!("{effect}; did you mean \"{nearest}\"?"),
        (None, NameKind::MetadataKey) => format!("{effect}; name keys of your own without a leading \"_\""),
        (None, _) => effect,
    }
}

fn more_unknown(what: NameKind) -> String {
    match what {
        NameKind::Filter => "query parameters filter by metadata keys".to_owned(),
        what => format!("unknown {}s have no effect", what.text()),
    }
}

fn missing(count: usize) -> String {
    match count {
        1 => "one of the messages does not exist, so it is not delivered again".to_owned(),
        _ => format!("{count} of the messages do not exist, so they are not delivered again"),
    }
}

/// Returns the known name that means the same as a word of another service.
pub(crate) fn other_word(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let (_, meant) = OTHER_WORDS.iter().find(|(word, _)| letters(word).eq(letters(name)))?;
    known.iter().copied().find(|known| meant.contains(known))
}

/// Returns the letters of a name in lower case, which other spellings of it have too.
pub fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|char| !matches!(char, '_' | '-' | ' ')).map(|char| char.to_ascii_lowercase())
}

/// Returns a text from a client in printable ASCII, truncated if it is long.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().map(char::escape_default) {
        if shown.len() + character.len() > SHOWN_CHARS_MAX {
            return shown + "...";
        }
        shown.extend(character);
    }
    shown
}

/// Returns the most similar known name, if one is similar enough. Upper and lower case are equal.
/// Only the beginning of a long name is compared.
#[must_use]
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    name.chars().nth(NAME_CHARS_MIN - 1)?;
    let name: String = name.chars().take(SHOWN_CHARS_MAX).map(|character| character.to_ascii_lowercase()).collect();
    let similarity = |known: &'k str| (strsim::jaro(&name, &known.to_ascii_lowercase()), known);
    let (similarity, nearest) = known.into_iter().map(similarity).max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    // A word may be missing. But two long names may also be similar because they have a word in
    // common.
    let (length, distance) = (name.chars().count(), strsim::osa_distance(&name, &nearest.to_ascii_lowercase()));
    let typos = distance.saturating_sub(length.abs_diff(nearest.len()));
    let is_meant = similarity >= SIMILARITY_MIN && typos <= (length / TYPO_DISTANCE).max(1);
    is_meant.then_some(nearest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Metadata;

    fn warnings(keys: &[&str]) -> Vec<String> {
        let keys = keys.iter().map(|key| ((*key).to_owned(), serde_json::json!(1))).collect::<serde_json::Map<_, _>>();
        Metadata::from_store((&keys).into())
            .warnings(&"q".parse().unwrap(), false)
            .iter()
            .map(Warning::to_string)
            .collect()
    }

    #[test]
    fn an_unknown_key_is_reported_with_the_most_similar_known_key() {
        for (key, meant) in [
            ("_max_claim_cuont", "_max_claim_count"),
            ("_MAX_CLAIM_COUNT", "_max_claim_count"),
            ("_max-claim-count", "_max_claim_count"),
            ("_default_ttl", "_default_message_ttl"),
            ("_dead_letter", "_dead_letter_queue"),
            ("_encrypt", "_enable_encrypt_messages"),
            ("_shard", "_shards"),
        ] {
            let expected = format!("unknown metadata key \"{key}\" has no effect; did you mean \"{meant}\"?");
            assert_eq!(warnings(&[key]), [expected]);
        }
        for key in ["_", "_mine", "_ttl", "_filter_policy"] {
            let expected = "has no effect; name keys of your own without a leading \"_\"";
            assert_eq!(warnings(&[key]), [format!("unknown metadata key \"{key}\" {expected}")]);
        }
    }

    #[test]
    fn a_few_unknown_keys_are_named() {
        let warnings = warnings(&["mine", "_a", "_b", "_c", "_d", "_e", "_f"]);

        assert_eq!(warnings.len(), UNKNOWN_NAMES_MAX + 1);
        assert_eq!(warnings[UNKNOWN_NAMES_MAX], "further unknown metadata keys have no effect");
    }

    proptest! {
        #[test]
        fn a_warning_is_a_short_line_of_printable_ascii(key in "(?s)_.{0,200}") {
            for warning in warnings(&[&key]) {
                prop_assert!(warning.len() <= 256, "{} bytes", warning.len());
                prop_assert!(warning.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{:?}", warning);
            }
        }
    }
}
