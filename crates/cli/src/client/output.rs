//! What commands print: tables and sentences for people, JSON lines for programs.

use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::time::Duration;

use indicatif::HumanCount;
use serde_json::{Map, Value};

use super::environment::Environment;
use super::error::Error;
use super::table::{Column, Table};

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
        Ok(writeln!(self.to, "{}", json(document))?)
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

    /// Prints a list: a document for each item, or a table.
    pub(super) fn list(&mut self, columns: &'static [Column], items: &Value) -> Result<(), Error> {
        let mut list = Listing::new(columns, self);
        items.as_array().into_iter().flatten().try_for_each(|item| list.add(item))?;
        list.end()
    }

    /// Prints an item of a list alone: its document, or its columns as properties.
    pub(super) fn item(&mut self, columns: &[Column], item: &Value) -> Result<(), Error> {
        if self.json {
            return self.document(item);
        }
        let mut table = Table::of_properties();
        for (name, _, cell) in columns {
            table.property(&name.to_lowercase(), cell(item));
        }
        self.table(&table)
    }

    /// Makes everything visible that was printed.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        Ok(self.to.flush()?)
    }
}

/// A list that is printed while it arrives: a document for each item, or a table at its end.
pub(super) struct Listing<'o> {
    columns: &'static [Column],
    table: Table,
    output: &'o mut Output,
}

impl<'o> Listing<'o> {
    pub(super) fn new(columns: &'static [Column], output: &'o mut Output) -> Self {
        Self { columns, table: Table::of_items(columns), output }
    }

    pub(super) fn add(&mut self, item: &Value) -> Result<(), Error> {
        if self.output.json {
            return self.output.document(item);
        }
        self.table.item(self.columns, item);
        Ok(())
    }

    pub(super) fn end(self) -> Result<(), Error> {
        self.output.table(&self.table)
    }
}

/// Returns the text without characters that control a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_control(c) { ' ' } else { c }).collect()
}

/// Whether a character controls a terminal, or changes the direction of the text around it, so that
/// a line can look like another one.
fn is_control(c: char) -> bool {
    // The Unicode property Bidi_Control.
    let is_bidi = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || is_bidi
}

/// Returns a JSON value on one line, with escapes for characters that control a terminal.
fn json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(is_control) {
        return text;
    }
    // They occur in strings only, and each has an escape of four digits.
    text.chars().fold(String::new(), |mut escaped, c| {
        if is_control(c) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
        escaped
    })
}

/// Returns a JSON value on one line, without characters that control a terminal. Strings have no
/// quotes if `is_bare` and they have no such characters.
pub(super) fn inline(value: &Value, is_bare: bool) -> String {
    match value {
        Value::Null if is_bare => String::new(),
        Value::String(text) if is_bare && !text.contains(is_control) => text.clone(),
        value => json(value),
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

/// Returns the keys that the object of `before` has, but not that of `after`.
pub(super) fn removed_keys(before: &Value, after: &Value) -> Vec<String> {
    let keys = before.as_object().into_iter().flat_map(Map::keys);
    keys.filter(|key| after.get(key).is_none()).map(|key| printable(key)).collect()
}

/// Returns the names on one line after `introduction`, or nothing if there are none.
pub(super) fn listed(introduction: &str, names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("{introduction}{}", names.join(", ")) }
}

/// Returns a duration in milliseconds with one decimal.
pub(super) fn milliseconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(printable("a\x1b[2Jb\u{9b}c\u{202e}d\n"), "a [2Jb c d ");
        assert_eq!(inline(&Value::from("\x1b[2J\u{9b}"), true), r#""\u001b[2J\u009b""#);
        assert_eq!(inline(&Value::from("\u{202e}"), true), r#""\u202e""#);
        assert_eq!(inline(&Value::from("größe"), true), "größe");
    }

    #[test]
    fn json_has_escapes_for_characters_that_control_the_terminal_and_the_same_meaning() {
        let document = serde_json::json!({ "\u{7f}": ["\\\u{9b}31m", "\u{2066}", "größe"] });

        let text = json(&document);

        assert_eq!(text, r#"{"\u007f":["\\\u009b31m","\u2066","größe"]}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    }
}
