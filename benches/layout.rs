//! Compares layouts of the records of a queue in Redis: memory and processor time for each message,
//! and the cost of deleting a message and a large queue.
//!
//! It starts a private redis-server and prints Markdown tables. `layouts()` assembles the layouts
//! from the scripts in `benches/layout/`.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: usize = 5;
const SIZES: [usize; 2] = [100, 1024];
const DENSE: usize = 200_000;
const SPARSE: usize = 100_000;
/// Number of messages posted in each measurement of processor time.
const TIMED: usize = 60_000;
const DELETED: usize = 50_000;
const LARGE: usize = 1_000_000;
const TTL: u32 = 3600;
const PIPELINE: usize = 32;
const KEYS: [&str; 6] = ["{q}", "{q}:r", "{q}:c", "{q}:a", "{q}:m:", "{q}:e:"];

struct Layout {
    name: &'static str,
    post: String,
    delete: Option<String>,
    /// The setting `hash-max-listpack-value` of Redis for this layout; 64 is the default.
    listpack: usize,
}

fn layouts(redis: &mut Connection) -> Outcome<Vec<Layout>> {
    const HASH_EACH: &str = include_str!("layout/hash_each.lua");
    const ONE_HASH: &str = include_str!("layout/one_hash.lua");
    const SMALL: &str = include_str!("layout/small_hashes.lua");
    const EACH: &str = include_str!("layout/expiry_each.lua");
    const CHUNKS: &str = include_str!("layout/expiry_chunks.lua");
    const OPEN: &str = include_str!("layout/expiry_open.lua");
    const STRINGS: &str = include_str!("layout/expiry_strings.lua");
    const RUNS: &str = include_str!("layout/expiry_runs.lua");
    const DELETE: Option<&str> = Some(include_str!("layout/delete.lua"));
    const DELETE_ENTRY: Option<&str> = Some(include_str!("layout/delete_entry.lua"));

    let mut load = |name, chunk, parts: [&str; 3], delete: Option<&str>| -> Outcome<Layout> {
        let common = include_str!("layout/common.lua");
        let [records, expiry, runs] = parts;
        let post = format!("local CHUNK = {chunk}\n{common}\n{records}\n{expiry}\n{runs}\nreturn first");
        Ok(Layout {
            name,
            post: redis.load(&post)?,
            delete: delete.map(|script| redis.load(script)).transpose()?,
            listpack: 64,
        })
    };
    Ok(vec![
        load("A hash each", 0, [HASH_EACH, "", ""], None)?,
        load("B entry each", 0, [ONE_HASH, EACH, ""], DELETE_ENTRY)?,
        load("C chunks 16", 16, [ONE_HASH, CHUNKS, RUNS], None)?,
        load("C chunks 32", 32, [ONE_HASH, CHUNKS, RUNS], DELETE)?,
        load("C chunks 64", 64, [ONE_HASH, CHUNKS, RUNS], None)?,
        load("D strings", 0, [ONE_HASH, STRINGS, RUNS], None)?,
        load("E hashes of 64", 32, [SMALL, CHUNKS, RUNS], None)?,
        Layout {
            // A record of 100 bytes exceeds the default of 64, so Redis would use no listpack.
            listpack: 2048,
            ..load("E as listpacks", 32, [SMALL, CHUNKS, RUNS], None)?
        },
        load("F open chunk 32", 32, [ONE_HASH, OPEN, RUNS], DELETE)?,
    ])
}

/// A private redis-server. Dropping it stops the server and removes its directory.
struct Server {
    child: Child,
    directory: PathBuf,
    port: u16,
}

impl Server {
    fn start() -> Outcome<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let directory = env::temp_dir().join(format!("layout-bench-{}", process::id()));
        fs::create_dir_all(&directory)?;
        let program = std::env::var_os("SUKKAL_REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        let child = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .current_dir(&directory)
            .stdout(Stdio::null())
            .spawn()?;
        let server = Self { child, directory, port };
        for _ in 0..100 {
            if server.connect().is_ok() {
                return Ok(server);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err("redis-server did not start".into())
    }

    fn connect(&self) -> Outcome<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream), out: Vec::new() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failure to clean up is ignored, because nothing can be done about it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

enum Reply {
    Nil,
    Integer(i64),
    Bytes(Vec<u8>),
    List(Vec<Reply>),
}

struct Connection {
    stream: BufReader<TcpStream>,
    out: Vec<u8>,
}

impl Connection {
    fn push(&mut self, arguments: &[&[u8]]) {
        self.out.extend(format!("*{}\r\n", arguments.len()).bytes());
        for argument in arguments {
            self.out.extend(format!("${}\r\n", argument.len()).bytes());
            self.out.extend_from_slice(argument);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    fn send(&mut self) -> Outcome<()> {
        self.stream.get_mut().write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn read(&mut self) -> Outcome<Reply> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).ok_or("the server closed the connection")?;
        Ok(match kind {
            "+" => Reply::Bytes(rest.as_bytes().to_vec()),
            ":" => Reply::Integer(rest.parse()?),
            "$" | "*" if rest == "-1" => Reply::Nil,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>()? + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(bytes)
            }
            "*" => Reply::List((0..rest.parse::<usize>()?).map(|_| self.read()).collect::<Outcome<_>>()?),
            _ => return Err(line.into()),
        })
    }

    fn call(&mut self, arguments: &[&[u8]]) -> Outcome<Reply> {
        self.push(arguments);
        self.send()?;
        self.read()
    }

    /// Runs a command, given as words.
    fn run(&mut self, command: &str) -> Outcome<Reply> {
        self.call(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    fn load(&mut self, script: &str) -> Outcome<String> {
        match self.call(&[b"SCRIPT", b"LOAD", script.as_bytes()])? {
            Reply::Bytes(sha) => Ok(String::from_utf8(sha)?),
            _ => Err("no digest".into()),
        }
    }

    /// Returns the figure `name` of an INFO section, up to the first comma.
    fn info(&mut self, section: &str, name: &str) -> Outcome<f64> {
        let Reply::Bytes(text) = self.run(&format!("INFO {section}"))? else {
            return Err("no INFO".into());
        };
        let text = String::from_utf8(text)?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let figure = line.ok_or_else(|| format!("no {name}"))?.trim_start_matches(':');
        Ok(figure.split(',').next().unwrap_or_default().parse()?)
    }

    fn cpu_us(&mut self) -> Outcome<f64> {
        let user = self.info("cpu", "used_cpu_user:")?;
        Ok((user + self.info("cpu", "used_cpu_sys:")?) * 1e6)
    }

    fn memory(&mut self) -> Outcome<f64> {
        self.info("memory", "used_memory:")
    }

    /// Empties the server and configures it for a layout.
    fn reset(&mut self, layout: &Layout) -> Outcome<()> {
        self.run("FLUSHALL SYNC")?;
        self.run(&format!("CONFIG SET hash-max-listpack-value {}", layout.listpack))?;
        self.run(&format!("HSET {} v 1", KEYS[0]))?;
        Ok(())
    }
}

/// How a client posts messages.
#[derive(Clone, Copy)]
struct Posting {
    size: usize,
    messages: usize,
    /// Number of messages in each script call.
    group: usize,
    /// Number of calls that are sent before their replies are read.
    pipeline: usize,
    /// Difference between the TTLs of consecutive messages.
    ttl_step: u32,
    /// Makes the retry tokens of this client unique. If `None`, all posts use one token, so that
    /// tokens do not count in memory figures.
    client: Option<usize>,
}

impl Posting {
    /// Posts messages fast, for measurements of the stored result.
    fn fill(size: usize, messages: usize) -> Self {
        Self { size, messages, group: 500, pipeline: 4, ttl_step: 0, client: None }
    }

    fn tail(&self, ttl: u32) -> Vec<u8> {
        let mut tail = vec![0xce];
        tail.extend(ttl.to_be_bytes());
        tail.extend(b"\xc4\x10a client's uuid.");
        match (u8::try_from(self.size), u16::try_from(self.size)) {
            (Ok(length), _) => tail.extend([0xd9, length]),
            (_, Ok(length)) => {
                tail.push(0xda);
                tail.extend(length.to_be_bytes());
            }
            _ => {}
        }
        tail.resize(tail.len() + self.size, b'x');
        tail
    }

    fn post(&self, server: &Server, layout: &Layout) -> Outcome<()> {
        let mut redis = server.connect()?;
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (self.client.unwrap_or_default() as u64 + 1));
        let mut ttl = TTL;
        let (mut posted, mut unread) = (0, 0);
        while posted < self.messages {
            let count = self.group.min(self.messages - posted);
            let token = self.client.map_or_else(|| KEYS[3].to_owned(), |c| format!("{}:{c}:{posted}", KEYS[3]));
            let mut arguments = vec![b"EVALSHA".to_vec(), layout.post.clone().into_bytes(), b"6".to_vec()];
            arguments.extend(KEYS.map(|key| key.as_bytes().to_vec()));
            arguments[6] = token.into_bytes();
            arguments.push(b"1".to_vec());
            for _ in 0..count {
                arguments.push(random.next().to_be_bytes()[..5].to_vec());
                arguments.push(self.tail(ttl));
                ttl += self.ttl_step;
            }
            redis.push(&arguments.iter().map(Vec::as_slice).collect::<Vec<_>>());
            posted += count;
            unread += 1;
            if unread == self.pipeline || posted == self.messages {
                redis.send()?;
                for _ in 0..std::mem::take(&mut unread) {
                    redis.read()?;
                }
            }
        }
        Ok(())
    }
}

/// A xorshift64 generator. It is sufficient, because nonces only have to differ.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn bytes_each(server: &Server, redis: &mut Connection, layout: &Layout, posting: Posting) -> Outcome<f64> {
    redis.reset(layout)?;
    thread::sleep(Duration::from_millis(100));
    let before = redis.memory()?;
    posting.post(server, layout)?;
    // Wait until Redis has freed the buffers of the connection that posted.
    thread::sleep(Duration::from_millis(300));
    Ok((redis.memory()? - before) / real(posting.messages))
}

/// Processor time of Redis for each message, in microseconds, with two clients.
fn cpu_each(server: &Server, redis: &mut Connection, layout: &Layout, size: usize, group: usize) -> Outcome<f64> {
    redis.reset(layout)?;
    // The pipeline is shorter for groups, so that the number of messages in flight is about the
    // same.
    let pipeline = (PIPELINE / group).max(2);
    let posting = Posting { size, messages: TIMED / 2, group, pipeline, ttl_step: 0, client: None };
    let before = redis.cpu_us()?;
    thread::scope(|scope| {
        let clients = [0, 1].map(|client| {
            let posting = Posting { client: Some(client), ..posting };
            scope.spawn(move || posting.post(server, layout))
        });
        clients.into_iter().try_for_each(|client| client.join().map_err(|_| "a client panicked")?)
    })?;
    Ok((redis.cpu_us()? - before) / real(TIMED))
}

/// Processor time of Redis for each deletion by key, in microseconds. Deletes a quarter of a queue
/// in random order.
fn delete_each(server: &Server, redis: &mut Connection, layout: &Layout, delete: &str) -> Outcome<f64> {
    redis.reset(layout)?;
    Posting::fill(SIZES[0], DENSE).post(server, layout)?;
    let Reply::List(mut members) = redis.run(&format!("ZRANGE {} 0 -1", KEYS[1]))? else {
        return Err("no members".into());
    };
    let mut random = Random(1);
    members.sort_by_cached_key(|_| random.next());
    let before = redis.cpu_us()?;
    for batch in members[..DELETED].chunks(PIPELINE) {
        for member in batch {
            let Reply::Bytes(member) = member else {
                return Err("no member".into());
            };
            let mut arguments: Vec<&[u8]> = vec![b"EVALSHA", delete.as_bytes(), b"6"];
            arguments.extend(KEYS.map(str::as_bytes));
            arguments.push(member);
            redis.push(&arguments);
        }
        redis.send()?;
        for _ in batch {
            if !matches!(redis.read()?, Reply::Integer(1)) {
                return Err("a message to delete does not exist".into());
            }
        }
    }
    Ok((redis.cpu_us()? - before) / real(DELETED))
}

/// Returns how long UNLINK of a large queue blocks the server, in microseconds, and the time until
/// its memory is free, in milliseconds.
fn unlink(server: &Server, redis: &mut Connection, layout: &Layout) -> Outcome<(f64, f64)> {
    redis.reset(layout)?;
    thread::sleep(Duration::from_millis(100));
    let before = redis.memory()?;
    Posting::fill(SIZES[0], LARGE).post(server, layout)?;
    thread::sleep(Duration::from_millis(300));
    redis.run("CONFIG RESETSTAT")?;
    let start = Instant::now();
    redis.run(&format!("UNLINK {}", KEYS.join(" ")))?;
    while redis.memory()? > before + 1e6 {
        thread::sleep(Duration::from_millis(2));
    }
    let back = start.elapsed().as_secs_f64() * 1e3;
    let held = redis.info("commandstats", "cmdstat_unlink:calls=1,usec=")?;
    Ok((held, back))
}

/// Converts a count to a float. Counts are far below 2^32, so the conversion is exact.
fn real(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// Formats the median and the range of the rounds.
fn summary(figures: &mut [f64], digits: usize) -> String {
    figures.sort_by(f64::total_cmp);
    let (low, high) = (figures[0], figures[figures.len() - 1]);
    format!("{:.digits$} ({low:.digits$}–{high:.digits$})", figures[figures.len() / 2])
}

fn main() -> Outcome<()> {
    let server = Server::start()?;
    let mut redis = server.connect()?;
    let mut layouts = layouts(&mut redis)?;
    // Arguments select layouts by the beginning of their names. Cargo adds flags of its own.
    let wanted: Vec<_> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    layouts.retain(|layout| wanted.is_empty() || wanted.iter().any(|name| layout.name.starts_with(name)));

    println!("## Bytes for each message\n");
    println!("| layout | 100 B dense | 100 B sparse | 1 KB dense | 1 KB sparse |\n|---|--:|--:|--:|--:|");
    for layout in &layouts {
        let mut row = format!("| {} |", layout.name);
        for size in SIZES {
            let dense = bytes_each(&server, &mut redis, layout, Posting::fill(size, DENSE))?;
            let sparse = Posting { ttl_step: 1, ..Posting::fill(size, SPARSE) };
            let sparse = bytes_each(&server, &mut redis, layout, sparse)?;
            write!(row, " {dense:.1} | {sparse:.1} |")?;
        }
        println!("{row}");
    }

    println!("\n## Redis CPU for each message, µs: median of {ROUNDS} (range)\n");
    println!("| layout | 100 B single | 100 B by 32 | 1 KB single | 1 KB by 32 |\n|---|--:|--:|--:|--:|");
    let mut figures = vec![vec![Vec::new(); 4]; layouts.len()];
    for _ in 0..ROUNDS {
        // Layouts are measured in turn, so that other load on the machine affects all of them.
        for (column, (size, group)) in SIZES.into_iter().flat_map(|size| [(size, 1), (size, 32)]).enumerate() {
            for (layout, row) in layouts.iter().zip(&mut figures) {
                row[column].push(cpu_each(&server, &mut redis, layout, size, group)?);
            }
        }
    }
    for (layout, row) in layouts.iter().zip(&mut figures) {
        let cells: Vec<_> = row.iter_mut().map(|cell| summary(cell, 2)).collect();
        println!("| {} | {} |", layout.name, cells.join(" | "));
    }

    println!("\n## Deletes of 100 B messages: median of {ROUNDS} (range)\n");
    println!("| layout | one by key, µs | UNLINK of {LARGE}, µs | memory back, ms |\n|---|--:|--:|--:|");
    let deleting: Vec<_> = layouts.iter().filter_map(|l| Some((l, l.delete.as_ref()?))).collect();
    let mut figures = vec![vec![Vec::new(); 3]; deleting.len()];
    for _ in 0..ROUNDS {
        for ((layout, delete), row) in deleting.iter().zip(&mut figures) {
            row[0].push(delete_each(&server, &mut redis, layout, delete)?);
            let (held, back) = unlink(&server, &mut redis, layout)?;
            row[1].push(held);
            row[2].push(back);
        }
    }
    for ((layout, _), row) in deleting.iter().zip(&mut figures) {
        let [one, held, back] = [(0, 2), (1, 0), (2, 0)].map(|(i, digits)| summary(&mut row[i], digits));
        println!("| {} | {one} | {held} | {back} |", layout.name);
    }
    Ok(())
}
