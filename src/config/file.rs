//! Reads a configuration file: its options, and the position of each option in the file.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::error::Error;
use sukkal_base::text;

/// An option in a file.
#[derive(Debug)]
pub(super) struct Entry {
    /// The name of the option, with its section.
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) position: Position,
}

/// A position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) path: String,
    /// From 1.
    pub(super) line: usize,
    /// In characters, from 1.
    pub(super) column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}, column {}", self.path, self.line, self.column)
    }
}

/// Reads a file. A table that is not a section is the value of an option.
pub(super) fn read(path: &Path, is_section: impl Fn(&str) -> bool) -> Result<Vec<Entry>, Error> {
    let unreadable = |error: std::io::Error| Error::Unreadable { path: path.to_owned(), reason: error.to_string() };
    let text = text::read(path).map_err(unreadable)?;
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
                value => entries.push(Entry { name, value: to_value(value), position: self.position(key.span()) }),
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

    /// Converts an error of the parser. The message does not quote the line, because the line may
    /// contain a password.
    fn malformed(&self, error: &toml::de::Error) -> Error {
        let span = error.span().unwrap_or_default();
        let position = self.position(span);
        let reason = match error.message().trim().replace('\n', " ") {
            // For text without quotes, the parser reports that it expects a value of another type.
            reason if self.has_bare_text(position.line) && reason.starts_with("invalid") => {
                "text must be in quotes".to_owned()
            }
            reason => reason,
        };
        let key = self.key_in_line(position.line).map(|key| format!(" ({key})")).unwrap_or_default();
        Error::Invalid(format!("{position}{key}: {reason}"))
    }

    /// Returns whether a line sets an option to text without quotes.
    fn has_bare_text(&self, line: usize) -> bool {
        let value =
            self.text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(_, value)| value.trim());
        let is_keyword = |value: &str| ["true", "false", "inf", "nan"].iter().any(|word| value.starts_with(word));
        let is_bare = |value: &str| {
            !value.starts_with(['"', '\'', '[', '{']) && value.contains(|c: char| c.is_alphabetic() || c == ':')
        };
        value.is_some_and(|value| is_bare(value) && !is_keyword(value))
    }

    /// Returns the option that a line sets, with its section.
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

/// Returns the value without its position. An integer that is too large becomes a float, which no
/// option accepts.
fn to_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::Float(number.as_str().parse().unwrap_or(f64::INFINITY)), Value::Integer),
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| to_value(item.get_ref())).collect()),
        DeValue::Table(table) => Value::Table(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), to_value(value.get_ref()))).collect(),
        ),
    }
}
