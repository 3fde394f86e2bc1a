//! Counts the work of a Redis server: every command that `MONITOR` shows, including those inside
//! scripts.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use support::redis::RedisServer;

/// The text of the command that marks the end of the count.
const END: &str = "the-end-of-what-is-counted";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A connection that sees every command from its start on.
pub(crate) struct Monitor {
    lines: BufReader<TcpStream>,
}

/// The commands that a server executed.
pub(crate) struct Work {
    /// Commands from clients. A script has the commands that it called.
    pub(crate) commands: Vec<Command>,
}

/// A command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) words: Vec<Vec<u8>>,
    /// For a script, the commands that it called.
    pub(crate) inner: Vec<Vec<Vec<u8>>>,
}

impl Monitor {
    /// Begins to count.
    pub(crate) fn start(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("the server runs");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket has timeouts");
        stream.write_all(b"MONITOR\r\n").expect("the server listens");
        let mut lines = BufReader::new(stream);
        let mut answer = String::new();
        lines.read_line(&mut answer).expect("the server answers");
        assert_eq!(answer, "+OK\r\n");
        Self { lines }
    }

    /// Ends the count.
    pub(crate) fn stop(mut self, server: &RedisServer) -> Work {
        server.command(&["ECHO", END]);
        let mut commands: Vec<Command> = Vec::new();
        loop {
            let mut line = Vec::new();
            self.lines.read_until(b'\n', &mut line).expect("the server sends each command");
            let (origin, words) = parse(&line);
            if words.get(1).is_some_and(|word| word == END.as_bytes()) {
                return Work { commands };
            }
            match commands.last_mut() {
                Some(script) if origin.ends_with("lua]") => script.inner.push(words),
                _ => commands.push(Command { words, inner: Vec::new() }),
            }
        }
    }
}

impl Work {
    /// Returns the scripts that ran.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().filter(|command| is(&command.words, "FCALL"))
    }

    /// Returns the largest number of commands that one script called.
    pub(crate) fn calls_max(&self) -> usize {
        self.scripts().map(|script| script.inner.len()).max().unwrap_or_default()
    }

    /// Returns the largest number of words of a command that ran a script.
    pub(crate) fn words_max(&self) -> usize {
        self.scripts().map(|script| script.words.len()).max().unwrap_or_default()
    }

    /// Returns how many records of messages were read, by scripts and by the driver.
    pub(crate) fn records(&self) -> usize {
        self.commands.iter().map(Command::records).sum()
    }

    /// Returns the largest number of records that one command or script read.
    pub(crate) fn records_max(&self) -> usize {
        self.commands.iter().map(Command::records).max().unwrap_or_default()
    }

    /// Returns the largest number of members that one script removed from sorted sets.
    pub(crate) fn removed_max(&self) -> usize {
        let removed = |script: &Command| {
            script.inner.iter().filter(|words| is(words, "ZREM")).map(|words| words.len() - 2).sum::<usize>()
        };
        self.scripts().map(removed).max().unwrap_or_default()
    }

    /// Returns how many members the ranges of sorted sets contain if they are read again now, in
    /// total and for one script at most. This is what the scripts have examined, unless members
    /// were removed since.
    pub(crate) fn members(&self, server: &RedisServer) -> (usize, usize) {
        let of_each: Vec<usize> = self.commands.iter().map(|command| command.members(server)).collect();
        (of_each.iter().sum(), of_each.into_iter().max().unwrap_or_default())
    }
}

impl Command {
    fn all(&self) -> impl Iterator<Item = &Vec<Vec<u8>>> {
        self.inner.iter().chain([&self.words])
    }

    fn records(&self) -> usize {
        let of_messages = self.all().filter(|words| words.get(1).is_some_and(|key| key.ends_with(b":messages")));
        let reads = of_messages.filter(|words| is(words, "HMGET") || is(words, "HGET"));
        reads.map(|words| words.len() - 2).sum()
    }

    fn members(&self, server: &RedisServer) -> usize {
        let is_range = |words: &&Vec<Vec<u8>>| words[0].to_ascii_uppercase().starts_with(b"ZRANGE");
        let read = |words: &Vec<Vec<u8>>| {
            let texts: Vec<&str> = words.iter().map(|word| str::from_utf8(word).expect("ranges are texts")).collect();
            server.command(&texts).items().len()
        };
        self.all().filter(is_range).map(read).sum()
    }
}

fn is(words: &[Vec<u8>], name: &str) -> bool {
    words.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
}

/// Returns the origin of a command, such as `[0 lua]`, and its words. A line is `+TIME [DB ORIGIN]
/// "WORD" "WORD" …`.
fn parse(line: &[u8]) -> (String, Vec<Vec<u8>>) {
    let end = line.iter().position(|byte| *byte == b']').map_or(line.len(), |at| at + 1);
    let mut words = Vec::new();
    let mut rest = line[end..].iter().copied();
    while rest.by_ref().any(|byte| byte == b'"') {
        let mut word = Vec::new();
        while let Some(byte) = rest.next().filter(|byte| *byte != b'"') {
            word.push(if byte == b'\\' { unescaped(&mut rest) } else { byte });
        }
        words.push(word);
    }
    (String::from_utf8_lossy(&line[..end]).into_owned(), words)
}

/// Returns the byte that an escape sequence stands for.
fn unescaped(rest: &mut impl Iterator<Item = u8>) -> u8 {
    match rest.next().unwrap_or_default() {
        b'x' => {
            let digits: Vec<u8> = rest.take(2).collect();
            let digits = str::from_utf8(&digits).unwrap_or_default();
            u8::from_str_radix(digits, 16).expect("two hexadecimal digits")
        }
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_an_origin_and_words() {
        let line = b"+1700000000.1 [0 lua] \"HGET\" \"a \\\"b\\\\\" \"\\x00\\n\"\n";

        let (origin, words) = parse(line);

        assert!(origin.ends_with("[0 lua]"));
        assert_eq!(words, [b"HGET".to_vec(), b"a \"b\\".to_vec(), b"\x00\n".to_vec()]);
    }
}
