//! Tables with aligned columns.

use std::borrow::Cow;

use serde_json::Value;

const GAP: usize = 2;
const BOLD: &str = "1";
const RESET: &str = "\x1b[0m";
/// Replaces the end of a text that is cut off.
const CUT: char = '…';

/// The colors of cells that need attention. The value is the code of the terminal.
#[derive(Clone, Copy, Debug)]
pub(super) enum Color {
    Red = 31,
    Yellow = 33,
    Blue = 34,
}

/// A table that is filled row by row.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    /// Whether the last column ends at the width of the terminal.
    is_cut: bool,
    rows: Vec<Vec<Cell>>,
}

/// A column of a list: its name, its side, and its cell for an item.
pub(super) type Column = (&'static str, Align, fn(&Value) -> Cell);

/// On which side of its column a cell is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// The text of a row in one column.
#[derive(Debug)]
pub(crate) struct Cell {
    text: String,
    color: Option<Color>,
}

impl Cell {
    pub(super) fn colored(text: impl Into<String>, color: Option<Color>) -> Self {
        Self { text: text.into(), color }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::colored(text, None)
    }
}

impl Table {
    /// Creates a table.
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), is_cut: true, rows: Vec::new() }
    }

    /// Creates the table of a list.
    pub(super) fn of_items(columns: &[Column]) -> Self {
        Self::new(&columns.iter().map(|(name, align, _)| (*name, *align)).collect::<Vec<_>>())
    }

    /// Adds the row of an item of a list.
    pub(super) fn item(&mut self, columns: &[Column], item: &Value) {
        self.rows.push(columns.iter().map(|(_, _, cell)| cell(item)).collect());
    }

    /// Creates a list of properties, which has no header and is not cut off.
    pub(super) fn of_properties() -> Self {
        Self { is_cut: false, ..Self::new(&[("", Align::Left), ("", Align::Left)]) }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells.into());
    }

    /// Adds a property to a list of properties, unless its value is empty.
    pub(super) fn property(&mut self, name: &str, value: impl Into<Cell>) {
        let value = value.into();
        if !value.text.is_empty() {
            self.row([name.into(), value]);
        }
    }

    /// Returns the table as lines. Columns in which no row has a text are left out. The last column
    /// is cut off at the width of the terminal.
    pub(crate) fn render(&self, colors: bool, width: Option<usize>) -> String {
        let is_shown = |&n: &usize| self.rows.is_empty() || self.rows.iter().any(|row| !row[n].text.is_empty());
        let shown: Vec<usize> = (0..self.columns.len()).filter(is_shown).collect();
        let widths: Vec<usize> = shown
            .iter()
            .map(|&n| {
                let cells = self.rows.iter().map(|row| row[n].text.chars().count());
                cells.chain([self.columns[n].0.chars().count()]).max().unwrap_or_default()
            })
            .collect();
        let header: Vec<Cell> = self.columns.iter().map(|(name, _)| (*name).into()).collect();
        let has_header = header.iter().any(|cell| !cell.text.is_empty());
        let mut lines = String::new();
        for (index, row) in std::iter::once(&header).filter(|_| has_header).chain(&self.rows).enumerate() {
            let is_header = has_header && index == 0;
            let mut column = 0;
            for (place, (&n, &cell_width)) in shown.iter().zip(&widths).enumerate() {
                let (cell, is_last) = (&row[n], place + 1 == shown.len());
                let text = match width {
                    Some(width) if is_last && self.is_cut => cut(&cell.text, width.saturating_sub(column).max(1)),
                    _ => Cow::Borrowed(cell.text.as_str()),
                };
                let padding = " ".repeat(cell_width.saturating_sub(text.chars().count()));
                let color =
                    if is_header { Some(BOLD.to_owned()) } else { cell.color.map(|color| (color as u8).to_string()) };
                let text = match color {
                    Some(code) if colors => format!("\x1b[{code}m{text}{RESET}"),
                    _ => text.into_owned(),
                };
                let is_right = self.columns[n].1 == Align::Right;
                lines += if is_right { &padding } else { "" };
                lines += &text;
                if !is_last {
                    lines += if is_right { "" } else { &padding };
                    lines += &" ".repeat(GAP);
                }
                column += cell_width + GAP;
            }
            lines.truncate(lines.trim_end_matches(' ').len());
            lines.push('\n');
        }
        lines
    }
}

fn cut(text: &str, width: usize) -> Cow<'_, str> {
    match text.char_indices().nth(width.saturating_sub(1)) {
        Some((end, last)) if end + last.len_utf8() < text.len() => Cow::Owned(format!("{}{CUT}", &text[..end])),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new(&[("NAME", Align::Left), ("N", Align::Right), ("PAUSED", Align::Left), ("BODY", Align::Left)]);
        table.row(["orders".into(), "5".into(), "".into(), Cell::colored("a long text", Some(Color::Red))]);
        table.row(["x".into(), "4711".into(), "".into(), "short".into()]);
        table
    }

    #[test]
    fn columns_are_aligned_and_empty_columns_left_out() {
        assert_eq!(table().render(false, None), "NAME       N  BODY\norders     5  a long text\nx       4711  short\n");
    }

    #[test]
    fn the_last_column_is_cut_off_at_the_width_of_the_terminal() {
        assert_eq!(table().render(false, Some(20)), "NAME       N  BODY\norders     5  a lon…\nx       4711  short\n");
    }

    #[test]
    fn colors_do_not_change_the_alignment() {
        let colored = table().render(true, None);

        assert!(colored.starts_with("\x1b[1mNAME\x1b[0m    "), "{colored:?}");
        assert!(colored.contains("   5  \x1b[31ma long text\x1b[0m\n"), "{colored:?}");
    }

    #[test]
    fn properties_without_a_value_are_left_out() {
        let mut table = Table::of_properties();
        table.property("name", "orders");
        table.property("paused", "");
        table.property("ttl", "60s");

        assert_eq!(table.render(false, None), "name  orders\nttl   60s\n");
    }
}
