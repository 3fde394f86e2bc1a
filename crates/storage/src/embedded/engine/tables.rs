//! The tables of the file, and the version of their format.

use redb::{ReadableTable, TableDefinition};

pub(crate) type Slice = &'static [u8];

/// Version of the stored format. Other versions of Sukkal may have another one.
pub(crate) const FORMAT_VERSION: u32 = 6;
/// The version of the release before. All rows that it has stored can be read, but it cannot read
/// all that this release stores.
pub(crate) const FORMAT_BEFORE: u32 = 5;

pub(crate) const FORMAT: &[u8] = b"format";

pub(crate) const REGISTRY: TableDefinition<'static, Slice, Slice> = TableDefinition::new("registry");
pub(crate) const CONTENTS: TableDefinition<'static, Slice, Slice> = TableDefinition::new("contents");

/// The tables that are stored, in the order of a backup.
pub(crate) const TABLES: [TableDefinition<'static, Slice, Slice>; 2] = [REGISTRY, CONTENTS];

/// Exists only within a write transaction that reserves space: see `transaction/write.rs`.
pub(crate) const SPACE_RESERVATION: TableDefinition<'static, Slice, Slice> = TableDefinition::new("room");

/// A table in a read transaction or in a write transaction.
pub(crate) trait Table: ReadableTable<Slice, Slice> {}

impl<T: ReadableTable<Slice, Slice>> Table for T {}
