//! Rules for the source tree that a test can check: which module may use which, where a crate may be used, how files
//! begin and how long they are, and the language of documents.

mod imports;
mod layers;
mod prose;
mod rows;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::redis::child_command;

const FILE_LINES_MAX: usize = 600;

/// Crates that belong to one place.
const CRATES: [(&str, &[&str]); 23] = [
    ("axum", &["src/api/"]),
    ("tower_http", &["src/api/"]),
    ("fred", &["src/storage/redis/"]),
    ("base64", &["src/api/http/websocket/", "src/authentication/", "src/domain/", "src/push/", "src/storage/pools.rs"]),
    ("clap", &["src/cli/"]),
    ("clap_complete", &["src/cli/"]),
    ("clap_mangen", &["src/cli/"]),
    ("h2", &["src/api/http/server/http2/"]),
    ("hdrhistogram", &["src/cli/bench/"]),
    ("hyper_rustls", &["src/outbound/", "src/push/client.rs"]),
    ("httpdate", &["src/api/http/server/http2/", "src/push/client.rs"]),
    ("indicatif", &["src/cli/bench/", "src/cli/client/"]),
    ("lettre", &["src/domain/", "src/push/"]),
    ("maud", &["src/cli/bench/", "src/console/"]),
    ("opentelemetry", &["src/telemetry/"]),
    ("prometheus_client", &["src/metrics/"]),
    ("ring", &["src/api/http/websocket/", "src/authentication/", "src/domain/", "src/push/"]),
    ("redb", &["src/storage/embedded/"]),
    (
        "rustix",
        &[
            "src/audit/file.rs",
            "src/cli/bench/",
            "src/cli/client/",
            "src/cli/serve.rs",
            "src/descriptors.rs",
            "src/metrics/",
            "src/storage/embedded/",
        ],
    ),
    ("rustls_native_certs", &["src/outbound/"]),
    (
        "tokio_rustls",
        &[
            "src/api/http/server/",
            "src/cli/",
            "src/outbound/",
            "src/push/client.rs",
            "src/push/mail/",
            "src/storage/redis/",
        ],
    ),
    ("tokio_tungstenite", &["src/api/http/websocket/"]),
    ("webpki", &["src/api/http/server/tls/"]),
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

#[test]
fn every_file_says_what_it_is_for_and_is_short() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{} does not begin with //!", path.display());
        let lines = text.lines().count();
        assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines", path.display());
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
    assert_eq!(endings("src/console/assets"), ["css", "js", "svg"].map(str::to_owned).into());
    assert_eq!(endings("src"), ["css", "js", "rs", "svg"].map(str::to_owned).into());
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

    let mut cargo = child_command(env!("CARGO"));
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
