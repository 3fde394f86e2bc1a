//! The results: named figures for each measurement, contestant and round, and their medians.

use crate::statistics::median;

/// The figures of one contestant in one round, in the order of the columns.
pub(crate) type Sample = Vec<(&'static str, f64)>;

/// The results of all measurements.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) measures: Vec<Measure>,
}

/// One measurement, which is shown as a table.
pub(crate) struct Measure {
    /// The name for `--only` and for goals.
    pub(crate) name: &'static str,
    /// The heading of the table.
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

/// The results of one contestant in all rounds.
pub(crate) struct Row {
    pub(crate) contestant: String,
    pub(crate) samples: Vec<Sample>,
    /// Why the contestant has no results.
    pub(crate) missing: Option<String>,
}

impl Measure {
    pub(crate) fn new(name: &'static str, title: impl Into<String>) -> Self {
        Self { name, title: title.into(), rows: Vec::new() }
    }

    /// Adds a round of a contestant.
    pub(crate) fn add(&mut self, contestant: &str, sample: Sample) {
        self.row(contestant).samples.push(sample);
    }

    /// Records why a contestant does not take part.
    pub(crate) fn miss(&mut self, contestant: &str, reason: &str) {
        self.row(contestant).missing = Some(reason.to_owned());
    }

    fn row(&mut self, contestant: &str) -> &mut Row {
        let place = self.rows.iter().position(|row| row.contestant == contestant).unwrap_or_else(|| {
            self.rows.push(Row { contestant: contestant.to_owned(), samples: Vec::new(), missing: None });
            self.rows.len() - 1
        });
        &mut self.rows[place]
    }

    /// Returns the table of the medians in Markdown.
    pub(crate) fn table(&self) -> String {
        let columns: Vec<&str> = self
            .rows
            .iter()
            .find_map(|row| row.samples.first())
            .map(|sample| sample.iter().map(|(column, _)| *column).collect())
            .unwrap_or_default();
        let mut lines =
            vec![format!("| | {} |", columns.join(" | ")), format!("|---|{}", "---|".repeat(columns.len()))];
        for row in &self.rows {
            let cells: Vec<String> = match &row.missing {
                Some(reason) => vec![reason.clone()],
                None => columns.iter().map(|column| row.median(column).map_or_else(|| "–".to_owned(), shown)).collect(),
            };
            lines.push(format!("| {} | {} |", row.contestant, cells.join(" | ")));
        }
        format!("{}\n\n{}\n", self.title, lines.join("\n"))
    }
}

impl Row {
    /// Returns the median of the rounds.
    pub(crate) fn median(&self, column: &str) -> Option<f64> {
        let of = |sample: &Sample| sample.iter().find(|(name, _)| *name == column).map(|(_, figure)| *figure);
        let figures: Vec<f64> = self.samples.iter().filter_map(of).collect();
        (!figures.is_empty()).then(|| median(figures))
    }
}

impl Results {
    /// Returns the median of a figure, if it was measured.
    pub(crate) fn figure(&self, measure: &str, contestant: &str, column: &str) -> Option<f64> {
        let measure = self.measures.iter().find(|one| one.name == measure)?;
        measure.rows.iter().find(|row| row.contestant == contestant)?.median(column)
    }
}

/// Formats a figure with about three significant digits.
pub(crate) fn shown(figure: f64) -> String {
    match figure.abs() {
        size if size >= 1000.0 => grouped(figure),
        size if size >= 100.0 || size == 0.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

/// Formats a figure with spaces between groups of thousands.
fn grouped(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 && text != "-" {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
