//! The messages that `sukkal message post` reads: arguments, or the lines of stdin.

use std::io::{BufRead, BufReader, Read, Stdin};
use std::vec;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::error::Error;
use sukkal_base::text::{is_utf_16, without_mark};

/// Maximum number of messages in a batch. The service allows more, but processes each batch in one
/// step, for which other requests wait.
const BATCH_MESSAGES_MAX: usize = 100;
/// Maximum size of the bodies in a batch in bytes, below the size of a post that services allow by
/// default.
const BATCH_BYTES_MAX: usize = 250_000;
/// Maximum length of a line in bytes. No service can be configured to accept longer messages.
const LINE_BYTES_MAX: usize = 4 << 20;

/// A message to post.
pub(super) struct Draft {
    /// The number of the line or argument, from 1.
    pub(super) number: u64,
    /// The body as JSON.
    pub(super) body: String,
}

/// The messages in the order of their input.
pub(super) struct Input {
    from: From,
    /// Number of lines or arguments read.
    read: u64,
    is_json: bool,
    /// The next message, which was too large for the previous batch.
    next: Option<Draft>,
    /// The error of a line that follows a batch.
    error: Option<Error>,
}

enum From {
    Arguments(vec::IntoIter<String>),
    Stdin(BufReader<Stdin>),
}

impl Input {
    /// Reads the arguments, or stdin if there are none.
    pub(super) fn new(arguments: Vec<String>, is_json: bool) -> Self {
        let from = if arguments.is_empty() {
            From::Stdin(BufReader::with_capacity(BATCH_BYTES_MAX, std::io::stdin()))
        } else {
            From::Arguments(arguments.into_iter())
        };
        Self { from, read: 0, is_json, next: None, error: None }
    }

    /// The name of an item of the input.
    pub(super) fn item(&self) -> &'static str {
        match self.from {
            From::Arguments(_) => "message",
            From::Stdin(_) => "line",
        }
    }

    /// Reads the next batch, which is empty at the end of the input. Waits for a message, but not
    /// for a full batch.
    pub(super) fn next_batch(&mut self) -> Result<Vec<Draft>, Error> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_MESSAGES_MAX {
            let next = match (self.next.take(), self.error.take()) {
                (Some(draft), _) => Ok(Some(draft)),
                (None, Some(error)) => Err(error),
                (None, None) => self.read(),
            };
            match next {
                Ok(None) => break,
                Ok(Some(draft)) if !batch.is_empty() && bytes + draft.body.len() > BATCH_BYTES_MAX => {
                    self.next = Some(draft);
                    break;
                }
                Ok(Some(draft)) => {
                    bytes += draft.body.len();
                    batch.push(draft);
                }
                // The messages before the error are posted first.
                Err(error) if !batch.is_empty() => {
                    self.error = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
            if matches!(&self.from, From::Stdin(reader) if reader.buffer().is_empty()) {
                break;
            }
        }
        Ok(batch)
    }

    fn read(&mut self) -> Result<Option<Draft>, Error> {
        loop {
            let line = match &mut self.from {
                From::Arguments(arguments) => arguments.next(),
                From::Stdin(reader) => read_line(reader, self.read + 1)?,
            };
            let Some(line) = line else { return Ok(None) };
            self.read += 1;
            let number = self.read;
            if !self.is_json {
                return Ok(Some(Draft { number, body: Value::from(line).to_string() }));
            }
            // A file of JSON lines may end with an empty line.
            if line.trim().is_empty() && matches!(self.from, From::Stdin(_)) {
                continue;
            }
            return match serde_json::from_str::<IgnoredAny>(&line) {
                Ok(_) => Ok(Some(Draft { number, body: line })),
                Err(error) => {
                    let error = error.to_string().replace(" at line 1 column", " at column");
                    Err(Error::Usage(format!("{} {number} is not JSON: {error}", self.item())))
                }
            };
        }
    }
}

/// Reads a line without its end. `number` is for errors.
fn read_line(reader: &mut BufReader<Stdin>, number: u64) -> Result<Option<String>, Error> {
    let mut line = Vec::new();
    reader.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line).map_err(Error::input)?;
    if line.is_empty() {
        return Ok(None);
    }
    for end in [b'\n', b'\r'] {
        line.pop_if(|last| *last == end);
    }
    if line.len() > LINE_BYTES_MAX {
        return Err(Error::Usage(format!("line {number} is longer than {LINE_BYTES_MAX} bytes")));
    }
    if number == 1 {
        if is_utf_16(&line) {
            return Err(Error::Usage("the input is in UTF-16; send it in UTF-8".to_owned()));
        }
        let mark = line.len() - without_mark(&line).len();
        line.drain(..mark);
    }
    let line = String::from_utf8(line);
    line.map(Some).map_err(|_| Error::Usage(format!("line {number} is not valid UTF-8")))
}
