//! The options of a subscription that have a meaning. Others are stored and have no effect.

use serde_json::{Map, Value};
use thiserror::Error;

use super::integer::integer;
use super::mailto::MailTo;
use super::queue_id::InvalidQueueId;
use super::retry_policy::{self, InvalidRetryPolicy, PolicySetting};
use super::subscription::TRUST_ID;
use super::warning::{NameKind, of_unknown};
use super::{JsonObject, QueueName, SignatureAlgorithm, Subscriber, Warning};

const RETRY_POLICY: &str = "_retry_policy";
const ORDERED: &str = "ordered";
const CONCURRENCY: &str = "concurrency";
const MATCH: &str = "match";
const DEAD_LETTER_QUEUE: &str = "dead_letter_queue";
const NOTIFY_QUEUE: &str = "notify_queue";
const POST_DATA: &str = "post_data";
const POST_HEADERS: &str = "post_headers";
const SIGNATURE: &str = "signature";
const WITH_DELIVERY: &str = "with_delivery";
const FROM: &str = "from";
const SUBJECT: &str = "subject";

/// The options with a meaning for the client. The service sets `trust_id` itself.
pub const KNOWN: [&str; 12] = [
    RETRY_POLICY,
    ORDERED,
    CONCURRENCY,
    MATCH,
    DEAD_LETTER_QUEUE,
    NOTIFY_QUEUE,
    POST_DATA,
    POST_HEADERS,
    SIGNATURE,
    WITH_DELIVERY,
    FROM,
    SUBJECT,
];

/// Fields of a subscription, which are no options.
const FIELDS: [&str; 4] = ["subscriber", "ttl", "secret", "since"];

/// Those with a meaning for subscriptions of connections.
const OF_CONNECTIONS: [&str; 2] = [MATCH, WITH_DELIVERY];

/// The options with a meaning for mails alone, and those without one for mails.
const FOR_MAIL: [&str; 2] = [FROM, SUBJECT];
const NOT_FOR_MAIL: [&str; 2] = [POST_HEADERS, SIGNATURE];

/// Default and maximum number of notifications in flight.
const CONCURRENCY_DEFAULT: u32 = 8;
const CONCURRENCY_MAX: u32 = 64;
/// The text in `post_data` that is replaced by the document of a message, with its quotes.
pub const PLACEHOLDER: &str = "\"$zaqar_message$\"";
/// Maximum number of placeholders in a template. It bounds the size of requests.
const PLACEHOLDERS_MAX: usize = 4;
/// Maximum number of own headers.
const HEADERS_MAX: usize = 32;
/// Maximum size of the names and values of own headers together, in bytes.
const HEADER_BYTES_MAX: usize = 8_192;
/// Headers that belong to the connection or to the signature, in lower case.
const RESERVED_HEADERS: [&str; 9] =
    ["host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"];
/// Beginnings of the names of such headers.
const RESERVED_PREFIXES: [&str; 2] = ["proxy-", "webhook-"];

/// Returns warnings about options without a meaning, about those without an effect
/// for the subscriber, if it is known, and about keys of a retry policy.
#[must_use]
pub fn warnings(options: &Value, subscriber: Option<&str>) -> Vec<Warning> {
    let Some(options) = options.as_object() else { return Vec::new() };
    let mut warnings = unknown(options);
    let without_effect =
        subscriber.map(|subscriber| if MailTo::of_uri(subscriber).is_some() { NOT_FOR_MAIL } else { FOR_MAIL });
    let present = without_effect.into_iter().flatten().filter(|option| options.contains_key(*option));
    warnings.extend(present.map(Warning::NotForSubscriber));
    warnings.extend(options.get(RETRY_POLICY).into_iter().flat_map(retry_policy::warnings));
    let is_trusted = subscriber.is_none_or(Subscriber::is_text_for_trust);
    let has_trust = options.get(TRUST_ID).is_some_and(|id| !id.is_null());
    warnings.extend((has_trust && !is_trusted).then_some(Warning::NotForSubscriber(TRUST_ID)));
    let is_ordered = options.get(ORDERED) == Some(&Value::Bool(true)) && options.contains_key(CONCURRENCY);
    warnings.extend(is_ordered.then_some(Warning::OptionBeside { option: CONCURRENCY, other: ORDERED }));
    let template = options.get(POST_DATA).and_then(Value::as_str);
    warnings.extend(template.filter(|template| !template.contains(PLACEHOLDER)).map(|_| Warning::NoPlaceholder));
    warnings
}

/// Returns warnings about options that have no effect for a subscription of a connection.
#[must_use]
pub fn warnings_of_connection(options: &Value) -> Vec<Warning> {
    let Some(options) = options.as_object() else { return Vec::new() };
    let others = KNOWN.into_iter().filter(|known| options.contains_key(*known) && !OF_CONNECTIONS.contains(known));
    unknown(options).into_iter().chain(others.map(Warning::NotForConnections)).collect()
}

fn unknown(options: &Map<String, Value>) -> Vec<Warning> {
    let names = options.keys().map(String::as_str).filter(|name| !FIELDS.contains(name) && *name != TRUST_ID);
    let fields = FIELDS.into_iter().filter(|field| options.contains_key(*field)).map(Warning::NoOption);
    of_unknown(NameKind::SubscriptionOption, &KNOWN, names).into_iter().chain(fields).collect()
}

/// How the messages of a queue are delivered to a subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryOptions {
    /// Whether messages are delivered one at a time, in the order of the feed.
    pub ordered: bool,
    /// Maximum number of notifications in flight. An ordered subscription has one at a time.
    pub concurrency: u32,
    /// Only messages are delivered whose bodies have all these keys with these values.
    pub matches: JsonObject,
    /// The queue that receives messages whose retries are used up.
    pub dead_letter_queue: Option<QueueName>,
    /// The queue that receives a message when the subscription is disabled.
    pub notify_queue: Option<QueueName>,
    /// The template of the request body.
    pub post_data: Option<String>,
    /// Headers of the requests, with their names as the owner has written them.
    pub post_headers: Vec<(String, String)>,
    /// The policy for retries, if the subscription has its own.
    pub retry_policy: Option<PolicySetting>,
    /// The algorithm that signs notifications.
    pub signature: SignatureAlgorithm,
    /// Whether notifications have the ids of the message and of the subscription.
    pub with_delivery: bool,
    /// The sender of mails; null if it is no text. `MailRules` checks it, because it has no effect
    /// for other subscribers.
    pub from: Option<Value>,
    /// The subject of mails, to which the same applies.
    pub subject: Option<Value>,
}

/// Reasons for which options are refused. The errors do not show values of headers, which may be
/// secrets.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidOptions {
    /// An option has an invalid value.
    #[error("the option {option} must be {expected}")]
    Value {
        /// The option.
        option: &'static str,
        /// The accepted values.
        expected: &'static str,
    },
    /// An option does not name a queue.
    #[error("the option {option} must be the name of a queue: {reason}")]
    Queue {
        /// The option.
        option: &'static str,
        /// Why the name is invalid.
        reason: InvalidQueueId,
    },
    /// The retry policy is not valid.
    #[error("the option {RETRY_POLICY} is not valid: {0}")]
    RetryPolicy(#[from] InvalidRetryPolicy),
    /// A header is not accepted.
    #[error("the option {POST_HEADERS} contains {name:?}, {reason}")]
    Header {
        /// The name of the header.
        name: String,
        /// Why it is not accepted.
        reason: &'static str,
    },
    /// The template repeats the document too often.
    #[error("the option {POST_DATA} contains {PLACEHOLDER} {0} times; at most {PLACEHOLDERS_MAX} are allowed")]
    Placeholders(usize),
    /// A queue would receive copies of its own messages again and again.
    #[error("the option {0} names the queue of the subscription itself; name another queue")]
    OwnQueue(&'static str),
    /// There are too many headers.
    #[error("the option {POST_HEADERS} has {0} headers; at most {HEADERS_MAX} are allowed")]
    HeaderCount(usize),
    /// The headers are too large.
    #[error("the headers in the option {POST_HEADERS} have {0} bytes; at most {HEADER_BYTES_MAX} are allowed")]
    HeaderBytes(usize),
}

impl DeliveryOptions {
    /// Parses options. An option that is null counts as not set.
    ///
    /// # Errors
    ///
    /// [`InvalidOptions`] if a known option has an invalid value.
    pub fn parse(options: &JsonObject) -> Result<Self, InvalidOptions> {
        let option = |name: &str| options.get(name).filter(|value| !value.is_null());
        if let Some(policy) = option(RETRY_POLICY) {
            retry_policy::check(&policy)?;
        }
        let ordered = parsed(option(ORDERED).as_ref(), ORDERED, "a boolean", Value::as_bool)?;
        let concurrency =
            parsed(option(CONCURRENCY).as_ref(), CONCURRENCY, "an integer from 1 to 64", parse_concurrency)?;
        let matches = parsed(option(MATCH).as_ref(), MATCH, "an object", |_| options.object(MATCH))?;
        let post_data = parsed(option(POST_DATA).as_ref(), POST_DATA, "a string", text)?;
        let placeholders = post_data.as_ref().map_or(0, |template| template.matches(PLACEHOLDER).count());
        if placeholders > PLACEHOLDERS_MAX {
            return Err(InvalidOptions::Placeholders(placeholders));
        }
        let with_delivery = parsed(option(WITH_DELIVERY).as_ref(), WITH_DELIVERY, "a boolean", Value::as_bool)?;
        let signature = parsed(option(SIGNATURE).as_ref(), SIGNATURE, "\"v1\" or \"v1a\"", |value| {
            SignatureAlgorithm::of_name(value.as_str()?)
        })?;
        Ok(Self {
            ordered: ordered.unwrap_or(false),
            concurrency: concurrency.unwrap_or(CONCURRENCY_DEFAULT),
            matches: matches.unwrap_or_default(),
            dead_letter_queue: option(DEAD_LETTER_QUEUE).map(|name| queue(&name, DEAD_LETTER_QUEUE)).transpose()?,
            notify_queue: option(NOTIFY_QUEUE).map(|name| queue(&name, NOTIFY_QUEUE)).transpose()?,
            post_data,
            post_headers: option(POST_HEADERS).as_ref().map(parse_headers).transpose()?.unwrap_or_default(),
            retry_policy: option(RETRY_POLICY).as_ref().and_then(PolicySetting::of),
            signature: signature.unwrap_or(SignatureAlgorithm::HmacSha256),
            with_delivery: with_delivery.unwrap_or(false),
            from: option(FROM).map(text_or_null),
            subject: option(SUBJECT).map(text_or_null),
        })
    }
}

impl DeliveryOptions {
    /// Returns the queues that the service posts to, each with the option that names it.
    pub fn targets(&self) -> impl Iterator<Item = (&'static str, &QueueName)> {
        let targets = [(DEAD_LETTER_QUEUE, &self.dead_letter_queue), (NOTIFY_QUEUE, &self.notify_queue)];
        targets.into_iter().filter_map(|(option, queue)| Some((option, queue.as_ref()?)))
    }

    /// Succeeds if a subscription of this queue may have the options.
    ///
    /// # Errors
    ///
    /// [`InvalidOptions::OwnQueue`] if messages of the queue would come back to it, and
    /// [`InvalidOptions::Queue`] if a queue that receives messages could not be created.
    pub fn check_for(&self, queue: &QueueName) -> Result<(), InvalidOptions> {
        for (option, to) in self.targets() {
            to.check_new().map_err(|reason| InvalidOptions::Queue { option, reason })?;
        }
        match self.targets().find(|(_, to)| *to == queue) {
            Some((option, _)) => Err(InvalidOptions::OwnQueue(option)),
            None => Ok(()),
        }
    }
}

/// Returns the parsed value of an option, if it is set.
fn parsed<T>(
    value: Option<&Value>,
    option: &'static str,
    expected: &'static str,
    parse: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, InvalidOptions> {
    value.map(|value| parse(value).ok_or(InvalidOptions::Value { option, expected })).transpose()
}

/// Returns the value if it is a text. Other values may be much larger, and none of them is
/// accepted.
fn text_or_null(value: Value) -> Value {
    if value.is_string() { value } else { Value::Null }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn parse_concurrency(value: &Value) -> Option<u32> {
    let number = integer(value).filter(|_| !value.is_boolean())?;
    u32::try_from(number).ok().filter(|number| (1..=CONCURRENCY_MAX).contains(number))
}

fn queue(value: &Value, option: &'static str) -> Result<QueueName, InvalidOptions> {
    let name = value.as_str().unwrap_or_default();
    name.parse().map_err(|reason| InvalidOptions::Queue { option, reason })
}

fn parse_headers(value: &Value) -> Result<Vec<(String, String)>, InvalidOptions> {
    let expected = "an object whose values are strings";
    let invalid = || InvalidOptions::Value { option: POST_HEADERS, expected };
    let headers = value.as_object().ok_or_else(invalid)?;
    if headers.len() > HEADERS_MAX {
        return Err(InvalidOptions::HeaderCount(headers.len()));
    }
    let mut parsed: Vec<(String, String)> = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let value = text(value).ok_or_else(invalid)?;
        let is_twice = parsed.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let reason = refusal_of_header(name, &value).or(is_twice.then_some("which is there twice in different case"));
        if let Some(reason) = reason {
            return Err(InvalidOptions::Header { name: name.clone(), reason });
        }
        parsed.push((name.clone(), value));
    }
    let bytes = parsed.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > HEADER_BYTES_MAX { Err(InvalidOptions::HeaderBytes(bytes)) } else { Ok(parsed) }
}

/// Returns why a header is not accepted.
fn refusal_of_header(name: &str, value: &str) -> Option<&'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || !name.bytes().all(is_token) {
        Some("which is not the name of a header")
    } else if RESERVED_HEADERS.contains(&&*lower) || RESERVED_PREFIXES.iter().any(|prefix| lower.starts_with(prefix)) {
        Some("which only the service may set")
    } else if !value.bytes().all(|byte| byte == b'\t' || byte == b' ' || byte.is_ascii_graphic()) {
        Some("whose value has characters that are not printable ASCII")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn parse(options: &Value) -> Result<DeliveryOptions, InvalidOptions> {
        DeliveryOptions::parse(&options.as_object().unwrap().into())
    }

    fn error_of(options: &Value) -> String {
        parse(options).map_or_else(|error| error.to_string(), |_| panic!("{options} is accepted"))
    }

    #[test]
    fn options_have_defaults_and_unknown_ones_have_no_effect() {
        let default = parse(&json!({})).unwrap();
        let null = json!({"ordered": null, "match": null, "post_headers": null, "_retry_policy": null, "a": 1});

        assert!(!default.ordered && default.matches.is_empty() && default.post_headers.is_empty());
        assert_eq!((default.concurrency, default.signature), (8, SignatureAlgorithm::HmacSha256));
        assert_eq!(parse(&null).unwrap(), default);
    }

    #[test]
    fn options_are_parsed() {
        let options = parse(&json!({
            "ordered": true, "concurrency": 64, "match": {"kind": "order"}, "dead_letter_queue": "dead",
            "notify_queue": "ops", "post_data": "{}", "post_headers": {"X-Auth-Token": "t", "content-type": "a/b"},
            "signature": "v1a", "_retry_policy": {"minimum_delay": 7},
        }))
        .unwrap();

        assert!(
            options.ordered
                && options.matches.text("kind") == Some("order")
                && options.signature == SignatureAlgorithm::Ed25519
        );
        assert_eq!((options.concurrency, options.post_data.as_deref()), (64, Some("{}")));
        assert_eq!(options.dead_letter_queue.unwrap().as_str(), "dead");
        assert_eq!(options.notify_queue.unwrap().as_str(), "ops");
        assert_eq!(options.post_headers[1], ("content-type".to_owned(), "a/b".to_owned()));
        assert_eq!(options.retry_policy, PolicySetting::of(&json!({"minimum_delay": 7})));
    }

    /// Row 8.3-7.
    #[test]
    fn invalid_options_are_refused_with_what_is_accepted() {
        for (options, expected) in [
            (json!({"ordered": 1}), "the option ordered must be a boolean"),
            (json!({"concurrency": 0}), "the option concurrency must be an integer from 1 to 64"),
            (json!({"concurrency": 65}), "the option concurrency must be"),
            (json!({"concurrency": true}), "the option concurrency must be"),
            (json!({"match": []}), "the option match must be an object"),
            (json!({"dead_letter_queue": "a b"}), "the option dead_letter_queue must be the name of a queue"),
            (json!({"notify_queue": 3}), "the option notify_queue must be the name of a queue"),
            (json!({"post_data": {}}), "the option post_data must be a string"),
            (json!({"with_delivery": "yes"}), "the option with_delivery must be a boolean"),
            (json!({"signature": "v2"}), "the option signature must be \"v1\" or \"v1a\""),
            (json!({"_retry_policy": 1}), "the option _retry_policy is not valid: the policy must be an object"),
            (json!({"post_headers": []}), "the option post_headers must be an object whose values are strings"),
            (json!({"post_headers": {"a": 1}}), "the option post_headers must be an object whose values are strings"),
        ] {
            let error = error_of(&options);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn no_header_can_replace_or_smuggle_one_of_the_service() {
        for name in RESERVED_HEADERS.iter().chain(&["Proxy-Authorization", "webhook-id", "WEBHOOK-SIGNATURE"]) {
            assert!(
                error_of(&json!({"post_headers": {name.to_uppercase(): "x"}})).ends_with("only the service may set")
            );
        }
        for name in ["", "a b", "a:", "a\r\nHost", "é"] {
            assert!(error_of(&json!({"post_headers": {name: "x"}})).ends_with("not the name of a header"), "{name:?}");
        }
        for value in ["a\r\nHost: b", "a\nb", "a\0", "\u{7f}", "é"] {
            let error = error_of(&json!({"post_headers": {"a": value}}));
            assert!(error.ends_with("not printable ASCII") && !error.contains(value), "{error}");
        }
        assert!(error_of(&json!({"post_headers": {"Accept": "x", "accept": "y"}})).ends_with("in different case"));
    }

    #[test]
    fn a_template_repeats_the_document_a_few_times_at_most() {
        let template = |count| json!({"post_data": PLACEHOLDER.repeat(count)});

        assert!(parse(&template(4)).is_ok());
        assert!(error_of(&template(5)).ends_with("5 times; at most 4 are allowed"));
    }

    #[test]
    fn a_queue_does_not_receive_its_own_messages_again() {
        let queue = |name: &str| name.parse().unwrap();
        for option in [DEAD_LETTER_QUEUE, NOTIFY_QUEUE] {
            let options = parse(&json!({option: "own"})).unwrap();
            assert_eq!(options.check_for(&queue("own")), Err(InvalidOptions::OwnQueue(option)));
            assert_eq!(options.check_for(&queue("other")), Ok(()));
        }
    }

    #[test]
    fn headers_are_limited_in_number_and_size() {
        let headers = |count: usize, bytes: usize| {
            let header = |number| (format!("h-{number:02}"), json!("x".repeat(bytes)));
            json!({"post_headers": (0..count).map(header).collect::<Map<_, _>>()})
        };

        assert!(parse(&headers(32, 251)).is_ok() && parse(&headers(1, 8_188)).is_ok());
        assert!(error_of(&headers(33, 1)).contains("33 headers; at most 32"));
        assert!(error_of(&headers(1, 8_189)).contains("8193 bytes; at most 8192"));
    }

    proptest! {
        #[test]
        fn an_accepted_header_is_one_line(name in "[ -~\\r\\n]{0,4}", value in "(?s).{0,6}") {
            if let Ok(options) = parse(&json!({"post_headers": {name: value}})) {
                let (name, value) = &options.post_headers[0];
                let is_clean = |text: &str| !text.contains(['\r', '\n', '\0', '\u{7f}']) && text.is_ascii();
                prop_assert!(is_clean(name) && is_clean(value) && !name.contains([':', ' ']));
            }
        }
    }
}
