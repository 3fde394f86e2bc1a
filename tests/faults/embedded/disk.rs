//! A disk in memory that keeps what was written apart from what was synced, and can lose power, room and its health.

use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{DatabaseError, StorageBackend};

use crate::support::chronicle::choices::Choices;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// A disk. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<Mutex<Platters>>);

#[derive(Debug)]
struct Platters {
    durable: Vec<u8>,
    /// As it is read: with what is not synced.
    current: Vec<u8>,
    unsynced: Vec<Change>,
    /// How often the power was cut: what was connected before is not any more.
    cuts: u64,
    has_power: bool,
    room: u64,
    is_ill: bool,
    syncs: u64,
}

#[derive(Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

/// A connection to the disk, until its power is cut.
#[derive(Debug)]
struct Connection {
    disk: Disk,
    cuts: u64,
}

impl Disk {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Platters {
            durable: Vec::new(),
            current: Vec::new(),
            unsynced: Vec::new(),
            cuts: 0,
            has_power: true,
            room: u64::MAX,
            is_ill: false,
            syncs: 0,
        })))
    }

    /// Connects a store.
    pub(super) fn connect(&self) -> std::result::Result<Box<dyn StorageBackend>, DatabaseError> {
        let platters = self.platters();
        if !platters.has_power {
            return Err(Error::new(ErrorKind::NotConnected, "there is no power").into());
        }
        Ok(Box::new(Connection { disk: self.clone(), cuts: platters.cuts }))
    }

    /// Cuts the power: of what was not synced any sectors may be there, and any may not.
    pub(super) fn cut(&self, choices: &mut Choices) {
        let mut platters = self.platters();
        let luck = choices.within(0..=4);
        let unsynced = std::mem::take(&mut platters.unsynced);
        for change in unsynced {
            match change {
                Change::Length(length) if choices.within(1..=4) <= luck => resize(&mut platters.durable, length),
                Change::Length(_) => {}
                Change::Write(offset, bytes) => {
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        if choices.within(1..=4) <= luck {
                            put(&mut platters.durable, offset + (number * SECTOR) as u64, sector);
                        }
                    }
                }
            }
        }
        let Platters { current, durable, .. } = &mut *platters;
        current.clone_from(durable);
        platters.cuts += 1;
        platters.has_power = false;
    }

    pub(super) fn power_on(&self) {
        self.platters().has_power = true;
    }

    /// Lets it be so long and no longer.
    pub(super) fn limit(&self, room: u64) {
        self.platters().room = room;
    }

    pub(super) fn length(&self) -> u64 {
        self.platters().current.len() as u64
    }

    /// Lets every write fail, or no more.
    pub(super) fn set_ill(&self, is_ill: bool) {
        self.platters().is_ill = is_ill;
    }

    pub(super) fn syncs(&self) -> u64 {
        self.platters().syncs
    }

    fn platters(&self) -> MutexGuard<'_, Platters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn platters(&self) -> Result<MutexGuard<'_, Platters>> {
        let platters = self.disk.platters();
        if platters.cuts == self.cuts && platters.has_power { Ok(platters) } else { Err(failed()) }
    }

    fn healthy(&self) -> Result<MutexGuard<'_, Platters>> {
        self.platters().and_then(|platters| if platters.is_ill { Err(failed()) } else { Ok(platters) })
    }
}

impl StorageBackend for Connection {
    fn len(&self) -> Result<u64> {
        Ok(self.platters()?.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let platters = self.platters()?;
        let from = usize::try_from(offset).unwrap();
        let bytes = platters.current.get(from..from + out.len()).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut platters = self.healthy()?;
        if len > platters.room {
            return Err(ErrorKind::StorageFull.into());
        }
        resize(&mut platters.current, len);
        platters.unsynced.push(Change::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        let mut platters = self.healthy()?;
        platters.syncs += 1;
        for change in std::mem::take(&mut platters.unsynced) {
            match change {
                Change::Length(length) => resize(&mut platters.durable, length),
                Change::Write(offset, bytes) => put(&mut platters.durable, offset, &bytes),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut platters = self.healthy()?;
        put(&mut platters.current, offset, data);
        platters.unsynced.push(Change::Write(offset, data.to_vec()));
        Ok(())
    }
}

fn failed() -> Error {
    Error::other("the disk does not answer")
}

fn resize(bytes: &mut Vec<u8>, length: u64) {
    bytes.resize(usize::try_from(length).unwrap(), 0);
}

/// What is written beyond the end makes it longer, as in a file.
fn put(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let from = usize::try_from(offset).unwrap();
    if bytes.len() < from + data.len() {
        bytes.resize(from + data.len(), 0);
    }
    bytes[from..from + data.len()].copy_from_slice(data);
}
