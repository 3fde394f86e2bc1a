//! Rules for the source tree that a test can check: which module may use which, where a crate may
//! be used, how files begin and how long they are, and the language of documents.

mod imports;
mod layers;
mod licenses;
mod limits;
mod prose;
mod rows;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use support::redis::child_command;

const FILE_LINES_MAX: usize = 600;

/// Crates that belong to one place.
const CRATES: [(&str, &[&str]); 24] = [
    ("axum", &["src/api/", "src/wire/"]),
    ("tower_http", &["src/api/"]),
    ("fred", &["crates/storage/src/redis/"]),
    (
        "base64",
        &[
            "src/api/websocket/",
            "src/authentication/",
            "crates/domain/src/",
            "src/push/",
            "crates/storage/src/pools.rs",
        ],
    ),
    ("clap", &["crates/cli/", "src/cli/"]),
    ("clap_complete", &["crates/cli/", "src/cli/"]),
    ("clap_mangen", &["src/cli/"]),
    ("h2", &["src/api/server/http2/"]),
    ("hdrhistogram", &["crates/cli/src/bench/"]),
    ("hyper_rustls", &["src/push/client.rs"]),
    ("httpdate", &["src/api/server/http2/", "src/push/client.rs"]),
    ("indicatif", &["crates/cli/src/bench/", "crates/cli/src/client/"]),
    ("lettre", &["crates/domain/src/", "src/push/"]),
    ("maud", &["crates/cli/src/bench/", "src/console/"]),
    ("opentelemetry", &["src/observability/telemetry/"]),
    ("prometheus_client", &["src/observability/metrics/"]),
    ("reqwest", &["src/authentication/keystone/", "crates/cli/src/client/", "crates/base/src/outbound/"]),
    ("ring", &["src/api/websocket/", "src/authentication/", "crates/domain/src/", "src/push/"]),
    ("redb", &["crates/storage/src/embedded/"]),
    (
        "rustix",
        &[
            "src/observability/audit/file.rs",
            "crates/cli/src/bench/",
            "crates/cli/src/client/",
            "src/cli/serve.rs",
            "src/descriptors.rs",
            "src/observability/metrics/",
            "crates/storage/src/embedded/",
        ],
    ),
    ("rustls_native_certs", &["crates/base/src/outbound/"]),
    (
        "tokio_rustls",
        &[
            "src/api/server/",
            "crates/cli/src/",
            "src/cli/",
            "crates/base/src/outbound/",
            "src/push/client.rs",
            "src/push/mail/",
            "crates/storage/src/redis/",
        ],
    ),
    ("tokio_tungstenite", &["src/api/websocket/"]),
    ("webpki", &["src/api/server/tls/"]),
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
    support::root()
}

fn sources() -> Vec<(PathBuf, String)> {
    ["src", "crates", "tests", "benches"].iter().flat_map(|folder| files(folder, ".rs")).collect()
}

/// The code of the service and of the packages below it.
fn code() -> Vec<(PathBuf, String)> {
    ["src", "crates"].iter().flat_map(|folder| files(folder, ".rs")).collect()
}

/// A table that is not in the list would be lost in a migration, and no check would read it.
#[test]
fn each_table_of_records_is_in_the_list_of_tables_or_in_its_comment() {
    let sources = files("crates/storage/src", "rs");
    let (_, root) = sources.iter().find(|(path, _)| path.ends_with("crates/storage/src/lib.rs")).unwrap();
    let (before, list) = root.split_once("static COPIED_TABLES").unwrap();
    let named = before.rsplit("\n\n").next().unwrap().to_owned() + list.split(';').take(2).collect::<String>().as_str();
    let declared =
        sources.iter().flat_map(|(_, text)| text.match_indices("static ").map(move |(at, _)| &text[at + 7..]));
    let tables: Vec<&str> = declared.filter_map(|text| text.split_once(": Table =")).map(|(name, _)| name).collect();
    let tables: Vec<&str> = tables.into_iter().filter(|name| !name.contains(char::is_whitespace)).collect();

    assert!(tables.len() >= 3, "{tables:?}");
    assert!(tables.iter().all(|name| named.contains(&format!("::{name}"))), "{tables:?} in {named}");
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
    for (path, text) in code() {
        for (name, places) in CRATES {
            let uses = text.contains(&format!("use {name}::")) || text.contains(&format!(" {name}::"));
            let at_home = places.iter().any(|place| path.starts_with(place.trim_end_matches('/')));
            assert!(!uses || at_home, "{} uses {name}", path.display());
        }
    }
}

#[test]
fn every_script_states_its_contract_and_is_used() {
    let tables = ["crates/storage/src/redis/script.rs", "crates/storage/src/redis/library.rs"];
    let table = tables.map(|path| fs::read_to_string(root().join(path)).unwrap()).concat();
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

/// Returns the sources of the `COPY` lines in the first stage of the Dockerfile, of all layers or
/// only of those before the first command. They are not excluded by `.dockerignore`.
fn copied_to_the_image(all_layers: bool) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let (dockerfile, ignored) = (read("Dockerfile"), read(".dockerignore"));
    let stage = dockerfile.split("\nFROM ").nth(1).unwrap();
    let layers = if all_layers { stage } else { stage.split("\nRUN ").next().unwrap() };
    let copies = layers.lines().filter_map(|line| line.strip_prefix("COPY "));
    let sources = copies.flat_map(|line| line.rsplit_once(' ').unwrap().0.split(' ').map(str::to_owned));
    let is_sent = |source: &str| {
        let mut sent = ignored.lines().filter_map(|line| line.strip_prefix('!'));
        sent.any(|sent| Path::new(source).starts_with(sent))
    };
    sources.inspect(|source| assert!(is_sent(source), "{source}")).collect()
}

/// Returns what Cargo knows about the workspace in a folder and its dependencies, in JSON.
fn metadata_of(folder: &Path) -> Vec<u8> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = child_command(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--locked", "--format-version=1", "--filter-platform", &platform]);
    let output = cargo.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The Dockerfile compiles the dependencies before it copies the sources.
#[test]
fn the_manifests_in_the_first_layer_of_the_image_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let packages = fs::read_dir(root().join("crates")).unwrap();
    let libraries = packages.map(|package| package.unwrap().path().join("src/lib.rs"));
    for name in libraries.chain(["src/lib.rs", "src/main.rs"].map(|name| root().join(name))) {
        let empty = folder.path().join(name.strip_prefix(root()).unwrap());
        fs::create_dir_all(empty.parent().unwrap()).unwrap();
        fs::write(empty, "").unwrap();
    }
    for name in copied_to_the_image(false) {
        let copy = folder.path().join(&name);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(root().join(name), copy).unwrap();
    }

    metadata_of(folder.path());
}

/// The compiler has listed the files that it has read for the program.
#[test]
fn the_image_gets_every_file_that_the_program_is_built_from() {
    let copied = copied_to_the_image(true);
    let rule = fs::read_to_string(support::sukkal::binary().with_extension("d")).unwrap();
    let (_program, files) = rule.trim().split_once(": ").unwrap();
    let root = root().canonicalize().unwrap();
    let files: Vec<&Path> = files.split(' ').filter_map(|file| Path::new(file).strip_prefix(&root).ok()).collect();

    assert!(files.contains(&Path::new("src/main.rs")) && files.contains(&Path::new("openapi.yaml")), "{files:?}");
    for file in files {
        assert!(copied.iter().any(|source| file.starts_with(source)), "the image lacks {}", file.display());
    }
}

/// It drops byte order marks. Files of the kernel and of the service itself have none.
#[test]
fn texts_are_read_by_one_reader() {
    const OWN: [&str; 4] = [
        "crates/base/src/text.rs",
        "src/observability/metrics/process.rs",
        "crates/storage/src/embedded",
        "src/observability/audit",
    ];
    for (path, text) in code() {
        let is_own = OWN.iter().any(|own| path.to_string_lossy().contains(own));
        for call in ["fs::read(", "fs::read_to_string(", "io::read_to_string(", "from_pem_file(", "pem_file_iter("] {
            assert!(is_own || !text.contains(call), "{} uses {call}", path.display());
        }
    }
}

#[test]
fn nothing_is_skipped() {
    for (path, text) in sources() {
        assert!(!text.contains(concat!("#[ig", "nore")), "{} skips a test", path.display());
    }
}
