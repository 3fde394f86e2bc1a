//! Tables, in which a service that failed has a footnote.

use std::fmt::Write as _;

use crate::Length;

/// A table of a document. The first column has the name of the service.
pub(crate) struct Table {
    rows: String,
    columns: usize,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        let rows = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
        Self { rows, columns: columns.len(), notes: Vec::new() }
    }

    /// Adds a row. Without figures, each of them is "–", and a footnote has the reason.
    pub(crate) fn add(&mut self, mut labels: Vec<String>, figures: Result<Vec<String>, String>) {
        let figures = figures.unwrap_or_else(|reason| {
            let number = self.notes.iter().position(|note| *note == reason).unwrap_or_else(|| {
                self.notes.push(reason);
                self.notes.len() - 1
            });
            write!(labels[0], " ({})", number + 1).unwrap();
            vec!["–".to_owned(); self.columns - labels.len()]
        });
        labels.extend(figures);
        writeln!(self.rows, "| {} |", labels.join(" | ")).unwrap();
    }

    /// Returns the table with its footnotes. Panics if a service has failed in a short run.
    pub(crate) fn into_text(self, length: Length) -> String {
        assert!(length != Length::Short || self.notes.is_empty(), "{:?}", self.notes);
        let mut text = self.rows;
        for (number, note) in self.notes.iter().enumerate() {
            writeln!(text, "\n({}) {note}", number + 1).unwrap();
        }
        text
    }
}
