//! A network path to Redis that understands commands. It can stop before the n-th command of a
//! project, or before the reply to it. It can lose only that reply, or silence existing connections
//! while new ones work.
//!
//! Its threads end when it is dropped.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::time::sleep;

use support::ports;

/// More commands than any attempt has whose replies are lost.
pub(crate) const COMMANDS_MAX: usize = 20;
const CHUNK_BYTES: usize = 16 * 1024;

/// What happens to the commands of the project.
#[derive(Clone, Copy, PartialEq)]
enum Plan {
    Forward,
    /// Nothing is forwarded after this number of commands.
    HoldAfter(usize),
    /// The command with this number is executed, but its reply and all later commands are not
    /// forwarded.
    HoldReplyOf(usize),
    /// The command with this number is executed, but its connection closes before the reply.
    LoseReplyOf(usize),
}

/// When a process is killed that uses the path; the commands of the project are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillPoint {
    /// Before it makes the call with this number.
    BeforeCall(usize),
    /// After the call with this number was executed, before its reply.
    BeforeReply(usize),
    /// After the response to the request.
    AfterResponse,
}

/// A path from a free port of 127.0.0.1.
pub(crate) struct Gate {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    target: SocketAddr,
    /// Text that commands of the project contain.
    mark: Vec<u8>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    plan: Plan,
    /// Number of plans until now. Data is held back until there is another plan.
    plans: u64,
    seen: usize,
    happened: bool,
    closed: bool,
    sockets: Vec<TcpStream>,
    silent: Arc<AtomicBool>,
}

impl Gate {
    /// Starts a path to the Redis on that port of 127.0.0.1.
    pub(crate) fn start(port: u16, project: &str) -> Self {
        let listener = ports::listen();
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = State {
            plan: Plan::Forward,
            plans: 0,
            seen: 0,
            happened: false,
            closed: false,
            sockets: Vec::new(),
            silent: Arc::default(),
        };
        let shared = Arc::new(Shared {
            target: (Ipv4Addr::LOCALHOST, port).into(),
            mark: project.into(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let acceptor = shared.clone();
        thread::spawn(move || acceptor.accept(&listener));
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Holds back what the process must not get any more when it is to be killed there.
    pub(crate) fn hold_at(&self, kill_point: KillPoint) {
        match kill_point {
            KillPoint::BeforeCall(call) => self.hold_after(call),
            KillPoint::BeforeReply(call) => self.hold_reply_of(call),
            KillPoint::AfterResponse => self.release(),
        }
    }

    /// Returns when the planned event has happened.
    pub(crate) async fn happens(&self) {
        while !self.has_happened() {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Makes an attempt repeatedly, and loses the reply to another of its commands each time.
    /// Returns the number of commands.
    pub(crate) async fn lose_each_reply(&self, attempt: impl AsyncFn(usize)) -> usize {
        for number in 0..COMMANDS_MAX {
            self.lose_reply_of(number);
            attempt(number).await;
            if !self.has_happened() {
                return number;
            }
        }
        panic!("it has more commands than that");
    }

    /// Forwards what is held back and `count` more commands of the project, and then holds back the
    /// next one and everything after it.
    pub(crate) fn hold_after(&self, count: usize) {
        self.arm(Plan::HoldAfter(count));
    }

    /// Forwards the `number`-th command of the project from now, the next being 0, but holds back
    /// its reply and all later commands.
    pub(crate) fn hold_reply_of(&self, number: usize) {
        self.arm(Plan::HoldReplyOf(number));
    }

    /// Ends `hold_after` and `hold_reply_of`, and forwards the data that was held back.
    pub(crate) fn release(&self) {
        self.arm(Plan::Forward);
    }

    /// Loses the reply to the `number`-th command of the project from now, the next being 0.
    pub(crate) fn lose_reply_of(&self, number: usize) {
        self.arm(Plan::LoseReplyOf(number));
    }

    /// Returns whether the planned event has happened.
    pub(crate) fn has_happened(&self) -> bool {
        self.shared.state().happened
    }

    /// Returns the number of commands of the project that were forwarded since what happens to them
    /// was last changed.
    pub(crate) fn forwarded(&self) -> usize {
        self.shared.state().seen
    }

    /// From now on existing connections neither forward nor close; new ones work.
    pub(crate) fn silence_connections(&self) {
        let silent = std::mem::take(&mut self.shared.state().silent);
        silent.store(true, Ordering::SeqCst);
    }

    fn arm(&self, plan: Plan) {
        let mut state = self.shared.state();
        state.plan = plan;
        state.plans += 1;
        state.seen = 0;
        state.happened = false;
        self.shared.changed.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closed = true;
        for socket in state.sockets.drain(..) {
            let _gone_already = socket.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the accepting thread, which then sees that the gate has ended.
        let _refused = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.state().closed {
                return;
            }
            // A target that is not there closes the connection.
            let _gone = client.and_then(|client| self.clone().relay(client));
        }
    }

    fn relay(self: Arc<Self>, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect(self.target)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let silent = {
            let mut state = self.state();
            state.sockets.extend([client.try_clone()?, server.try_clone()?]);
            state.silent.clone()
        };
        let loses = Arc::new(AtomicBool::new(false));
        let up = Pipe { from: client.try_clone()?, to: server.try_clone()?, silent: silent.clone(), loses };
        let down = Pipe { from: server, to: client, silent, loses: up.loses.clone() };
        let this = self.clone();
        thread::spawn(move || {
            let _ended = this.carry_commands(&up);
            up.close();
        });
        thread::spawn(move || {
            let _ended = self.carry_replies(&down);
            down.close();
        });
        Ok(())
    }

    fn carry_commands(&self, pipe: &Pipe) -> io::Result<()> {
        let mut waiting = Vec::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let length = (&pipe.from).read(&mut chunk)?;
            self.wait_while_silent(pipe);
            if length == 0 {
                return Ok(());
            }
            waiting.extend_from_slice(&chunk[..length]);
            while let Some(length) = command_length(&waiting) {
                let command: Vec<u8> = waiting.drain(..length).collect();
                self.hold_if_planned(&command, pipe);
                (&pipe.to).write_all(&command)?;
            }
        }
    }

    fn carry_replies(&self, pipe: &Pipe) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let length = (&pipe.from).read(&mut chunk)?;
            self.wait_while_silent(pipe);
            if length == 0 {
                return Ok(());
            }
            if pipe.loses.load(Ordering::SeqCst) {
                let mut state = self.state();
                state.happened = true;
                if !matches!(state.plan, Plan::HoldReplyOf(_)) {
                    return Ok(());
                }
                self.wait_while_held(state);
                pipe.loses.store(false, Ordering::SeqCst);
            }
            (&pipe.to).write_all(&chunk[..length])?;
        }
    }

    /// Returns when the command may be forwarded.
    fn hold_if_planned(&self, command: &[u8], pipe: &Pipe) {
        let mut state = self.state();
        if !command.windows(self.mark.len()).any(|part| part == self.mark) {
            return;
        }
        match state.plan {
            Plan::HoldAfter(count) if state.seen >= count => {
                state.happened = true;
                self.wait_while_held(state);
                return;
            }
            Plan::HoldReplyOf(number) if state.seen > number => {
                self.wait_while_held(state);
                return;
            }
            Plan::HoldReplyOf(number) | Plan::LoseReplyOf(number) if state.seen == number => {
                pipe.loses.store(true, Ordering::SeqCst);
            }
            _ => {}
        }
        state.seen += 1;
    }

    fn wait_while_held(&self, state: MutexGuard<'_, State>) {
        let plans = state.plans;
        let held = |state: &mut State| state.plans == plans && !state.closed;
        drop(self.changed.wait_while(state, held).unwrap_or_else(PoisonError::into_inner));
    }

    fn wait_while_silent(&self, pipe: &Pipe) {
        let silent = || pipe.silent.load(Ordering::SeqCst);
        let until_closed = self.changed.wait_while(self.state(), |state| silent() && !state.closed);
        drop(until_closed.unwrap_or_else(PoisonError::into_inner));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One direction of a connection.
struct Pipe {
    from: TcpStream,
    to: TcpStream,
    silent: Arc<AtomicBool>,
    /// Whether the next reply is lost, together with the connection.
    loses: Arc<AtomicBool>,
}

impl Pipe {
    fn close(&self) {
        for socket in [&self.from, &self.to] {
            let _gone_already = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Returns the length of the first command, or `None` while it is incomplete.
fn command_length(bytes: &[u8]) -> Option<usize> {
    // A connection that receives notifications begins with an inline command.
    if bytes.first().is_some_and(|kind| *kind != b'*') {
        return bytes.windows(2).position(|end| end == b"\r\n").map(|at| at + 2);
    }
    let (words, mut at) = number(bytes, 0, b'*')?;
    for _ in 0..words {
        let (length, start) = number(bytes, at, b'$')?;
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some(at)
}

/// Returns the number in the line at `at`, and the start of the next line.
fn number(bytes: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let line = bytes.get(at..)?;
    let length = line.windows(2).position(|end| end == b"\r\n")?;
    assert_eq!(line[0], kind, "commands are arrays of bulk strings");
    let number = str::from_utf8(&line[1..length]).expect("digits").parse().expect("a number");
    Some((number, at + length + 2))
}
