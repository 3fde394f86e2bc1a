//! A configuration file: its options, and where in the file each one stands.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::Error;

/// An option in a file.
#[derive(Debug)]
pub(super) struct Entry {
    /// The option, with its section.
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) position: Position,
}

/// A position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) path: String,
    /// Both begin at 1; the column counts characters.
    pub(super) line: usize,
    pub(super) column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}, column {}", self.path, self.line, self.column)
    }
}

/// Reads a file. Only tables that are sections are entered; any other one is a value.
pub(super) fn read(path: &Path, is_section: impl Fn(&str) -> bool) -> Result<Vec<Entry>, Error> {
    let unreadable = |error: std::io::Error| Error::Unreadable { path: path.to_owned(), reason: error.to_string() };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let file = File { path: path.display().to_string(), text: &text };
    let table = DeTable::parse(&text).map_err(|error| file.malformed(&error))?;
    let mut entries = Vec::new();
    file.collect("", table.get_ref(), &is_section, &mut entries);
    Ok(entries)
}

struct File<'t> {
    path: String,
    text: &'t str,
}

impl File<'_> {
    fn collect(&self, section: &str, table: &DeTable<'_>, is_section: &dyn Fn(&str) -> bool, entries: &mut Vec<Entry>) {
        for (key, value) in table {
            let name =
                if section.is_empty() { key.get_ref().to_string() } else { format!("{section}.{}", key.get_ref()) };
            match value.get_ref() {
                DeValue::Table(table) if is_section(&name) => self.collect(&name, table, is_section, entries),
                value => entries.push(Entry { name, value: plain(value), position: self.position(key.span()) }),
            }
        }
    }

    fn position(&self, span: Range<usize>) -> Position {
        let before = &self.text[..span.start.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Position {
            path: self.path.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// The error has its own words only. With the line beside them it would show a value, which may be a password.
    fn malformed(&self, error: &toml::de::Error) -> Error {
        let span = error.span().unwrap_or_default();
        let position = self.position(span);
        let reason = match error.message().trim().replace('\n', " ") {
            // What the parser says of text without quotes: it expects what it could have read as another type.
            reason if self.has_bare_text(position.line) && reason.starts_with("invalid") => {
                "text must be in quotes".to_owned()
            }
            reason => reason,
        };
        let key = self.key_in_line(position.line).map(|key| format!(" ({key})")).unwrap_or_default();
        Error::Invalid(format!("{position}{key}: {reason}"))
    }

    /// Whether a line sets an option to something that no type begins with but text in quotes.
    fn has_bare_text(&self, line: usize) -> bool {
        let value =
            self.text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(_, value)| value.trim());
        let is_other = |value: &str| ["true", "false", "inf", "nan"].iter().any(|word| value.starts_with(word));
        let is_bare = |value: &str| {
            !value.starts_with(['"', '\'', '[', '{']) && value.contains(|c: char| c.is_alphabetic() || c == ':')
        };
        value.is_some_and(|value| is_bare(value) && !is_other(value))
    }

    /// The option that a line sets, with its section.
    fn key_in_line(&self, line: usize) -> Option<String> {
        let is_key =
            |key: &&str| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        let mut lines: Vec<&str> = self.text.lines().take(line).map(str::trim).collect();
        let key = lines.pop()?.split_once('=')?.0.trim();
        let header =
            |line: &&str| line.strip_prefix('[')?.split_once(']').map(|(section, _)| section.trim().to_owned());
        let section = lines.iter().rev().find_map(header);
        let key = Some(key).filter(is_key)?;
        Some(section.map_or(key.to_owned(), |section| format!("{section}.{key}")))
    }
}

/// The value without its position. An integer that is too large becomes a float, which no option accepts.
fn plain(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::Float(number.as_str().parse().unwrap_or(f64::INFINITY)), Value::Integer),
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| plain(item.get_ref())).collect()),
        DeValue::Table(table) => {
            Value::Table(table.iter().map(|(key, value)| (key.get_ref().to_string(), plain(value.get_ref()))).collect())
        }
    }
}
