//! The response of `/metrics`, parsed as strictly as its format allows
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::collections::BTreeMap;

use super::waiting::in_time;

/// The samples of an exposition.
#[derive(Debug)]
pub struct Exposition {
    /// The type of each metric.
    pub kinds: BTreeMap<String, String>,
    /// The value of each sample, by its name and its labels as they are written.
    samples: BTreeMap<String, f64>,
}

impl Exposition {
    /// Gets the exposition of a server, without client headers.
    pub async fn of(url: &str) -> Self {
        let text = async {
            let answer = crate::plain_http::get(format!("{url}/metrics")).await.expect("the server answers");
            answer.text().await.expect("the whole response arrives")
        };
        Self::read(&in_time("the metrics arrive", text).await)
    }

    /// Parses an exposition. Panics if it is invalid.
    pub fn read(text: &str) -> Self {
        let mut exposition = Self { kinds: BTreeMap::new(), samples: BTreeMap::new() };
        let mut metric = "";
        let lines = text.strip_suffix('\n').expect("the last line ends with a line feed").split('\n');
        for line in lines {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').expect("a metric is explained");
                assert!(!words.is_empty() && is_name(name), "{line}");
                metric = name;
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let kind = kind.strip_prefix(metric).and_then(|kind| kind.strip_prefix(' ')).expect(line);
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(
                    exposition.kinds.insert(metric.to_owned(), kind.to_owned()),
                    None,
                    "{metric} is declared twice"
                );
            } else {
                let kind = exposition.kinds.get(metric).expect("the type of a metric precedes its samples");
                let (series, value) = line.rsplit_once(' ').expect(line);
                let name = series.split('{').next().unwrap();
                let part = name.strip_prefix(metric).unwrap_or_else(|| panic!("{line} is below {metric}"));
                let parts: &[&str] = if kind == "histogram" { &["_bucket", "_count", "_sum"] } else { &[""] };
                assert!(parts.contains(&part), "{line}");
                assert!(kind != "counter" || name.ends_with("_total"), "{line}");
                assert!(labels(series).iter().all(|(label, _)| is_name(label)), "{line}");
                let twice = exposition.samples.insert(series.to_owned(), value.parse().expect(line));
                assert_eq!(twice, None, "{series} occurs twice");
            }
        }
        exposition.check_histograms();
        exposition
    }

    /// Returns the value of a sample, or `None` if it does not exist.
    pub fn value(&self, series: &str) -> Option<f64> {
        self.samples.get(series).copied()
    }

    /// Returns the values of all samples with this name, by their labels.
    pub fn all(&self, name: &str) -> BTreeMap<Vec<(String, String)>, f64> {
        let own = self.samples.iter().filter(|(series, _)| series.split('{').next() == Some(name));
        own.map(|(series, value)| (labels(series), *value)).collect()
    }

    /// Each bucket includes the counts of the lower ones, and the last one, without a bound,
    /// includes all.
    fn check_histograms(&self) {
        for (metric, _) in self.kinds.iter().filter(|(_, kind)| *kind == "histogram") {
            let counts = self.all(&format!("{metric}_count"));
            assert_eq!(counts.len(), self.all(&format!("{metric}_sum")).len());
            let mut all_buckets: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for (mut labels, value) in self.all(&format!("{metric}_bucket")) {
                let le = labels.iter().position(|(label, _)| label == "le").expect("a bucket has a bound");
                let (_, bound) = labels.remove(le);
                let bound: f64 = bound.parse().expect("a bound is a number");
                all_buckets.entry(labels).or_default().push((bound, value));
            }
            for (labels, count) in counts {
                let mut buckets = all_buckets.remove(&labels).unwrap_or_default();
                buckets.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
                assert!(buckets.is_sorted_by_key(|(_, value)| *value), "{metric} {labels:?}: {buckets:?}");
                assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{metric} {labels:?}");
            }
        }
    }
}

/// Returns the labels of a sample in their order.
fn labels(series: &str) -> Vec<(String, String)> {
    let Some((_, labels)) = series.split_once('{') else {
        return Vec::new();
    };
    let labels = labels.strip_suffix("\"}").expect("labels end with a brace");
    let label = |label: &str| {
        let (name, value) = label.split_once("=\"").expect("a label has a value");
        assert!(!value.contains(['"', '\\', '\n']), "no value here needs an escape: {series}");
        (name.to_owned(), value.to_owned())
    };
    labels.split("\",").map(label).collect()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
