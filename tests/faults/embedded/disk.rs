//! A disk in memory that keeps written data apart from synced data. It can lose power, run out of
//! space, or fail.

use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{DatabaseError, StorageBackend};
use sukkal_storage::embedded::{EmbeddedStore, Fsync};

use support::random::Random;

/// Number of bytes that a disk writes completely or not at all.
const SECTOR: usize = 512;

/// A disk. Clones share the same disk.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<Mutex<DiskState>>);

#[derive(Debug)]
struct DiskState {
    durable: Vec<u8>,
    /// The data as it is read, including data that is not synced.
    current: Vec<u8>,
    unsynced: Vec<Change>,
    /// Number of power cuts; connections from before a cut no longer work.
    cuts: u64,
    has_power: bool,
    room: u64,
    is_failing: bool,
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
        Self(Arc::new(Mutex::new(DiskState {
            durable: Vec::new(),
            current: Vec::new(),
            unsynced: Vec::new(),
            cuts: 0,
            has_power: true,
            room: u64::MAX,
            is_failing: false,
            syncs: 0,
        })))
    }

    /// Opens the store on this disk.
    pub(super) fn open(&self, fsync: Fsync) -> EmbeddedStore {
        let disk = self.clone();
        EmbeddedStore::on_disk(move || disk.connect(), fsync).unwrap()
    }

    fn connect(&self) -> std::result::Result<Box<dyn StorageBackend>, DatabaseError> {
        let state = self.state();
        if !state.has_power {
            return Err(Error::new(ErrorKind::NotConnected, "there is no power").into());
        }
        Ok(Box::new(Connection { disk: self.clone(), cuts: state.cuts }))
    }

    /// Cuts the power: any of the sectors that were not synced may be lost.
    pub(super) fn cut(&self, random: &mut Random) {
        let mut state = self.state();
        let luck = random.within(0..=4);
        let unsynced = std::mem::take(&mut state.unsynced);
        for change in unsynced {
            match change {
                Change::Length(length) if random.within(1..=4) <= luck => resize(&mut state.durable, length),
                Change::Length(_) => {}
                Change::Write(offset, bytes) => {
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        if random.within(1..=4) <= luck {
                            put(&mut state.durable, offset + (number * SECTOR) as u64, sector);
                        }
                    }
                }
            }
        }
        let DiskState { current, durable, .. } = &mut *state;
        current.clone_from(durable);
        state.cuts += 1;
        state.has_power = false;
    }

    pub(super) fn power_on(&self) {
        self.state().has_power = true;
    }

    /// Limits the length of the disk's data.
    pub(super) fn limit(&self, room: u64) {
        self.state().room = room;
    }

    pub(super) fn length(&self) -> u64 {
        self.state().current.len() as u64
    }

    /// Makes every write fail, or succeed again.
    pub(super) fn set_failing(&self, is_failing: bool) {
        self.state().is_failing = is_failing;
    }

    pub(super) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn state(&self) -> Result<MutexGuard<'_, DiskState>> {
        let state = self.disk.state();
        if state.cuts == self.cuts && state.has_power { Ok(state) } else { Err(failed()) }
    }

    fn healthy(&self) -> Result<MutexGuard<'_, DiskState>> {
        self.state().and_then(|state| if state.is_failing { Err(failed()) } else { Ok(state) })
    }
}

impl StorageBackend for Connection {
    fn len(&self) -> Result<u64> {
        Ok(self.state()?.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let state = self.state()?;
        let from = usize::try_from(offset).unwrap();
        let bytes = state.current.get(from..from + out.len()).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.healthy()?;
        if len > state.room {
            return Err(ErrorKind::StorageFull.into());
        }
        resize(&mut state.current, len);
        state.unsynced.push(Change::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.healthy()?;
        state.syncs += 1;
        for change in std::mem::take(&mut state.unsynced) {
            match change {
                Change::Length(length) => resize(&mut state.durable, length),
                Change::Write(offset, bytes) => put(&mut state.durable, offset, &bytes),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.healthy()?;
        put(&mut state.current, offset, data);
        state.unsynced.push(Change::Write(offset, data.to_vec()));
        Ok(())
    }
}

fn failed() -> Error {
    Error::other("the disk does not answer")
}

fn resize(bytes: &mut Vec<u8>, length: u64) {
    bytes.resize(usize::try_from(length).unwrap(), 0);
}

/// A write beyond the end extends the data, as in a file.
fn put(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let from = usize::try_from(offset).unwrap();
    if bytes.len() < from + data.len() {
        bytes.resize(from + data.len(), 0);
    }
    bytes[from..from + data.len()].copy_from_slice(data);
}
