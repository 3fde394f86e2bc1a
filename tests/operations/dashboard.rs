//! The alerts, the dashboard and the documentation name only metrics that exist, and Prometheus
//! accepts their queries.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::{read, succeed};
use support::exposition::Exposition;
use support::redis::RedisServer;

use support::sukkal::{POOLING, Sukkal};

const ALERTS: &str = "ops/alerts.yml";
const DASHBOARD: &str = "ops/grafana-dashboard.json";
const GUIDE: &str = "docs/operating.md";
/// The parts of a histogram.
const HISTOGRAM_PARTS: [&str; 3] = ["_bucket", "_count", "_sum"];

/// Returns the metrics of a service that has all of them.
async fn metrics() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().display());
    let sukkal = Sukkal::start_with(&store, &[&POOLING[..], &[("SUKKAL_METRICS__QUEUES", "p/q")]].concat());
    let redis = RedisServer::shared();
    let pool = json!({"uri": redis.url(), "weight": 0});
    let created = sukkal.project("p").put("/v2/pools/one").header("X-Roles", "admin").json(&pool).send().await;
    assert_eq!(created.unwrap().status(), 201);
    // The first request is counted when it is answered.
    Exposition::of(&sukkal.url("")).await;
    let metrics: BTreeSet<String> = Exposition::of(&sukkal.url("")).await.kinds.into_keys().collect();
    assert!(metrics.contains("sukkal_queue_messages"), "{metrics:?}");
    metrics
}

/// Returns the names in a text that look like metrics. Those of parts of a histogram are without
/// the part.
fn named_metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("sukkal_") || word.starts_with("process_"));
    let whole = |name: &str| HISTOGRAM_PARTS.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name).to_owned();
    names.map(whole).collect()
}

/// Returns the queries of a dashboard.
fn queries(dashboard: &Value) -> Vec<String> {
    match dashboard {
        Value::Object(keys) => {
            let own = keys.get("expr").and_then(Value::as_str).map(str::to_owned);
            own.into_iter().chain(keys.values().flat_map(queries)).collect()
        }
        Value::Array(items) => items.iter().flat_map(queries).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn alerts_and_dashboard_name_metrics_that_exist() {
    let metrics = metrics().await;
    for file in [ALERTS, DASHBOARD] {
        let named = named_metrics(&read(file));
        assert!(named.len() >= 10, "{file}: {named:?}");
        assert!(named.is_subset(&metrics), "{file} names {:?}", named.difference(&metrics).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn the_guide_explains_every_metric() {
    let explained: BTreeSet<String> = read(GUIDE)
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned()))
        .filter(|name| name.starts_with("sukkal_") || name.starts_with("process_"))
        .collect();

    assert_eq!(explained, metrics().await);
}

#[test]
fn prometheus_accepts_the_alerts_and_they_fire_when_they_should() {
    succeed("promtool", &["check", "rules", ALERTS]);
    succeed("promtool", &["check", "config", "ops/prometheus.yml"]);
    succeed("promtool", &["test", "rules", "ops/alerts-test.yml"]);

    let tested = read("ops/alerts-test.yml");
    for alert in read(ALERTS).lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tested.contains(&format!("alertname: {alert}\n")), "{alert} is not tested");
    }
}

#[test]
fn prometheus_accepts_the_queries_of_the_dashboard() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let queries = queries(&dashboard);
    assert!(queries.len() >= 20, "{queries:?}");
    // As Grafana replaces its variables.
    let replaced = queries.iter().map(|query| query.replace("$__rate_interval", "1m").replace('$', "any_"));
    let rules: Vec<Value> = (0..)
        .zip(replaced)
        .map(|(number, expr)| json!({ "record": format!("panel:{number}"), "expr": expr }))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dashboard.yml");
    let groups = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    fs::write(&file, groups.to_string()).unwrap();

    succeed("promtool", &["check", "rules", file.to_str().unwrap()]);
}
