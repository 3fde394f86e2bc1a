//! Checksums must equal those of Python, which reads the delivered JSON and hashes the output of
//! `json.dumps`.

use std::io::Write;
use std::process::{Child, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use sukkal::wire::checksum::checksum;
use sukkal::wire::json::JsonBody;
use sukkal_domain::Body;

use support::redis::child_command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/json_dumps.py");
const VALUES: usize = 20_000;

/// Generates any finite float. Most of those that `any` generates are far from common magnitudes.
fn any_float() -> impl Strategy<Value = f64> {
    let near = (any::<i32>(), -20..20_i32).prop_map(|(digits, exponent)| f64::from(digits) * 10_f64.powi(exponent));
    let whole = any::<i32>().prop_map(f64::from);
    let whatever =
        any::<u64>().prop_map(f64::from_bits).prop_filter("JSON has no such number", |float| float.is_finite());
    // Halves, quarters and eighths of large numbers lie between two shortest decimal forms.
    let tied = (any::<i64>(), 0..4).prop_map(|(digits, halvings)| {
        let whole: f64 = (digits >> 13).to_string().parse().expect("the text is a float");
        whole / 2_f64.powi(halvings)
    });
    prop_oneof![near, whole, whatever, tied]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[\\x00-\\x7f]{0,20}", "[\\x7f-\\u{10ffff}]{0,8}"]
}

fn any_body() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(null)),
        any::<i64>().prop_map(Value::from),
        any_float().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_text(), inner), 0..4).prop_map(|keys| Value::Object(keys.into_iter().collect())),
        ]
    })
}

/// Returns the powers of ten and their neighbors, at which the notation changes.
fn boundary_floats() -> impl Iterator<Item = Value> {
    (-325..=308).flat_map(|exponent| {
        let power: f64 = format!("1e{exponent}").parse().expect("the text is a float");
        [power, power.next_down(), power.next_up(), -power].map(Value::from)
    })
}

#[test]
fn checksums_equal_those_of_python() {
    let mut runner = TestRunner::default();
    let strategy = any_body();
    let random = (0..VALUES).map(|_| strategy.new_tree(&mut runner).expect("values can be generated").current());
    let bodies: Vec<Value> = boundary_floats().chain(random).collect();

    let mut command = child_command("python3");
    let python = command.arg(SCRIPT).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let output = run_with_values(python.expect("python3 is installed"), &bodies);

    assert_eq!(output.lines().count(), bodies.len());
    for (body, expected) in bodies.iter().zip(output.lines()) {
        let stored = Body::from_msgpack(rmp_serde::to_vec(body).unwrap().into());
        assert_eq!(checksum(&JsonBody(&stored)).unwrap(), format!("MD5:{expected}"), "{body}");
    }
}

/// Sends each value to the process as a line of JSON, and returns its output.
fn run_with_values(mut process: Child, bodies: &[Value]) -> String {
    let lines: Vec<String> = bodies.iter().map(Value::to_string).collect();
    let mut stdin = process.stdin.take().expect("stdin is piped");
    let writer = std::thread::spawn(move || stdin.write_all(lines.join("\n").as_bytes()));
    let output = process.wait_with_output().expect("the process can be waited for");
    writer.join().expect("the writer ends").expect("the process reads all lines");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("the output is hexadecimal digits")
}
