//! Requests and replies of WebSockets: a text frame has JSON, and a binary frame has `MessagePack`.
//!
//! Both are converted to `MessagePack` under the rules of JSON bodies, so that what follows does
//! not depend on the kind of a frame.

use std::fmt;

use bytes::Bytes;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::Error;
use super::{headers, json, messages};
use crate::broker::messages::Draft;
use sukkal_domain::msgpack::{self, Converted, Reader, Token};
use sukkal_domain::warning::{NameKind, UnknownNames};
use sukkal_domain::{JsonObject, Warning, WithWarnings};

/// The `MessagePack` of an empty object.
const EMPTY_OBJECT: &[u8] = &[0x80];
/// The field with the messages of a post.
const MESSAGES: &[u8] = b"messages";
/// The `MessagePack` of null.
const NULL: &[u8] = &[0xc0];

/// Maximum size of an action that error messages repeat, in bytes of `MessagePack`.
const ACTION_BYTES_MAX: usize = 256;

/// The kind of a frame, which says how its document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON.
    Text,
    /// `MessagePack`.
    Binary,
}

/// A request in a frame.
#[derive(Clone, Debug)]
pub struct FrameRequest {
    /// The kind of the frame.
    pub kind: Kind,
    action: Part,
    headers: Part,
    body: Part,
    /// A header with one value that is repeated.
    repeated_header: Option<&'static str>,
    /// Warnings about further fields of the frame.
    pub warnings: Vec<Warning>,
}

/// A part of a request, as `MessagePack` that was converted from JSON; `None` if it is absent.
#[derive(Clone, Debug, Default)]
struct Part(Option<Bytes>);

/// The type of a field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A text.
    Text,
    /// An integer.
    Integer,
    /// True or false.
    Boolean,
    /// A list.
    List,
    /// An object.
    Object,
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "a text",
            Self::Integer => "an integer",
            Self::Boolean => "a boolean",
            Self::List => "a list",
            Self::Object => "an object",
        })
    }
}

/// The part of a reply that repeats the request.
#[derive(Serialize)]
struct Echo<'r> {
    action: Document<'r>,
    body: Document<'r>,
    headers: Document<'r>,
    api: &'static str,
}

/// `MessagePack` that was converted from JSON, as a part of another document.
struct Document<'d>(&'d [u8]);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        msgpack::serialize(self.0, serializer)
    }
}

impl Kind {
    /// Writes a document in the format of this kind of frames.
    pub fn write(self, document: &impl Serialize) -> Result<Vec<u8>, Error> {
        let failed = |error: &dyn fmt::Display| {
            tracing::error!(%error, "cannot write the document of a frame");
            Error::Document
        };
        match self {
            Self::Text => sonic_rs::to_vec(document).map_err(|error| failed(&error)),
            Self::Binary => {
                let mut bytes = Vec::new();
                let mut writer = rmp_serde::Serializer::new(&mut bytes).with_struct_map().with_human_readable();
                document.serialize(&mut writer).map_err(|error| failed(&error))?;
                Ok(bytes)
            }
        }
    }

    /// Returns the name of the format in error messages.
    fn format(self) -> &'static str {
        match self {
            Self::Text => "text (JSON)",
            Self::Binary => "binary (MessagePack)",
        }
    }

    /// Writes a reply. `body` and `headers` are documents in the format of this kind; the request
    /// is absent if it could not be decoded.
    pub fn write_reply(self, request: Option<&FrameRequest>, body: &[u8], headers: &[u8]) -> Result<Vec<u8>, Error> {
        let unknown = FrameRequest::empty(self);
        let request = request.unwrap_or(&unknown);
        let echo = self.write(&Echo {
            action: Document(request.action.0.as_deref().unwrap_or(NULL)),
            body: Document(request.body.or_empty()),
            headers: Document(request.headers.or_empty()),
            api: "v2",
        })?;
        let parts = [("request", echo.as_slice()), ("body", body), ("headers", headers)];
        let mut reply = Vec::with_capacity(64 + echo.len() + body.len() + headers.len());
        match self {
            Self::Text => {
                for (index, (name, document)) in parts.into_iter().enumerate() {
                    let start = if index == 0 { "{\"" } else { ",\"" };
                    reply.extend([start, name, "\":"].iter().flat_map(|text| text.bytes()));
                    reply.extend_from_slice(document);
                }
                reply.push(b'}');
            }
            Self::Binary => {
                reply.push(0x83);
                for (name, document) in parts {
                    reply.extend(self.write(&name)?);
                    reply.extend_from_slice(document);
                }
            }
        }
        Ok(reply)
    }
}

impl Part {
    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Bytes::len)
    }

    fn or_empty(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(EMPTY_OBJECT)
    }

    fn token(&self) -> Option<Token<'_>> {
        Reader::new(self.0.as_deref()?).token()
    }

    /// Returns the value of a field, if the part is an object that has the field.
    fn field(&self, name: &str) -> Option<&[u8]> {
        let mut reader = Reader::new(self.0.as_deref()?);
        match reader.token() {
            Some(Token::Object(length)) if reader.seek(name.as_bytes(), length) => reader.value(),
            _ => None,
        }
    }
}

impl FrameRequest {
    /// Parses the payload of a frame. The error is a sentence for the client.
    pub fn parse(kind: Kind, payload: &[u8]) -> Result<Self, String> {
        let undecodable = |reason: String| format!("Can't decode {} request. {reason}", kind.format());
        let Converted { msgpack, with_equal_keys, .. } = match kind {
            Kind::Text => json::parse_value(payload).map_err(|error| undecodable(error.to_string()))?,
            Kind::Binary => msgpack::from_msgpack(payload).map_err(undecodable)?,
        };
        let document = Bytes::from(msgpack);
        if !matches!(Reader::new(&document).token(), Some(Token::Object(_))) {
            return Err("Unexpected body type. Expected dict or dict like.".to_owned());
        }
        let mut request = Self {
            repeated_header: headers::repeated(header_names(with_equal_keys.as_deref().unwrap_or(&document))),
            ..Self::empty(kind)
        };
        let mut unknown = UnknownNames::new(NameKind::Field, &["action", "headers", "body"]);
        for (name, value) in entries(&document) {
            let part = match name {
                b"action" => &mut request.action,
                b"headers" => &mut request.headers,
                b"body" => &mut request.body,
                name => {
                    unknown.check(str::from_utf8(name).unwrap_or_default());
                    continue;
                }
            };
            part.0 = Some(document.slice_ref(value));
        }
        request.warnings = unknown.into_warnings();
        Ok(request)
    }

    /// Returns a request without an action.
    fn empty(kind: Kind) -> Self {
        let (action, headers, body) = (Part(None), Part(None), Part(None));
        Self { kind, action, headers, body, repeated_header: None, warnings: Vec::new() }
    }

    /// Returns a header with one value that is repeated.
    #[must_use]
    pub fn repeated_header(&self) -> Option<&'static str> {
        self.repeated_header
    }

    /// Returns the size of the request, in bytes of `MessagePack`.
    #[must_use]
    pub fn bytes(&self) -> usize {
        [&self.action, &self.headers, &self.body].iter().map(|part| part.bytes()).sum()
    }

    /// Returns a request of this kind for the action alone, as the reply to a request that has a
    /// credential repeats it. A long action is left out.
    #[must_use]
    pub fn without_contents(&self) -> Self {
        let action = if self.has_long_action() { Part(None) } else { self.action.clone() };
        Self { action, ..Self::empty(self.kind) }
    }

    fn has_long_action(&self) -> bool {
        self.action.bytes() > ACTION_BYTES_MAX
    }

    /// Returns the action. Of an action that is not a text, it returns the JSON, and of a long one
    /// only its size.
    #[must_use]
    pub fn action(&self) -> String {
        if self.has_long_action() {
            return format!("A value of {} bytes", self.action.bytes());
        }
        match self.action.0.as_deref().map(json::from_msgpack) {
            None => "None".to_owned(),
            Some(Value::String(action)) => action,
            Some(other) => other.to_string(),
        }
    }

    /// Returns whether the headers, and the body unless it is absent, are objects.
    #[must_use]
    pub fn has_objects(&self) -> bool {
        matches!(self.headers.token(), Some(Token::Object(_)))
            && (self.body.0.is_none() || matches!(self.body.token(), Some(Token::Object(_))))
    }

    /// Returns a header. One that would be a large tree is null, which is accepted for no header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<Value> {
        let value = self.headers.field(name)?;
        Some(if json::check_values(value).is_ok() { json::from_msgpack(value) } else { Value::Null })
    }

    /// Returns the names of the headers.
    pub fn header_names(&self) -> impl Iterator<Item = &str> {
        entries(self.headers.or_empty()).map(|(name, _)| str::from_utf8(name).unwrap_or_default())
    }

    /// Returns whether the body has a field, and has it with this type.
    #[must_use]
    pub fn field_has_type(&self, name: &str, expected: FieldType) -> Option<bool> {
        let token = Reader::new(self.body.field(name)?).token()?;
        Some(match expected {
            FieldType::Text => matches!(token, Token::Text(_)),
            FieldType::Integer => matches!(token, Token::Signed(_) | Token::Unsigned(_)),
            FieldType::Boolean => matches!(token, Token::Bool(_)),
            FieldType::List => matches!(token, Token::Array(_)),
            FieldType::Object => matches!(token, Token::Object(_)),
        })
    }

    /// Returns a field of the body. Null counts as absent.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Value> {
        self.body.field(name).map(json::from_msgpack).filter(|value| !value.is_null())
    }

    /// Returns a field of the body that is an object.
    #[must_use]
    pub fn object(&self, name: &str) -> Option<JsonObject> {
        JsonObject::from_msgpack(self.body.0.as_ref()?.slice_ref(self.body.field(name)?))
    }

    /// Returns a field that is a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.field(name).and_then(|value| value.as_str().map(str::to_owned))
    }

    /// Returns a field that is an integer.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.field(name).and_then(|value| value.as_i64())
    }

    /// Returns whether a field is true.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        self.field(name) == Some(Value::Bool(true))
    }

    /// Returns a field that is a list of texts; an empty list if it is absent.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, Error> {
        let Some(value) = self.field(name) else { return Ok(Vec::new()) };
        json::texts(&value).ok_or_else(|| Error::Request(format!("\"{name}\" must be a list of texts")))
    }

    /// Returns the whole body.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        match json::from_msgpack(self.body.or_empty()) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    /// Returns the names of the fields of the body.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        entries(self.body()).map(|(name, _)| str::from_utf8(name).unwrap_or_default())
    }

    /// Returns the messages of a post.
    pub fn drafts(&self) -> Result<WithWarnings<Vec<Draft>>, Error> {
        messages::drafts_of(self.body.0.as_ref().unwrap_or(&Bytes::from_static(EMPTY_OBJECT)))
    }

    /// Returns the `MessagePack` of the body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.body.or_empty()
    }

    /// Succeeds if the body has at most this size, in bytes of `MessagePack`.
    pub fn check_size(&self, bytes_max: u64) -> Result<(), Error> {
        let bytes = self.body().len() as u64;
        if bytes > bytes_max {
            return Err(Error::Request(format!("the body has {bytes} bytes; at most {bytes_max} are allowed")));
        }
        Ok(())
    }

    /// Succeeds if the body may become a tree, apart from its messages. Call this before one
    /// becomes a tree.
    pub fn check_values(&self) -> Result<(), Error> {
        let fields = entries(self.body()).filter(|(name, _)| *name != MESSAGES);
        json::check_count(fields.map(|(_, value)| 1 + msgpack::extent(value).0).sum())
    }
}

/// Returns the names of all headers in a document.
fn header_names(document: &[u8]) -> impl Iterator<Item = &[u8]> {
    let headers = entries(document).filter(|(name, _)| *name == b"headers");
    headers.flat_map(|(_, headers)| entries(headers)).map(|(name, _)| name)
}

/// Returns the keys and values of an object; none of another value.
fn entries(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut reader = Reader::new(value);
    let length = if let Some(Token::Object(length)) = reader.token() { length } else { 0 };
    (0..length).map_while(move |_| reader.entry())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn echo(kind: Kind, payload: &[u8]) -> Value {
        let request = FrameRequest::parse(kind, payload).unwrap();
        let (body, headers) = (kind.write(&json!({})).unwrap(), kind.write(&json!({"status": 200})).unwrap());
        let reply = kind.write_reply(Some(&request), &body, &headers).unwrap();
        let reply: Value = match kind {
            Kind::Text => serde_json::from_slice(&reply).unwrap(),
            Kind::Binary => rmp_serde::from_slice(&reply).unwrap(),
        };
        assert_eq!((&reply["body"], &reply["headers"]), (&json!({}), &json!({"status": 200})));
        reply["request"].clone()
    }

    #[test]
    fn both_kinds_of_frames_have_the_same_rules() {
        let request = json!({"action": "a", "headers": {"X": "é"}, "body": {"n": [-1, 1.5, null, true, "x", {}]}});
        let mut expected = request.clone();
        expected["api"] = json!("v2");

        assert_eq!(echo(Kind::Text, request.to_string().as_bytes()), expected);
        assert_eq!(echo(Kind::Binary, &rmp_serde::to_vec(&request).unwrap()), expected);
        let nothing = json!({"action": null, "headers": {}, "body": {}, "api": "v2"});
        assert_eq!(echo(Kind::Text, b"{}"), nothing);
        assert_eq!(echo(Kind::Binary, EMPTY_OBJECT), nothing);
        let equal_keys =
            [0x82, 0xa6, b'a', b'c', b't', b'i', b'o', b'n', 1, 0xa6, b'a', b'c', b't', b'i', b'o', b'n', 2];
        assert_eq!(echo(Kind::Binary, &equal_keys)["action"], 2);
        assert_eq!(echo(Kind::Text, br#"{"action": 1, "action": 2}"#)["action"], 2);
    }

    #[test]
    fn a_repeated_header_with_one_value_is_found() {
        for (text, repeated) in [
            (r#"{"headers": {"Client-ID": "a", "X-Project-ID": "p"}}"#, None),
            (r#"{"headers": {"Client-ID": "a", "client-id": "a"}}"#, Some("Client-ID")),
            (r#"{"headers": {"X-Roles": "a", "X-Roles": "b"}}"#, Some("X-Roles")),
            (r#"{"headers": {"X-Tenant": "a"}, "headers": {"X-Tenant": "b"}}"#, Some("X-Tenant")),
            (r#"{"headers": {"traceparent": "a", "traceparent": "b"}}"#, None),
            (r#"{"headers": {"Origin": {"Origin": 1, "Origin": 2}}, "body": {"Origin": 1, "Origin": 2}}"#, None),
            (r#"{"headers": ["Origin", "Origin"]}"#, None),
        ] {
            let request = FrameRequest::parse(Kind::Text, text.as_bytes()).unwrap();
            assert_eq!(request.repeated_header(), repeated, "{text}");
        }
        let binary = b"\x81\xa7headers\x82\xa6origin\x01\xa6origin\x02";
        assert_eq!(FrameRequest::parse(Kind::Binary, binary).unwrap().repeated_header(), Some("Origin"));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let nested = |kind| match kind {
            Kind::Text => "[".repeat(1000).into_bytes(),
            Kind::Binary => vec![0x91; 1000],
        };
        for (kind, payload) in [
            (Kind::Text, b"\xef\xbb\xbf\xef\xbb\xbf{}".to_vec()),
            (Kind::Text, b"{}{}".to_vec()),
            (Kind::Text, br#"{"a": 9223372036854775808}"#.to_vec()),
            (Kind::Text, nested(Kind::Text)),
            (Kind::Binary, b"123".to_vec()),
            (Kind::Binary, b"".to_vec()),
            // A key that is a number, binary data, an extension, NaN, a large integer, and texts
            // and lists that end early or are not UTF-8.
            (Kind::Binary, vec![0x81, 1, 1]),
            (Kind::Binary, vec![0x81, 0xa1, b'a', 0xc4, 1, 1]),
            (Kind::Binary, vec![0x81, 0xa1, b'a', 0xd4, 1, 1]),
            (Kind::Binary, vec![0x81, 0xa1, b'a', 0xca, 0x7f, 0xc0, 0, 0]),
            (Kind::Binary, vec![0x81, 0xa1, b'a', 0xcf, 255, 255, 255, 255, 255, 255, 255, 255]),
            (Kind::Binary, vec![0xa5, b'a']),
            (Kind::Binary, vec![0xa1, 0xff]),
            (Kind::Binary, vec![0xdd, 255, 255, 255, 255]),
            (Kind::Binary, nested(Kind::Binary)),
        ] {
            let error = FrameRequest::parse(kind, &payload).unwrap_err();
            assert!(error.starts_with("Can't decode "), "{payload:?}: {error}");
        }
        for (kind, payload) in [(Kind::Text, &b"[1]"[..]), (Kind::Text, b"1"), (Kind::Binary, b"\x01")] {
            assert!(FrameRequest::parse(kind, payload).unwrap_err().starts_with("Unexpected body type."));
        }
    }

    proptest! {
        #[test]
        fn no_payload_makes_the_parser_panic(bytes: Vec<u8>, head in 0..4_usize) {
            // Most random bytes are no object, so some begin with one.
            let start: &[u8] = [&b""[..], b"{\"body\":{", b"\x81\xa4body\x82", b"\x83"][head];
            let payload = [start, &bytes].concat();
            for kind in [Kind::Text, Kind::Binary] {
                if let Ok(request) = FrameRequest::parse(kind, &payload) {
                    let _ = (request.action(), request.has_objects(), request.drafts(), request.fields());
                    let reply = kind.write_reply(Some(&request), b"1", b"1");
                    prop_assert!(reply.is_ok());
                }
            }
        }
    }
}
