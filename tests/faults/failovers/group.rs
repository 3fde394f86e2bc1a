//! A master with one replica, and three Sentinels that watch them. The master can fail in each way,
//! and rejoins as the replica.

use std::net::Ipv4Addr;
use std::time::Instant;

use support::redis::{RedisServer, Reply};
use support::waiting::block_until;

const MASTER: &str = "main";
const SENTINELS: usize = 3;
/// How often Sentinels ask the servers and inform each other, in milliseconds: the default, and
/// while they find out about a new group or a new master.
const DEFAULT_MS: [&str; 2] = ["10000", "2000"];
const FAST_MS: [&str; 2] = ["200", "200"];
const CLIENT_PASSWORD: &str = "client-password";
/// The user of the Sentinels and of the replica. Clients are the default user.
const INNER_USER: &str = "inner on >inner-password allkeys allchannels +@all";

/// A way to lose the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The master is killed.
    Crash,
    /// The operator orders a failover. The old master continues to serve clients.
    Command,
    /// The master is cut off from its replica and the Sentinels, and continues to serve clients.
    Partition,
}

/// The servers and the Sentinels, which are killed on drop.
pub(super) struct SentinelGroup {
    servers: [RedisServer; 2],
    sentinels: Vec<RedisServer>,
    /// Index of the current master.
    master: usize,
}

impl Fault {
    pub(super) const ALL: [Self; 3] = [Self::Crash, Self::Command, Self::Partition];
}

impl SentinelGroup {
    /// Starts them, and waits until a failover is possible.
    pub(super) fn start() -> Self {
        let options = [
            ("requirepass", CLIENT_PASSWORD),
            ("user", INNER_USER),
            ("masteruser", "inner"),
            ("masterauth", "inner-password"),
        ];
        let servers = [(); 2].map(|()| RedisServer::start_with(&options));
        follow(&servers[1], &servers[0]);
        // A Sentinel that does not find the replica at first looks for it ten seconds later.
        wait_for_replica_of(&servers[0]);
        let of_sentinel = [
            ("sentinel", "auth-user main inner"),
            ("sentinel", "auth-pass main inner-password"),
            // Another failover can begin after twice this time.
            ("sentinel", "failover-timeout main 3000"),
        ];
        let sentinels: Vec<_> =
            (0..SENTINELS).map(|_| RedisServer::start_sentinel_with(MASTER, &servers[0], &of_sentinel)).collect();
        for sentinel in &sentinels {
            // One of them alone may be wrong about the master.
            assert_eq!(sentinel.command(&["SENTINEL", "SET", MASTER, "quorum", "2"]), ok());
        }
        let group = Self { servers, sentinels, master: 0 };
        group.wait_until_whole();
        group
    }

    pub(super) fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        format!("redis-sentinel://:{CLIENT_PASSWORD}@{}/{MASTER}?sentinel_password=", hosts.join(","))
    }

    pub(super) fn master(&self) -> &RedisServer {
        &self.servers[self.master]
    }

    /// Makes the master fail, waits until its replica is promoted, and returns when that was seen.
    pub(super) fn fail_over(&mut self, fault: Fault) -> Instant {
        match fault {
            Fault::Crash => self.master().kill(),
            Fault::Command => block_until("the Sentinel accepts the order", || {
                self.sentinels[0].command(&["SENTINEL", "FAILOVER", MASTER]) == ok()
            }),
            Fault::Partition => {
                self.master().command(&["ACL", "SETUSER", "inner", "off"]);
                self.master().command(&["CLIENT", "KILL", "USER", "inner"]);
            }
        }
        self.master = 1 - self.master;
        block_until("the replica is promoted", || {
            // Redis closes all connections when it becomes a master.
            self.master().try_command(&["INFO", "replication"]).is_ok_and(|info| info.as_text().contains("role:master"))
        });
        Instant::now()
    }

    /// The server that was the master before the last failover.
    pub(super) fn old_master(&self) -> &RedisServer {
        &self.servers[1 - self.master]
    }

    /// Makes the old master a replica of the new one as soon as all Sentinels know that one. They
    /// do that themselves after some seconds. Returns when the new master was seen to have a
    /// replica.
    pub(super) fn rejoin(&self, fault: Fault) -> Instant {
        let (old, port) = (self.old_master(), self.master().port().to_string());
        for sentinel in &self.sentinels {
            block_until("each Sentinel names the new master", || {
                let address = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]);
                address.items()[1].as_text() == port
            });
        }
        match fault {
            Fault::Crash => old.restart(),
            Fault::Command => {}
            Fault::Partition => {
                old.command(&["ACL", "SETUSER", "inner", "on"]);
            }
        }
        follow(old, self.master());
        wait_for_replica_of(self.master());
        Instant::now()
    }

    /// Sets how often the Sentinels ask the servers and inform each other, in milliseconds.
    fn set_periods(&self, [info, publish]: [&str; 2]) {
        for sentinel in &self.sentinels {
            let periods = ["SENTINEL", "DEBUG", "INFO-PERIOD", info, "PUBLISH-PERIOD", publish];
            assert_eq!(sentinel.command(&periods), ok());
        }
    }

    /// Waits until another failover is possible. Only this is faster than with other Sentinels.
    pub(super) fn wait_until_whole(&self) {
        self.set_periods(FAST_MS);
        wait_for_replica_of(self.master());
        let port = self.master().port().to_string();
        for sentinel in &self.sentinels {
            block_until("each Sentinel knows the master, its replica and the others", || {
                let info = sentinel.command(&["INFO", "sentinel"]);
                info.as_text().contains(&format!("status=ok,address=127.0.0.1:{port},slaves=1,sentinels=3"))
            });
            block_until("each Sentinel reaches the replica", || {
                let replicas = sentinel.command(&["SENTINEL", "REPLICAS", MASTER]);
                let fields = replicas.items()[0].items();
                let value = |name| fields.chunks(2).find(|field| field[0].as_text() == name).map(|field| &field[1]);
                value("flags").is_some_and(|flags| flags.as_text() == "slave")
                    && value("master-port").is_some_and(|master| master.as_text() == port)
            });
        }
        self.set_periods(DEFAULT_MS);
    }
}

fn wait_for_replica_of(master: &RedisServer) {
    block_until("the replica is in sync", || {
        // A Sentinel closes all connections to a server that it promotes.
        let info = master.try_command(&["INFO", "replication"]);
        info.is_ok_and(|info| info.as_text().contains("state=online"))
    });
}

fn follow(replica: &RedisServer, master: &RedisServer) {
    let (host, port) = (Ipv4Addr::LOCALHOST.to_string(), master.port().to_string());
    block_until("the server is a replica", || {
        // If a Sentinel was faster, the reply says more than `OK`.
        let reply = replica.try_command(&["REPLICAOF", &host, &port]);
        reply.is_ok_and(|reply| matches!(reply, Reply::Status(status) if status.starts_with("OK")))
    });
}

fn ok() -> Reply {
    Reply::Status("OK".to_owned())
}
