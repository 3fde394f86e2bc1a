//! Reads whole tables, or all rows of a part.

use std::ops::Bound;

use bytes::Bytes;

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::transaction::read::View;

impl<T: Table> View<T> {
    /// Returns all rows of the registry with this prefix.
    pub(crate) fn all_with(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Bytes)>, Error> {
        let to = keys::prefix_end(prefix);
        let range = self.registry.range::<&[u8]>((Bound::Included(prefix), Bound::Excluded(&*to)))?;
        let read = range.map(|entry| {
            let (key, value) = entry?;
            Ok((key.value().to_vec(), Bytes::copy_from_slice(value.value())))
        });
        read.collect()
    }

    /// Returns all rows of a part; the keys are without number and part.
    pub(crate) fn all_of(
        &self,
        number: u64,
        part: Part,
    ) -> Result<impl Iterator<Item = Result<(Vec<u8>, Bytes), Error>> + '_, Error> {
        let (from, to) = (keys::part_prefix(number, part), keys::prefix_end(&keys::part_prefix(number, part)));
        let range = self.contents.range::<&[u8]>(&*from..&*to)?;
        Ok(range.map(|entry| {
            let (key, value) = entry?;
            Ok((keys::rest(key.value()).to_vec(), Bytes::copy_from_slice(value.value())))
        }))
    }

    /// Returns all contents numbers in use.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        let mut from = vec![0];
        while let Some(entry) = self.contents.range::<&[u8]>(&*from..)?.next() {
            let entry = entry?;
            let number = entry.0.value().first_chunk().map(|number| u64::from_be_bytes(*number));
            let number = number.ok_or_else(|| damaged("a key"))?;
            numbers.push(number);
            from = (number + 1).to_be_bytes().to_vec();
        }
        Ok(numbers)
    }
}
