//! Which file imports from which, read from `use` declarations outside tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::code;

/// An imported path, such as `broker::queues` in the service and
/// `sukkal_storage::redis::keys::Part` in a package below it.
pub(super) type ImportedPath = Vec<String>;

/// The root of the package that a file belongs to: nothing for the service.
fn root_of(path: &Path) -> ImportedPath {
    let package = path.strip_prefix("crates").ok().and_then(|path| path.iter().next());
    package.map(|name| format!("sukkal_{}", name.to_str().unwrap())).into_iter().collect()
}

/// The module that a file is, such as `sukkal_storage::redis::keys`.
pub(super) fn module_of(path: &Path) -> ImportedPath {
    let root = root_of(path);
    let folders = if root.is_empty() { 1 } else { 3 };
    let parts = path.with_extension("");
    let parts = parts.iter().skip(folders).map(|part| part.to_str().unwrap().to_owned());
    let mut module: ImportedPath = root.into_iter().chain(parts).collect();
    module.pop_if(|name| ["mod", "lib", "main"].contains(&name.as_str()));
    module
}

/// The paths of the workspace that a file imports, for itself or to export them again.
pub(super) fn imports_of(path: &Path, text: &str) -> BTreeSet<ImportedPath> {
    let module = module_of(path);
    // Unit tests stand at the end of a file.
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut imports = BTreeSet::new();
    for (at, _) in text.match_indices("use ") {
        let is_declaration =
            ["", "pub", "pub(super)", "pub(crate)"].contains(&text[..at].rsplit('\n').next().unwrap().trim());
        let Some((tree, _)) = text[at + 4..].split_once(';').filter(|_| is_declaration) else {
            continue;
        };
        for import in expanded(&tree.split_whitespace().collect::<String>()) {
            let mut names = import.split("::").map(str::to_owned).peekable();
            let mut base = match names.peek().map(String::as_str) {
                Some("crate") => root_of(path),
                Some(name) if name.starts_with("sukkal_") => Vec::new(),
                Some("self" | "super") => module.clone(),
                // A module of this file.
                Some(name) if text.contains(&format!("mod {name};")) => module.clone(),
                _ => continue,
            };
            while let Some(step) = names.next_if(|name| ["crate", "self", "super"].contains(&name.as_str())) {
                if step == "super" {
                    base.pop();
                }
            }
            imports.insert(base.into_iter().chain(names).collect());
        }
    }
    imports
}

/// Expands `a::{b, c::{d, e}}` to `a::b`, `a::c::d` and `a::c::e`.
fn expanded(tree: &str) -> Vec<String> {
    let Some((prefix, group)) = tree.split_once('{') else {
        return vec![tree.to_owned()];
    };
    let group = group.strip_suffix('}').unwrap();
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in group.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(c);
        }
    }
    parts
        .iter()
        .filter(|part| !part.is_empty())
        .flat_map(|part| expanded(part))
        .map(|part| format!("{prefix}{part}"))
        .collect()
}

/// The files that each file imports from. A name that a module only exports again counts for the
/// file that defines it.
fn graph() -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
    let sources = code();
    let modules: BTreeMap<ImportedPath, (&PathBuf, BTreeSet<ImportedPath>)> =
        sources.iter().map(|(path, text)| (module_of(path), (path, imports_of(path, text)))).collect();
    let targets = |path: &PathBuf, text: &str| {
        let imports = imports_of(path, text).into_iter();
        imports.filter_map(|import| defining_file(&modules, &import)).filter(|target| target != path).collect()
    };
    sources.iter().map(|(path, text)| (path.clone(), targets(path, text))).collect()
}

fn defining_file(
    modules: &BTreeMap<ImportedPath, (&PathBuf, BTreeSet<ImportedPath>)>,
    import: &ImportedPath,
) -> Option<PathBuf> {
    let length = (1..=import.len()).rev().find(|length| modules.contains_key(&import[..*length]))?;
    let (path, imports) = &modules[&import[..length]];
    let again = imports.iter().find(|again| import.get(length).is_some_and(|name| again.last() == Some(name)));
    match again.filter(|again| *again != import) {
        Some(again) => defining_file(modules, again),
        // Macros are exported from the root, where they are not defined.
        None if length == 1 && path.ends_with("lib.rs") => None,
        None => Some((*path).clone()),
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut graph = graph();
    assert!(graph.values().map(BTreeSet::len).sum::<usize>() > 100, "imports are not found");

    // Files that import nothing that is left are in no circle.
    loop {
        let done: Vec<PathBuf> =
            graph.iter().filter(|(_, targets)| targets.is_empty()).map(|(path, _)| path.clone()).collect();
        if done.is_empty() {
            break;
        }
        graph.retain(|path, _| !done.contains(path));
        for targets in graph.values_mut() {
            targets.retain(|target| !done.contains(target));
        }
    }
    // Nor files that nothing left imports.
    loop {
        let imported: BTreeSet<PathBuf> = graph.values().flatten().cloned().collect();
        let before = graph.len();
        graph.retain(|path, _| imported.contains(path));
        if graph.len() == before {
            break;
        }
    }

    assert!(graph.is_empty(), "files in import circles, with what they import: {graph:#?}");
}

#[test]
fn groups_of_imports_are_expanded() {
    let text = "use sukkal_storage::{Error, redis::{keys, script::Script}};\nuse super::posts;\nuse std::fmt;\n";

    let imports = imports_of(Path::new("src/api/websocket/mod.rs"), text);

    let expected =
        ["api::posts", "sukkal_storage::Error", "sukkal_storage::redis::keys", "sukkal_storage::redis::script::Script"];
    assert_eq!(imports.iter().map(|path| path.join("::")).collect::<Vec<_>>(), expected);
}
