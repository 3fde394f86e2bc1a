//! The licenses of the dependencies are those that `deny.toml` accepts, and their features give no
//! meaning to data of clients.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::{metadata_of, root};

/// Returns whether an SPDX expression without parentheses has an alternative with accepted licenses
/// only. Crates that are older than these expressions have a slash instead of `OR`.
fn is_accepted(expression: &str, accepted: &BTreeSet<&str>) -> bool {
    let alternatives = expression.replace('/', " OR ").replace(['(', ')'], "");
    let mut alternatives = alternatives.split(" OR ").map(str::trim);
    alternatives.any(|all| all.split(" AND ").all(|license| accepted.contains(license.trim())))
}

#[test]
fn every_dependency_has_an_accepted_license() {
    let deny: toml::Table = fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap();
    let accepted = deny["licenses"]["allow"].as_array().unwrap();
    let accepted: BTreeSet<&str> = accepted.iter().filter_map(toml::Value::as_str).collect();
    let metadata: Value = serde_json::from_slice(&metadata_of(root())).unwrap();
    let packages = metadata["packages"].as_array().unwrap();

    let unacceptable: Vec<String> = packages
        .iter()
        .map(|package| (package["name"].as_str().unwrap(), package["license"].as_str().unwrap_or_default()))
        .filter(|(_, license)| !is_accepted(license, &accepted))
        .map(|(name, license)| format!("{name}: {license}"))
        .collect();

    assert!(packages.len() > 200 && unacceptable.is_empty(), "{unacceptable:?}");
}

/// `raw_value` and `arbitrary_precision` give a meaning to certain keys in the data of clients.
#[test]
fn the_json_library_has_exactly_these_features() {
    let metadata: Value = serde_json::from_slice(&metadata_of(root())).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let is_json = |node: &&Value| node["id"].as_str().is_some_and(|id| id.contains("#serde_json@"));
    let features: Vec<&Value> = nodes.iter().filter(is_json).map(|node| &node["features"]).collect();

    assert_eq!(features, [&json!(["alloc", "default", "float_roundtrip", "indexmap", "preserve_order", "std"])]);
}
