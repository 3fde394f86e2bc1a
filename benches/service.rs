//! The process of a service that is measured, and its store.

use std::fs;
use std::process::Child;

use tempfile::TempDir;

use crate::{processes, zaqar};
use support::cluster::RedisCluster;
use support::redis::RedisServer;
use support::sukkal::Sukkal;

/// The process of a service.
pub(crate) enum Process {
    Sukkal(Sukkal),
    Zaqar(Child),
}

/// A store of its own for each service.
pub(crate) enum Store {
    Redis(RedisServer),
    Cluster(RedisCluster),
    Folder(TempDir),
}

impl Process {
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Sukkal(sukkal) => sukkal.id(),
            Self::Zaqar(process) => process.id(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        match self {
            Self::Sukkal(_) => {}
            Self::Zaqar(process) => zaqar::stop(process),
        }
    }
}

impl Store {
    pub(crate) fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    pub(crate) fn cluster() -> Self {
        Self::Cluster(RedisCluster::start())
    }

    /// The folder of an embedded store.
    pub(crate) fn embedded() -> Self {
        // Not below /tmp, which may be in memory.
        Self::Folder(TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    /// The name in tables.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Redis(_) => "Redis",
            Self::Cluster(_) => "Redis Cluster",
            Self::Folder(_) => "embedded",
        }
    }

    /// The URI of the store for Sukkal.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Folder(folder) => format!("embedded:{}", folder.path().display()),
        }
    }

    pub(crate) fn servers(&self) -> &[RedisServer] {
        match self {
            Self::Redis(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => cluster.nodes(),
            Self::Folder(_) => &[],
        }
    }

    /// Returns a figure of `INFO`, summed over all Redis servers.
    pub(crate) fn info(&self, section: &str, name: &str) -> f64 {
        let of = |server: &RedisServer| info(server, section, name).parse::<f64>().unwrap();
        self.servers().iter().map(of).sum()
    }

    /// The ids of the processes of the Redis servers.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.servers().iter().map(process_id).collect()
    }

    /// Processor time of the Redis servers, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        processes::cpu_s(&self.processes())
    }

    /// Size of the files of an embedded store, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        let Self::Folder(folder) = self else {
            return 0;
        };
        fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
    }

    /// Empties the Redis servers.
    pub(crate) fn flush(&self) {
        for server in self.servers() {
            server.command(&["FLUSHALL", "SYNC"]);
        }
    }
}

/// Returns one field of `INFO` of a server.
pub(crate) fn info(server: &RedisServer, section: &str, name: &str) -> String {
    let reply = server.command(&["INFO", section]);
    let of = |line: &str| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
    reply.as_text().lines().find_map(|line| of(line.trim())).unwrap_or_else(|| panic!("INFO has no {name}"))
}

/// Returns the id of the process of a server.
pub(crate) fn process_id(server: &RedisServer) -> u32 {
    info(server, "server", "process_id").parse().unwrap()
}
