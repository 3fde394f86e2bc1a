//! Each row of the tables in `docs/limits.md` names a test, options and a metric that exist.

use std::fs;
use std::path::Path;

use toml::Table;

use super::{root, sources};

#[test]
fn every_limit_names_its_test_its_option_and_its_metric() {
    let page = fs::read_to_string(root().join("docs/limits.md")).unwrap();
    let options: Table = fs::read_to_string(root().join("config/default.toml")).unwrap().parse().unwrap();
    let sources = sources();
    let rows: Vec<Vec<&str>> = page.lines().filter(|line| line.starts_with("| ")).map(cells).collect();
    let rows: Vec<_> = rows.iter().filter(|cells| cells[0] != "what").collect();
    assert!(rows.len() > 20, "the page has tables");

    for row in rows {
        let [what, limit, _, metric, test] = row[..] else { panic!("{row:?} has other columns") };
        let test = test.trim_matches('`');
        let (module, name) = test.rsplit_once("::").unwrap_or_else(|| panic!("{what}: {test} is no test"));
        let path = module.replace("::", "/");
        let is_test = |path_in: &str, text: &str| path_in.contains(&path) && text.contains(&format!("fn {name}("));
        assert!(sources.iter().any(|(path_in, text)| is_test(&path_in.to_string_lossy(), text)), "{what}: {test}");
        let registered = format!("\"{}\"", metric.trim_matches('`'));
        let is_metric = |path: &Path, text: &str| {
            path.to_string_lossy().contains("src/observability/metrics/") && text.contains(&registered)
        };
        assert!(metric == "–" || sources.iter().any(|(path, text)| is_metric(path, text)), "{what}: {metric}");
        for option in limit.split('`').skip(1).step_by(2) {
            let (section, key) = option.split_once('.').unwrap_or(("", option));
            let section =
                if section.is_empty() { Some(&options) } else { options.get(section).and_then(|s| s.as_table()) };
            assert!(section.is_some_and(|section| section.contains_key(key)), "{what}: there is no option {option}");
        }
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}
