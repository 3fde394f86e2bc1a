//! Tests that record a history and check it afterwards: their actors, their times, and the file
//! with the history. Times are microseconds of the test's own clock, taken before a request is sent
//! and after its response is read.

pub mod clock;
pub mod failures;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::task::JoinSet;

use super::test_bed::Server;

/// A request that set the store's clock ahead of its own time by this offset.
#[derive(Clone, Copy, Debug)]
pub struct ClockMove {
    pub invoked: u64,
    pub answered: u64,
    pub offset_us: i64,
}

impl fmt::Display for ClockMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invoked, answered, offset_us } = *self;
        write!(f, "[{} - {}] clock set {offset_us} µs ahead", Moment(invoked), Moment(answered))
    }
}

/// A time in microseconds, which is displayed as seconds with six decimal places.
pub struct Moment(pub u64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Starts this number of actors, each in a task of its own.
pub fn start_actors<T, F>(count: usize, actor: impl Fn(usize) -> F) -> JoinSet<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    (0..count).map(actor).collect()
}

/// What happens to the servers while actors use them. It returns the remaining servers, which stop
/// when they are dropped.
pub type Disturbances = Shared<BoxFuture<'static, Arc<Vec<Server>>>>;

/// Starts disturbances, for which several histories can wait.
pub fn disturbances(future: impl Future<Output = Vec<Server>> + Send + 'static) -> Disturbances {
    let task = tokio::spawn(future);
    task.map(|servers| Arc::new(servers.expect("the servers were disturbed"))).boxed().shared()
}

/// Creates a file in the directory, and has `write` write the history to it. Returns its path.
pub fn save_history(
    directory: &Path,
    file: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> PathBuf {
    fs::create_dir_all(directory).expect("the directory can be made");
    let path = directory.join(file);
    let mut file = BufWriter::new(File::create(&path).expect("the directory can be written to"));
    write(&mut file).and_then(|()| file.flush()).expect("the history can be written");
    path
}
