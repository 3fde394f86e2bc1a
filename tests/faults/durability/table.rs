//! `docs/durability.md` has a table of failures, and each row names the test that causes its
//! failure.

use std::fs;
use std::path::PathBuf;

/// Returns the rows of the table: their cells.
fn rows(document: &str) -> Vec<Vec<&str>> {
    let lines = document.lines().skip_while(|line| !line.starts_with("| failure |")).skip(2);
    lines.take_while(|line| line.starts_with('|')).map(cells).collect()
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn each_row_of_the_table_names_a_test_that_exists() {
    let root = support::root();
    let document = fs::read_to_string(root.join("docs/durability.md")).unwrap();
    let rows = rows(&document);
    assert!(rows.len() >= 15, "{rows:?}");
    for row in rows {
        let [_failure, _store, _kept, test] = row[..] else { panic!("not four cells: {row:?}") };
        let path = test.trim_matches('`').split("::").collect::<Vec<_>>();
        let [modules @ .., name] = &path[..] else { panic!("no test in {row:?}") };
        let file: PathBuf = root.join("tests").join(modules.join("/")).with_extension("rs");
        let source = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(source.contains(&format!("fn {name}(")), "{} has no test {name}", file.display());
    }
}
