//! Each row of `tests/rows.md` has a test that names it: `/// Row 4.1-3.` above the test.

use std::collections::BTreeSet;
use std::fs;

use super::{root, sources};

#[test]
fn every_row_of_the_fact_sheet_has_a_test() {
    let table = fs::read_to_string(root().join("tests/rows.md")).unwrap();
    let first_cell = |line: &str| line.split('|').nth(1).map(|cell| cell.trim().to_owned());
    let rows: Vec<String> = table.lines().filter_map(first_cell).filter(|cell| is_row_id(cell)).collect();
    let listed: BTreeSet<String> = rows.iter().cloned().collect();
    let named = rows_named_by_tests();

    assert_eq!(listed.len(), rows.len(), "a row is listed twice");
    assert_eq!(listed, named, "rows of tests/rows.md, and rows that tests name");
}

/// The rows that tests name in the doc comments above them.
fn rows_named_by_tests() -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for (_path, text) in sources() {
        let (mut rows, mut is_in_list) = (Vec::new(), false);
        for line in text.lines().map(str::trim) {
            is_in_list = line.starts_with("/// Row") || (is_in_list && line.starts_with("///"));
            if is_in_list {
                let words = line.split([' ', ',']).map(|word| word.trim_end_matches('.'));
                rows.extend(words.filter(|word| is_row_id(word)).map(str::to_owned));
            } else if line.contains("fn ") {
                named.extend(rows.drain(..));
            }
        }
    }
    named
}

fn is_row_id(word: &str) -> bool {
    word.contains('-') && word.starts_with(|c: char| c.is_ascii_digit())
}
