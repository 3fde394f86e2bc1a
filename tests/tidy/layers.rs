//! The layers of `src`: a module uses only its own layer and those below it.

use std::fs;

use super::imports::{imports_of, module_of};
use super::{files, root};

/// Each layer with the modules below it that it may use.
const LAYERS: [(&str, &[&str]); 22] = [
    ("text", &[]),
    ("options", &[]),
    ("domain", &["options"]),
    ("metrics", &["domain", "storage"]),
    ("console", &[]),
    ("descriptors", &[]),
    ("memory_budget", &["domain"]),
    ("outbound", &["text"]),
    ("service_manager", &[]),
    ("telemetry", &["outbound"]),
    ("auth", &["domain"]),
    ("audit", &["auth", "domain", "metrics"]),
    ("request_id", &["audit", "telemetry"]),
    ("storage", &["domain", "memory_budget", "outbound", "text"]),
    ("broker", &["auth", "domain", "memory_budget", "metrics", "request_id", "storage", "telemetry"]),
    ("authentication", &["auth", "broker", "domain", "metrics", "outbound", "text"]),
    (
        "api",
        &[
            "audit",
            "auth",
            "authentication",
            "broker",
            "console",
            "domain",
            "memory_budget",
            "metrics",
            "request_id",
            "telemetry",
            "text",
        ],
    ),
    ("config", &["auth", "domain", "options", "storage", "text"]),
    ("janitor", &["domain", "metrics", "storage"]),
    ("push", &["api", "auth", "broker", "domain", "memory_budget", "metrics", "outbound", "storage"]),
    (
        "app",
        &[
            "api",
            "audit",
            "auth",
            "authentication",
            "broker",
            "config",
            "descriptors",
            "domain",
            "janitor",
            "metrics",
            "push",
            "service_manager",
            "storage",
            "telemetry",
            "text",
        ],
    ),
    ("cli", &["app", "config", "outbound", "request_id", "text"]),
];

/// Modules that only some others may name, by whole paths: a store is chosen in one place.
const HIDDEN: [(&str, &[&str]); 2] = [
    ("storage::redis", &["storage::redis", "storage::uri", "storage::pooled", "app"]),
    ("storage::embedded", &["storage::embedded", "storage::pooled", "app"]),
];

#[test]
fn imports_only_point_down() {
    for (path, text) in files("src", ".rs") {
        let module = module_of(&path);
        let Some(own) = module.first() else { continue };
        let Some((_, below)) = LAYERS.iter().find(|(layer, _)| layer == own) else {
            panic!("{} is in no layer", path.display());
        };
        for import in imports_of(&path, &text) {
            let Some(used) = import.first() else { continue };
            let is_layer = LAYERS.iter().any(|(layer, _)| layer == used);
            assert!(!is_layer || used == own || below.contains(&used.as_str()), "{} uses {used}", path.display());
        }
    }
}

#[test]
fn the_map_of_the_architecture_shows_what_each_layer_may_use() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (layer, below) in LAYERS {
        let layer_of = |path: &str| path.strip_prefix("src/")?.split(['/', '.']).next().map(|name| name == layer);
        let has_layer = |cell: &str| cell.split('`').any(|path| layer_of(path) == Some(true));
        let rows: Vec<_> = map.lines().filter(|row| row.split('|').nth(1).is_some_and(has_layer)).collect();
        assert!(!rows.is_empty(), "{layer} is not in the map");
        for row in rows {
            let used = row.split('|').nth(3).unwrap().trim().split(", ");
            let used: Vec<_> = used.filter(|name| !name.is_empty() && *name != layer).collect();
            assert_eq!(used, below, "{row}");
        }
    }
}

#[test]
fn a_store_is_named_only_where_it_is_chosen() {
    let is_in = |path: &[String], module: &str| path.join("::").starts_with(module);
    for (path, text) in files("src", ".rs") {
        for import in imports_of(&path, &text) {
            for (hidden, allowed) in HIDDEN {
                let may = allowed.iter().any(|module| is_in(&module_of(&path), module));
                assert!(may || !is_in(&import, hidden), "{} uses {}", path.display(), import.join("::"));
            }
        }
    }
}

#[test]
fn client_commands_know_the_service_by_its_api_only() {
    for (path, text) in ["src/cli/bench", "src/cli/client"].into_iter().flat_map(|folder| files(folder, ".rs")) {
        let others: Vec<_> = imports_of(&path, &text)
            .into_iter()
            .filter(|import| import.first().is_some_and(|name| !["cli", "outbound", "text"].contains(&name.as_str())))
            .collect();
        assert!(others.is_empty(), "{} uses {others:?}", path.display());
    }
}
