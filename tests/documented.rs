//! `docs/fair-queues.md` describes the assignment of shards to tenants. Its table and its Python
//! function give the same shards as the service.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use sukkal_domain::sharding::SHARDS_MAX;
use sukkal_domain::{Shard, Sharding, Tenant};

use support::python;
use support::redis::child_command;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/fair-queues.md");
/// Number of shards after which the documented function computes another hash.
const NUMBERS_PER_BLOCK: u16 = 4;

/// A tenant of a queue, and its shards in the order of assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Vector {
    tenant: String,
    shards: u16,
    per_tenant: u16,
    assigned: Vec<u16>,
}

impl Vector {
    /// Computes the shards with the code of the service.
    fn computed(tenant: &str, shards: u16, per_tenant: u16) -> Self {
        let assignment = Sharding::new(shards, per_tenant).unwrap().assign(&Tenant::new(tenant).unwrap());
        let assigned = assignment.shards.into_iter().map(Shard::number).collect();
        Self { tenant: tenant.to_owned(), shards, per_tenant, assigned }
    }

    /// Parses a row of the table in the document. Returns `None` if the line is not one.
    fn from_row(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, tenant, shards, per_tenant, assigned, _] = cells[..] else { return None };
        let tenant = tenant.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        let assigned = assigned.split(' ').map(|shard| shard.parse().expect("a shard is a number")).collect();
        Some(Self { tenant, shards: shards.parse().ok()?, per_tenant: per_tenant.parse().ok()?, assigned })
    }
}

fn document() -> String {
    fs::read_to_string(PATH).expect("the document can be read")
}

#[test]
fn the_documented_shards_are_those_that_the_service_assigns() {
    let rows: Vec<Vector> = document().lines().filter_map(Vector::from_row).collect();

    assert!(rows.len() >= 8, "{rows:?}");
    assert!(rows.iter().any(|row| row.per_tenant > 2 * NUMBERS_PER_BLOCK), "no row needs a third block");
    assert!(rows.iter().any(|row| !row.tenant.is_ascii()), "no row needs UTF-8");
    for row in rows {
        assert_eq!(Vector::computed(&row.tenant, row.shards, row.per_tenant), row);
    }
}

#[test]
fn the_documented_python_assigns_the_same_shards() {
    let document = document();
    let (_, code) = document.split_once("```python\n").expect("the document has Python");
    let (code, _) = code.split_once("```").expect("the code block ends");
    let vectors: Vec<Vector> = (0..500)
        .map(|number| {
            let shards = 2 + number * 37 % (SHARDS_MAX - 1);
            Vector::computed(&format!("tenant № {number}"), shards, 1 + number % shards.min(20))
        })
        .collect();
    let asked: Vec<Value> =
        vectors.iter().map(|vector| json!([vector.tenant, vector.shards, vector.per_tenant])).collect();
    let program =
        format!("{code}\nimport json, sys\nprint(json.dumps([shards(*row) for row in json.loads(sys.argv[1])]))");

    let mut python = child_command(python::venv());
    python.args(["-c", &program, &json!(asked).to_string()]).stderr(Stdio::inherit());
    let output = python.output().expect("the interpreter starts");

    let answers: Vec<Vec<u16>> = serde_json::from_slice(&output.stdout).expect("the program answers");
    let expected: Vec<Vec<u16>> = vectors.into_iter().map(|vector| vector.assigned).collect();
    assert_eq!(answers, expected);
}
