//! The report of what campaigns have verified, which `tests/run.py` reads. A campaign is a test
//! that records a history and checks it.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::Write;

/// Appends a line to `target/checked.tsv`: the campaign, the name of its variant, the number of
/// what was verified, and details. A campaign calls this after all its checks.
pub fn checked(campaign: &str, name: &str, count: usize, details: impl Display) {
    let folder = super::root().join("target");
    fs::create_dir_all(&folder).expect("the folder can be created");
    let mut file = OpenOptions::new().append(true).create(true).open(folder.join("checked.tsv")).unwrap();
    // Tests run at the same time, so each line is written at once.
    file.write_all(line(campaign, name, count, details).as_bytes()).unwrap();
}

fn line(campaign: &str, name: &str, count: usize, details: impl Display) -> String {
    let details = details.to_string();
    let words: Vec<&str> = details.split_whitespace().collect();
    format!("{campaign}\t{name}\t{count}\t{}\n", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn details_are_on_one_line_and_in_one_column() {
        assert_eq!(line("quotas", "redis", 7, "first\n\tsecond"), "quotas\tredis\t7\tfirst second\n");
    }
}
