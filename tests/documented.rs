//! `docs/fair-queues.md` describes which shards a tenant has, for everybody: its table and its Python say what the
//! service does.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use sukkal::domain::fairness::SHARDS_MAX;
use sukkal::domain::{Shard, Sharding, Tenant};

use crate::support::python;
use crate::support::redis::tethered;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fair-queues.md");
/// Where the documented function draws four more numbers.
const NUMBERS_IN_A_BLOCK: u16 = 4;

/// A tenant in a queue, and its shards in the order of drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Vector {
    tenant: String,
    shards: u16,
    per_tenant: u16,
    drawn: Vec<u16>,
}

impl Vector {
    /// As the service draws.
    fn by_the_service(tenant: &str, shards: u16, per_tenant: u16) -> Self {
        let lot = Sharding::new(shards, per_tenant).unwrap().draw(&Tenant::new(tenant).unwrap());
        let drawn = lot.shards.into_iter().map(Shard::number).collect();
        Self { tenant: tenant.to_owned(), shards, per_tenant, drawn }
    }

    /// A row of the document's table, if the line is one.
    fn in_row(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, tenant, shards, per_tenant, drawn, _] = cells[..] else { return None };
        let tenant = tenant.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        let drawn = drawn.split(' ').map(|shard| shard.parse().expect("a shard is a number")).collect();
        Some(Self { tenant, shards: shards.parse().ok()?, per_tenant: per_tenant.parse().ok()?, drawn })
    }
}

fn document() -> String {
    fs::read_to_string(PATH).expect("the document is there")
}

#[test]
fn the_shards_in_the_document_are_those_that_tenants_draw() {
    let rows: Vec<Vector> = document().lines().filter_map(Vector::in_row).collect();

    assert!(rows.len() >= 8, "{rows:?}");
    assert!(rows.iter().any(|row| row.per_tenant > 2 * NUMBERS_IN_A_BLOCK), "none needs a third block");
    assert!(rows.iter().any(|row| !row.tenant.is_ascii()), "none needs UTF-8");
    for row in rows {
        assert_eq!(Vector::by_the_service(&row.tenant, row.shards, row.per_tenant), row);
    }
}

#[test]
fn the_python_in_the_document_draws_the_same() {
    let document = document();
    let (_, code) = document.split_once("```python\n").expect("the document has Python");
    let (code, _) = code.split_once("```").expect("it ends");
    let vectors: Vec<Vector> = (0..500)
        .map(|number| {
            let shards = 2 + number * 37 % (SHARDS_MAX - 1);
            Vector::by_the_service(&format!("tenant № {number}"), shards, 1 + number % shards.min(20))
        })
        .collect();
    let asked: Vec<Value> =
        vectors.iter().map(|vector| json!([vector.tenant, vector.shards, vector.per_tenant])).collect();
    let program =
        format!("{code}\nimport json, sys\nprint(json.dumps([shards(*draw) for draw in json.loads(sys.argv[1])]))");

    let mut python = tethered(python::venv());
    python.args(["-c", &program, &json!(asked).to_string()]).stderr(Stdio::inherit());
    let output = python.output().expect("the interpreter starts");

    let answers: Vec<Vec<u16>> = serde_json::from_slice(&output.stdout).expect("the program answers");
    let expected: Vec<Vec<u16>> = vectors.into_iter().map(|vector| vector.drawn).collect();
    assert_eq!(answers, expected);
}
