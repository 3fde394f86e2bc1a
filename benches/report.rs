//! What a benchmark says: it is printed at once, and may be written as a document.

use std::fmt;
use std::fs;

use maud::Markup;

const COLUMNS_MAX: usize = 100;

/// The text of a benchmark. A short run neither prints nor writes it.
pub(crate) struct Report {
    text: String,
    pub(crate) is_short: bool,
}

impl Report {
    pub(crate) fn new(is_short: bool) -> Self {
        Self { text: String::new(), is_short }
    }

    /// Writes the text to this file of `docs`.
    pub(crate) fn write(&self, file: &str) {
        self.write_file(file, &wrap(&self.text));
    }

    /// Writes a plot to this file of `docs`.
    pub(crate) fn write_plot(&self, file: &str, plot: Markup) {
        self.write_file(file, &plot.into_string());
    }

    pub(crate) fn write_file(&self, file: &str, text: &str) {
        if !self.is_short {
            fs::write(support::root().join("docs").join(file), text).unwrap();
        }
    }
}

impl fmt::Write for Report {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if !self.is_short {
            print!("{part}");
        }
        self.text.push_str(part);
        Ok(())
    }
}

/// Wraps lines at 100 columns. Tables and headings stay as they are.
fn wrap(text: &str) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        if line.starts_with(['|', '#', '!']) {
            wrapped += line;
        } else {
            let mut columns = 0;
            for word in line.split_whitespace() {
                let length = word.chars().count();
                if columns > 0 {
                    let fits = columns + 1 + length <= COLUMNS_MAX;
                    wrapped.push(if fits { ' ' } else { '\n' });
                    columns = if fits { columns + 1 } else { 0 };
                }
                wrapped += word;
                columns += length;
            }
        }
        wrapped.push('\n');
    }
    wrapped
}
