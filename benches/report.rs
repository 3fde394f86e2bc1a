//! The text of a benchmark: it is printed at once, and may be written to a page of `docs`.

use std::fmt;
use std::fs;
use std::process::Command;

use maud::Markup;

use crate::COMMAND;

const COLUMNS_MAX: usize = 100;

/// The text of a benchmark. A short run does not print it, and only checks that its page has the
/// section.
pub(crate) struct Report {
    text: String,
    pub(crate) is_short: bool,
}

impl Report {
    pub(crate) fn new(is_short: bool) -> Self {
        Self { text: String::new(), is_short }
    }

    /// Writes the text to the section of a page that has the name of the benchmark.
    pub(crate) fn write(&self, page: &str, name: &str) {
        let text = format!("Measured on {}, on {}, with {}.\n\n{}", date(), processors(), command(), self.text.trim());
        self.write_section(page, name, &text);
    }

    /// Replaces a section of a page of `docs`: the text between its two comments.
    pub(crate) fn write_section(&self, page: &str, name: &str, text: &str) {
        let before = fs::read_to_string(support::root().join("docs").join(page)).unwrap();
        let [begin, end] = ["begin", "end"].map(|side| format!("<!-- {side} {name} -->"));
        let (head, rest) = before.split_once(&begin).unwrap_or_else(|| panic!("{page} has no {begin}"));
        let (_, tail) = rest.split_once(&end).unwrap_or_else(|| panic!("{page} has no {end}"));
        self.write_file(page, &format!("{head}{begin}\n\n{}\n\n{end}{tail}", wrap(text).trim()));
    }

    /// Writes a plot to this file of `docs`.
    pub(crate) fn write_plot(&self, file: &str, plot: Markup) {
        self.write_file(file, &plot.into_string());
    }

    fn write_file(&self, file: &str, text: &str) {
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

/// Returns the number and the model of the processors.
pub(crate) fn processors() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{cores} × {}", field("/proc/cpuinfo", "model name"))
}

/// Returns the first value with a name that begins so.
pub(crate) fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
    value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

/// Returns the command of this benchmark.
pub(crate) fn command() -> String {
    let arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    format!("`{COMMAND} {}`", arguments.collect::<Vec<_>>().join(" "))
}

pub(crate) fn date() -> String {
    output_of("date", &["-u", "+%F"])
}

/// Returns what a program prints.
pub(crate) fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
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
