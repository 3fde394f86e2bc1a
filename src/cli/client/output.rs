//! What commands print: tables and sentences for people, JSON lines for programs.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::time::Duration;

use indicatif::HumanCount;
use serde_json::Value;

use super::environment::Environment;
use super::error::Error;
use super::table::Table;

/// Standard output in the form that the person or program wants.
pub(super) struct Output {
    to: BufWriter<StdoutLock<'static>>,
    json: bool,
    colors: bool,
    /// Number of columns of the terminal. `None` if the output is not a terminal.
    columns: Option<usize>,
}

impl Output {
    pub(super) fn new(json: bool, environment: &Environment) -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let colors = is_terminal
            && environment.os("NO_COLOR").is_none()
            && environment.os("TERM").is_none_or(|terminal| terminal != "dumb");
        let size = rustix::termios::tcgetwinsize(&stdout).ok().filter(|size| size.ws_col > 0);
        let columns = size.map(|size| size.ws_col.into()).filter(|_| is_terminal);
        Self { to: BufWriter::new(stdout.lock()), json, colors, columns }
    }

    /// Whether the output is JSON lines.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a document on a line of its own.
    pub(super) fn document(&mut self, document: &Value) -> Result<(), Error> {
        Ok(writeln!(self.to, "{document}")?)
    }

    /// Prints a line for people.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Error> {
        Ok(writeln!(self.to, "{}", text.trim_end())?)
    }

    /// Prints what a command has done: a sentence, or a document for programs.
    pub(super) fn done(&mut self, sentence: &str, document: &Value) -> Result<(), Error> {
        if self.json { self.document(document) } else { self.line(sentence) }
    }

    /// Prints a table for people, and nothing for programs.
    pub(super) fn table(&mut self, table: &Table) -> Result<(), Error> {
        if self.json {
            return Ok(());
        }
        Ok(self.to.write_all(table.render(self.colors, self.columns).as_bytes())?)
    }

    /// Makes everything visible that was printed.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        Ok(self.to.flush()?)
    }
}

/// Returns the text without characters that control a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns a JSON value on one line, without characters that control a terminal. Strings have no
/// quotes if `is_bare`.
pub(super) fn inline(value: &Value, is_bare: bool) -> String {
    match value {
        Value::Null if is_bare => String::new(),
        Value::String(text) if is_bare && !text.contains(char::is_control) => text.clone(),
        // JSON escapes the ASCII control characters, and `printable` removes the others.
        value => printable(&value.to_string()),
    }
}

/// Returns a duration in the largest unit that leaves at least two digits, such as `90s` and `36h`.
pub(super) fn duration(seconds: u64) -> String {
    const UNITS: [(u64, char); 3] = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let unit = UNITS.iter().find(|(length, _)| seconds >= 2 * length);
    unit.map_or_else(|| format!("{seconds}s"), |(length, unit)| format!("{}{unit}", seconds / length))
}

/// Returns a number of seconds in a document as text, or nothing if there is none.
pub(super) fn duration_of(value: &Value) -> String {
    value.as_u64().map(duration).unwrap_or_default()
}

/// Returns a number in a document as text, or nothing if there is none.
pub(super) fn count(value: &Value) -> String {
    value.as_u64().map(|number| HumanCount(number).to_string()).unwrap_or_default()
}

/// Returns `1 message`, `2 messages`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", HumanCount(count))
}

/// Returns a duration in milliseconds with one decimal.
pub(super) fn milliseconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_have_one_unit() {
        for (seconds, text) in [(0, "0s"), (119, "119s"), (120, "2m"), (7_199, "119m"), (7_200, "2h"), (172_800, "2d")]
        {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn no_text_of_the_service_controls_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c\n"), "a [2Jb c ");
        assert_eq!(inline(&json!("\x1b[2J\u{9b}"), true), r#""\u001b[2J ""#);
        assert_eq!(inline(&json!({ "a": "\u{9b}" }), true), r#"{"a":" "}"#);
    }
}
