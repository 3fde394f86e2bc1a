//! What a script answers: a list whose first item says which kind of answer it is.

use bytes::Bytes;
use fred::types::Value;

use crate::storage::Error;

/// The items of an answer, read from front to back.
pub(super) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    /// Wraps an answer; one that is not a list counts as a list of one.
    pub(super) fn new(value: Value) -> Self {
        let items = match value {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            item => vec![item],
        };
        Self(items.into_iter())
    }

    /// Whether everything is read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The next item, if it is there and not nil.
    pub(super) fn bytes_or_nil(&mut self) -> Option<Bytes> {
        self.0.next()?.into_bytes()
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, Error> {
        self.bytes_or_nil().ok_or_else(too_short)
    }

    pub(super) fn text_or_nil(&mut self) -> Result<Option<String>, Error> {
        self.bytes_or_nil()
            .map(|bytes| String::from_utf8(bytes.into()).map_err(|error| Error::Corrupt(error.to_string())))
            .transpose()
    }

    pub(super) fn text(&mut self) -> Result<String, Error> {
        self.text_or_nil()?.ok_or_else(too_short)
    }

    /// An item that is a list itself.
    pub(super) fn list(&mut self) -> Result<Self, Error> {
        self.0.next().map(Self::new).ok_or_else(too_short)
    }

    /// A number, sent as one or as text (a rank, which Lua's own conversion would round).
    pub(super) fn number(&mut self) -> Result<u64, Error> {
        match self.0.next().ok_or_else(too_short)? {
            Value::Integer(number) => u64::try_from(number)
                .map_err(|_| Error::Corrupt(format!("an answer has {number} where a count belongs"))),
            value => parse(&value.into_string().ok_or_else(too_short)?),
        }
    }
}

/// The number that the text spells.
pub(super) fn parse(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| Error::Corrupt(format!("an answer has {text:?} where a number belongs")))
}

fn too_short() -> Error {
    Error::Corrupt("an answer is too short".to_owned())
}

/// An answer of a kind that this version does not know.
pub(super) fn unknown(script: &str, kind: &str) -> Error {
    Error::Corrupt(format!("{script} answered {kind:?}"))
}
