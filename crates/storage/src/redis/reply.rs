//! Replies of scripts and commands. A script replies with a list whose first item says which kind
//! of reply it is.

use bytes::Bytes;
use fred::types::Value;

use crate::{Error, record};
use sukkal_domain::{Queue, Revision};

/// The items of a reply, read from first to last.
pub(super) struct Reply {
    items: std::vec::IntoIter<Value>,
    /// Whether an earlier attempt of the command may have run too, or may still run.
    pub(super) is_repeated: bool,
}

impl Reply {
    /// Wraps a reply. One that is not a list counts as a list of one item. `is_repeated` says
    /// whether an earlier attempt may have run too.
    pub(super) fn new(value: Value, is_repeated: bool) -> Self {
        let items = match value {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            item => vec![item],
        };
        Self { items: items.into_iter(), is_repeated }
    }

    /// Returns the number of items that are left.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether no item is left.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the next item; `None` if it is nil or missing.
    pub(super) fn bytes_or_nil(&mut self) -> Option<Bytes> {
        self.items.next()?.into_bytes()
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

    /// Reads an item that is itself a list.
    pub(super) fn list(&mut self) -> Result<Self, Error> {
        self.items.next().map(|item| Self::new(item, false)).ok_or_else(too_short)
    }

    /// Reads all items that are left. Each call of `read` reads at least one.
    pub(super) fn read_all<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let mut read_items = Vec::with_capacity(self.len());
        while !self.is_empty() {
            read_items.push(read(self)?);
        }
        Ok(read_items)
    }

    /// Reads a number, which may be text: Lua's own conversion would round ranks.
    pub(super) fn number(&mut self) -> Result<u64, Error> {
        match self.items.next().ok_or_else(too_short)? {
            Value::Integer(number) => {
                u64::try_from(number).map_err(|_| Error::Corrupt(format!("a reply has {number} instead of a count")))
            }
            value => parse_number(&value.into_string().ok_or_else(too_short)?),
        }
    }
}

/// Parses a decimal number.
pub(super) fn parse_number(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| Error::Corrupt(format!("a reply has {text:?} instead of a number")))
}

fn too_short() -> Error {
    Error::Corrupt("a reply is too short".to_owned())
}

/// The error for a kind of reply that this version does not know.
pub(super) fn unknown_kind(script: &str, kind: &str) -> Error {
    Error::Corrupt(format!("unexpected reply of {script}: {kind:?}"))
}

/// Decodes a queue from its revision and the record of its metadata.
pub(super) fn read_queue(revision: u64, metadata: &[u8]) -> Result<Queue, Error> {
    Ok(Queue { metadata: record::metadata(metadata)?, revision: Revision(revision) })
}
