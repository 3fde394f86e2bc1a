//! The house rules, held by a test: which layer may use what, and how files begin and end.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::redis::tethered;

const FILE_LINES_MAX: usize = 600;

/// Each layer with those below it that it may use; `config` and `storage::record` are leaves of theirs.
const LAYERS: [(&str, &[&str]); 12] = [
    ("domain", &[]),
    ("metrics", &[]),
    ("descriptors", &[]),
    ("request_id", &[]),
    ("auth", &["domain"]),
    ("storage", &["domain"]),
    ("broker", &["auth", "domain", "metrics", "request_id", "storage"]),
    ("api", &["auth", "broker", "domain", "metrics", "request_id", "storage"]),
    ("config", &["domain", "storage"]),
    ("janitor", &["domain", "storage"]),
    ("app", &["api", "auth", "broker", "config", "descriptors", "domain", "janitor", "metrics", "storage"]),
    ("cli", &["app", "config", "request_id"]),
];

/// Crates that belong to one place.
const CRATES: [(&str, &[&str]); 10] = [
    ("axum", &["src/api/", "src/app.rs"]),
    ("tower_http", &["src/api/"]),
    ("fred", &["src/storage/redis/"]),
    ("clap", &["src/cli/"]),
    ("hdrhistogram", &["src/cli/bench/"]),
    ("indicatif", &["src/cli/bench/"]),
    ("maud", &["src/cli/bench/"]),
    ("prometheus_client", &["src/metrics.rs"]),
    ("redb", &["src/storage/embedded/"]),
    ("rustix", &["src/cli/bench/", "src/descriptors.rs", "src/cli/serve.rs", "src/storage/embedded/"]),
];

fn files(folder: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no {ending} below {folder}");
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<(PathBuf, String)> {
    ["src", "tests", "benches"].iter().flat_map(|folder| files(folder, ".rs")).collect()
}

/// The modules of this crate that a source names, by `crate::` paths.
fn modules_used(text: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (at, prefix) in text.match_indices("crate::") {
        let rest = &text[at + prefix.len()..];
        let group = rest.strip_prefix('{').map(|group| group.split('}').next().unwrap_or_default());
        for path in group.unwrap_or(rest).split(',') {
            let name: String = path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            used.insert(name);
            if group.is_none() {
                break;
            }
        }
    }
    used
}

#[test]
fn every_file_says_what_it_is_for_and_is_short() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{} does not begin with //!", path.display());
        let lines = text.lines().count();
        assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines", path.display());
    }
}

#[test]
fn arrows_only_point_down() {
    for (path, text) in files("src", ".rs") {
        let place = path.strip_prefix("src").unwrap();
        let own = place.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let Some((_, below)) = LAYERS.iter().find(|(layer, _)| *layer == own) else {
            assert!(["main", "lib"].contains(&own), "{} is in no layer", path.display());
            continue;
        };
        for used in modules_used(&text) {
            let is_layer = LAYERS.iter().any(|(layer, _)| *layer == used);
            assert!(!is_layer || used == own || below.contains(&used.as_str()), "{} uses {used}", path.display());
        }
    }
}

#[test]
fn client_commands_know_the_service_by_its_api_only() {
    for (path, text) in files("src/cli/bench", ".rs") {
        let others: Vec<String> = modules_used(&text).into_iter().filter(|module| module != "cli").collect();
        assert!(others.is_empty(), "{} uses {others:?}", path.display());
    }
}

#[test]
fn a_crate_stays_where_it_belongs() {
    for (path, text) in files("src", ".rs") {
        for (name, places) in CRATES {
            let uses = text.contains(&format!("use {name}::")) || text.contains(&format!(" {name}::"));
            let at_home = places.iter().any(|place| path.starts_with(place.trim_end_matches('/')));
            assert!(!uses || at_home, "{} uses {name}", path.display());
        }
    }
}

#[test]
fn every_script_states_its_contract_and_is_used() {
    let table = fs::read_to_string(root().join("src/storage/redis/script.rs")).unwrap();
    for (path, text) in files("scripts", ".lua") {
        let name = path.strip_prefix("scripts").unwrap().with_extension("");
        let shown = path.display();
        assert!(text.starts_with("-- "), "{shown} does not begin with a comment");
        if name.starts_with("shared") {
            assert!(table.contains(&format!("\"{}\"", name.display())), "{shown} is not used");
            continue;
        }
        assert!(text.contains("-- Returns "), "{shown} does not say what it returns");
        // What is in KEYS stands in the table, under the names that scripts use.
        if text.contains("ARGV[") {
            assert!(text.contains("-- ARGV  ") && text.contains("assert(#"), "{shown} does not say what it takes");
        }
        assert!(table.contains(&format!("\"{}\"", name.display())), "{shown} is not used");
    }
}

#[test]
fn only_the_movable_clock_reads_what_tests_set() {
    for (path, text) in files("scripts", ".lua") {
        let movable = path.ends_with("clock_movable.lua");
        assert_eq!(text.contains(":clock"), movable, "{}", path.display());
        assert!(movable || path.ends_with("clock.lua") || !text.contains("'TIME'"), "{}", path.display());
    }
}

#[test]
fn the_folders_hold_what_they_are_for() {
    let endings = |folder: &str| -> BTreeSet<String> {
        let ending = |path: PathBuf| path.extension().unwrap_or_default().to_string_lossy().into_owned();
        files(folder, "").into_iter().map(|(path, _)| ending(path)).collect()
    };

    assert_eq!(endings("scripts"), BTreeSet::from(["lua".to_owned()]));
    assert_eq!(endings("config"), BTreeSet::from(["toml".to_owned()]));
    assert_eq!(endings("src"), BTreeSet::from(["rs".to_owned()]));
}

/// The Dockerfile compiles the dependencies before it copies anything but the manifest.
#[test]
fn the_manifest_is_valid_without_tests_and_benchmarks() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(root().join("Cargo.toml"), folder.path().join("Cargo.toml")).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    for name in ["lib.rs", "main.rs"] {
        fs::write(folder.path().join("src").join(name), "").unwrap();
    }

    let mut cargo = tethered(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--no-deps", "--format-version=1"]).current_dir(&folder);
    let output = cargo.output().unwrap();

    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nothing_is_skipped() {
    for (path, text) in sources() {
        assert!(!text.contains(concat!("#[ig", "nore")), "{} skips a test", path.display());
    }
}

#[test]
fn every_row_of_the_fact_sheet_has_its_tests() {
    let table = fs::read_to_string(root().join("tests/rows.md")).unwrap();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = table.lines().map(cells).filter(|row| row.len() > 3 && is_row_id(&row[1])).collect();
    let ids: BTreeSet<&String> = rows.iter().map(|row| &row[1]).collect();
    let without: Vec<&String> = rows.iter().filter(|row| row[3].is_empty()).map(|row| &row[1]).collect();
    let tests = |row: &Vec<String>| {
        let (id, tests) = (row[1].clone(), row[3].split(", ").filter(|test| !test.is_empty()));
        tests.map(|test| (id.clone(), test.trim_matches('`').to_owned())).collect::<Vec<_>>()
    };
    let listed: BTreeSet<(String, String)> = rows.iter().flat_map(tests).collect();
    let named = rows_named_by_tests();

    let unnamed: Vec<_> = listed.difference(&named).collect();
    let unlisted: Vec<_> = named.difference(&listed).collect();
    assert_eq!(ids.len(), rows.len(), "a row is there twice");
    assert!(unnamed.is_empty(), "there are no such tests, or they name no such rows: {unnamed:?}");
    assert!(unlisted.is_empty(), "not in tests/rows.md: {unlisted:?}");
    assert!(without.is_empty(), "without a test: {without:?}");
}

/// Rows with the tests that name them in the lines above themselves.
fn rows_named_by_tests() -> BTreeSet<(String, String)> {
    let mut named = BTreeSet::new();
    for (path, text) in sources() {
        let path = path.with_extension("");
        let module = path.to_str().unwrap().trim_start_matches("tests/").trim_end_matches("/mod").replace('/', "::");
        let mut rows: Vec<&str> = Vec::new();
        let mut are_rows = false;
        for line in text.lines().map(str::trim) {
            are_rows = line.starts_with("/// Row") || (are_rows && line.starts_with("///"));
            if are_rows {
                rows.extend(
                    line.split([' ', ',']).map(|word| word.trim_end_matches('.')).filter(|word| is_row_id(word)),
                );
            } else if let Some((_, rest)) = line.split_once("fn ") {
                let test: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                named.extend(rows.drain(..).map(|row| (row.to_owned(), format!("{module}::{test}"))));
            }
        }
    }
    named
}

fn is_row_id(word: &str) -> bool {
    word.contains('-') && word.starts_with(|c: char| c.is_ascii_digit())
}
