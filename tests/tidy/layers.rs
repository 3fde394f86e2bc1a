//! The layers of the service: a module uses only its own layer and those below it. The manifests
//! say which packages below the service use which.

use std::fs;

use super::imports::{imports_of, module_of};
use super::{code, files, root};

/// Each layer with the modules below it that it may use.
const LAYERS: [(&str, &[&str]); 14] = [
    ("console", &[]),
    ("descriptors", &[]),
    ("service_manager", &[]),
    ("auth", &[]),
    ("observability", &["auth"]),
    ("broker", &["auth", "observability"]),
    ("authentication", &["auth", "broker", "observability"]),
    ("wire", &["auth", "broker"]),
    ("api", &["auth", "authentication", "broker", "console", "observability", "wire"]),
    ("config", &["auth"]),
    ("janitor", &["observability"]),
    ("push", &["auth", "broker", "observability", "wire"]),
    (
        "app",
        &[
            "api",
            "auth",
            "authentication",
            "broker",
            "config",
            "descriptors",
            "janitor",
            "observability",
            "push",
            "service_manager",
            "wire",
        ],
    ),
    ("cli", &["app", "config", "observability"]),
];

/// Modules that only some others may name, by whole paths: a store is chosen in one place.
const HIDDEN: [(&str, &[&str]); 2] = [
    ("sukkal_storage::redis", &["sukkal_storage::redis", "sukkal_storage::uri", "sukkal_storage::pooled", "app"]),
    ("sukkal_storage::embedded", &["sukkal_storage::embedded", "sukkal_storage::pooled", "app"]),
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
    for (path, text) in code() {
        for import in imports_of(&path, &text) {
            for (hidden, allowed) in HIDDEN {
                let may = allowed.iter().any(|module| is_in(&module_of(&path), module));
                assert!(may || !is_in(&import, hidden), "{} uses {}", path.display(), import.join("::"));
            }
        }
    }
}
