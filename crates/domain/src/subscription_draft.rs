//! What a client sends to create or change a subscription, validated.

use serde_json::{Map, Value};
use thiserror::Error;

use super::delivery_options::InvalidOptions;
use super::integer::integer;
use super::json_object::TooComplex;
use super::limits::SUBSCRIPTION_TTL_S_MIN;
use super::mail_rules::InvalidMail;
use super::signing_key::InvalidSecret;
use super::subscriber::InvalidSubscriber;
use super::{AddressRules, DeliveryOptions, JsonObject, Secret, SignatureAlgorithm, SigningKey, Subscriber};

/// The end of the year 9999, in seconds since 1970. No subscription lives longer.
const LAST_S: u64 = 253_402_300_799;

/// What a client sends to create or change a subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionDraft {
    /// The subscriber.
    pub subscriber: Option<Subscriber>,
    /// Time to live, in seconds.
    pub ttl_s: Option<u64>,
    /// The options, which are valid.
    pub options: Option<JsonObject>,
    secret: Option<Secret>,
}

/// Reasons for which a subscription is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidSubscription {
    /// A new subscription has no subscriber.
    #[error("Missing parameter subscriber in body.")]
    NoSubscriber,
    /// A field has a value of the wrong type.
    #[error("{field} must be {expected}")]
    Type {
        /// The field.
        field: &'static str,
        /// The accepted type.
        expected: &'static str,
    },
    /// The subscriber is not accepted.
    #[error(transparent)]
    Subscriber(#[from] InvalidSubscriber),
    /// The time to live is too short or too long.
    #[error("ttl is {value}; it must be between {SUBSCRIPTION_TTL_S_MIN} and {max}, in seconds")]
    Ttl {
        /// The value received.
        value: i64,
        /// Maximum value at the moment.
        max: u64,
    },
    /// The options are not an object.
    #[error("Options must be a dict.")]
    OptionsType,
    /// The options have too many values or levels.
    #[error("the options have {0}")]
    Complex(#[from] TooComplex),
    /// An option is not accepted.
    #[error(transparent)]
    Options(#[from] InvalidOptions),
    /// The client names a trust.
    #[error("the option trust_id cannot be set; the service creates a trust with the token of the request")]
    TrustId,
    /// Keystone creates no trust.
    #[error("the subscriber needs a trust: {0}")]
    Trust(String),
    /// A subscription with a trust changes, or one without it gets a subscriber that needs one.
    #[error("a subscription with a trust+ subscriber cannot be changed; delete it and create another one")]
    TrustChange,
    /// Mails of the subscription are not accepted.
    #[error(transparent)]
    Mail(#[from] InvalidMail),
    /// The secret is not a key for the algorithm.
    #[error(transparent)]
    Secret(#[from] InvalidSecret),
    /// The algorithm changes, but there is no new key.
    #[error(
        "the option signature is {:?}, but the subscription has a key for {:?}; send a new key as secret",
        .option.name(), .key.name()
    )]
    Algorithm {
        /// The algorithm in the options.
        option: SignatureAlgorithm,
        /// The algorithm of the key.
        key: SignatureAlgorithm,
    },
}

impl SubscriptionDraft {
    /// Parses the fields of a new subscription. The time is in seconds since 1970, and bounds the
    /// time to live.
    pub fn parse_new(
        fields: &Map<String, Value>,
        rules: &AddressRules,
        now_s: u64,
    ) -> Result<Self, InvalidSubscription> {
        let draft = Self::parse(|field| fields.get(field), rules, now_s)?;
        if draft.subscriber.is_none() { Err(InvalidSubscription::NoSubscriber) } else { Ok(draft) }
    }

    /// Parses the fields that are to be changed. A field that is null is left as it is.
    pub fn parse_change(
        fields: &Map<String, Value>,
        rules: &AddressRules,
        now_s: u64,
    ) -> Result<Self, InvalidSubscription> {
        Self::parse(|field| fields.get(field).filter(|value| !value.is_null()), rules, now_s)
    }

    fn parse<'v>(
        field: impl Fn(&str) -> Option<&'v Value>,
        rules: &AddressRules,
        now_s: u64,
    ) -> Result<Self, InvalidSubscription> {
        Ok(Self {
            subscriber: field("subscriber").map(|value| parse_subscriber(value, rules)).transpose()?,
            ttl_s: field("ttl").map(|value| parse_ttl(value, now_s)).transpose()?,
            options: field("options").map(parse_options).transpose()?,
            secret: field("secret").filter(|value| !value.is_null()).map(parse_secret).transpose()?,
        })
    }

    /// Returns whether the draft would change nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.subscriber.is_none() && self.ttl_s.is_none() && self.options.is_none() && self.secret.is_none()
    }

    /// Returns the key that the client has given, which must be one for the algorithm that the
    /// options name.
    pub fn key(&self, options: &JsonObject) -> Result<Option<SigningKey>, InvalidSubscription> {
        let algorithm = DeliveryOptions::parse(options)?.signature;
        Ok(self
            .secret
            .as_ref()
            .map(|secret| SigningKey::parse(secret.reveal().unwrap_or_default(), algorithm))
            .transpose()?)
    }
}

fn parse_subscriber(value: &Value, rules: &AddressRules) -> Result<Subscriber, InvalidSubscription> {
    let text = value.as_str().ok_or(InvalidSubscription::Type { field: "subscriber", expected: "a URI" })?;
    Ok(Subscriber::parse(text, rules)?)
}

fn parse_ttl(value: &Value, now_s: u64) -> Result<u64, InvalidSubscription> {
    let value = integer(value).ok_or(InvalidSubscription::Type { field: "ttl", expected: "an integer, in seconds" })?;
    let max = LAST_S.saturating_sub(now_s);
    let ttl_s = u64::try_from(value).ok().filter(|ttl_s| (SUBSCRIPTION_TTL_S_MIN..=max).contains(ttl_s));
    ttl_s.ok_or(InvalidSubscription::Ttl { value, max })
}

/// Returns the options. A value that is false in Python counts as an object without keys.
fn parse_options(value: &Value) -> Result<JsonObject, InvalidSubscription> {
    match value {
        Value::Object(options) => {
            let options = JsonObject::from(options);
            options.check()?;
            DeliveryOptions::parse(&options)?;
            Ok(options)
        }
        Value::Null | Value::Bool(false) => Ok(JsonObject::default()),
        Value::Array(items) if items.is_empty() => Ok(JsonObject::default()),
        Value::String(text) if text.is_empty() => Ok(JsonObject::default()),
        Value::Number(number) if number.as_f64() == Some(0.0) => Ok(JsonObject::default()),
        _ => Err(InvalidSubscription::OptionsType),
    }
}

fn parse_secret(value: &Value) -> Result<Secret, InvalidSubscription> {
    let text = value.as_str().ok_or(InvalidSubscription::Type { field: "secret", expected: "a string" })?;
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW_S: u64 = 1_800_000_000;

    fn rules() -> AddressRules {
        AddressRules::new(Vec::new(), vec!["80".parse().unwrap()], vec!["http".to_owned()])
    }

    fn new(fields: &Value) -> Result<SubscriptionDraft, InvalidSubscription> {
        SubscriptionDraft::parse_new(fields.as_object().unwrap(), &rules(), NOW_S)
    }

    fn change(fields: &Value) -> Result<SubscriptionDraft, InvalidSubscription> {
        SubscriptionDraft::parse_change(fields.as_object().unwrap(), &rules(), NOW_S)
    }

    fn with(field: &str, value: Value) -> Value {
        let mut fields = json!({"subscriber": "http://a.example"});
        fields[field] = value;
        fields
    }

    /// Rows 8.3-1, 8.3-3, 8.3-10.
    #[test]
    fn a_new_subscription_needs_a_subscriber_only() {
        let draft = new(&with("unknown", json!(1))).unwrap();

        assert_eq!(draft.subscriber.unwrap().as_str(), "http://a.example");
        assert_eq!((draft.ttl_s, draft.options), (None, None));
        assert_eq!(new(&json!({})), Err(InvalidSubscription::NoSubscriber));
        for value in [json!(null), json!(""), json!(3), json!(["http://a.example"])] {
            assert!(new(&with("subscriber", value.clone())).is_err(), "{value}");
        }
    }

    /// Rows 8.3-8, 8.3-9.
    #[test]
    fn a_ttl_is_at_least_a_minute_and_ends_before_the_year_10000() {
        let max = LAST_S - NOW_S;

        for (value, ttl_s) in [(json!(60), 60), (json!(max), max)] {
            assert_eq!(new(&with("ttl", value)).unwrap().ttl_s, Some(ttl_s));
        }
        for value in [json!(0), json!(59), json!(-60), json!(true), json!(max + 1), json!(i64::MAX)] {
            let error = new(&with("ttl", value.clone())).unwrap_err();
            assert!(matches!(error, InvalidSubscription::Ttl { .. }), "{value}: {error}");
        }
        for value in [json!(null), json!("60"), json!(60.0), json!(""), json!([])] {
            let error = new(&with("ttl", value.clone())).unwrap_err().to_string();
            assert_eq!(error, "ttl must be an integer, in seconds", "{value}");
        }
    }

    #[test]
    fn the_values_of_options_are_limited() {
        let with_values = |count: usize| with("options", json!({ "k": vec![0; count - 1] }));

        assert!(new(&with_values(1_000)).is_ok());
        for refused in [new(&with_values(1_001)), change(&with_values(1_001))] {
            let expected = "the options have 1001 values at all levels; at most 1000 are allowed, \
                            so write inner arrays and objects as texts";
            assert_eq!(refused.unwrap_err().to_string(), expected);
        }
    }

    /// Rows 8.3-5, 8.3-6.
    #[test]
    fn options_are_an_object_or_empty() {
        for value in [json!(null), json!(false), json!([]), json!(""), json!(0), json!({})] {
            assert_eq!(new(&with("options", value)).unwrap().options, Some(JsonObject::default()));
        }
        for value in [json!([1]), json!("a"), json!(1), json!(true)] {
            assert_eq!(new(&with("options", value)), Err(InvalidSubscription::OptionsType));
        }
        assert!(matches!(new(&with("options", json!({"ordered": 1}))), Err(InvalidSubscription::Options(_))));
    }

    /// Row 8.4-2.
    #[test]
    fn null_changes_nothing() {
        let nothing = json!({"subscriber": null, "ttl": null, "options": null, "secret": null, "unknown": 1});

        assert!(change(&nothing).unwrap().is_empty());
        assert!(!change(&json!({"options": []})).unwrap().is_empty());
        for fields in [json!({"subscriber": ""}), json!({"ttl": 0}), json!({"options": 1}), json!({"secret": 1})] {
            assert!(change(&fields).is_err(), "{fields}");
        }
    }

    #[test]
    fn a_secret_is_a_key_for_the_algorithm_of_the_options_and_is_not_shown() {
        let key = SigningKey::random(SignatureAlgorithm::Ed25519);
        let draft = change(&json!({"secret": key.secret()})).unwrap();
        let key_for = |signature: &str| draft.key(&json!({"signature": signature}).as_object().unwrap().into());

        assert_eq!(key_for("v1a").unwrap(), Some(key.clone()));
        assert!(matches!(key_for("v1"), Err(InvalidSubscription::Secret(_))));
        assert!(!format!("{draft:?}").contains(&key.secret()[5..]));
    }
}
