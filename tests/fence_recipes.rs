//! The recipes for fencing tokens in `docs/workers-and-claims.md`: they store the results of later
//! claims, and refuse those of earlier ones.

use std::fs;
use std::process::Stdio;

use serde_json::json;

use support::python;
use support::redis::child_command;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/workers-and-claims.md");

/// Runs each statement on an empty table and on one with a result. `SQLite` has the same syntax.
const STATEMENTS: &str = r#"
import json, sqlite3, sys

insert, update = json.loads(sys.argv[1])
table = sqlite3.connect(":memory:")
table.execute("CREATE TABLE results (id TEXT PRIMARY KEY, total INTEGER NOT NULL, fence INTEGER NOT NULL)")
changed = lambda statement, total, fence: table.execute(statement, {"1": "a", "2": total, "3": fence}).rowcount
for statement, total, fence, rows in [
    (update, 0, 9, 0), (insert, 1, 5, 1), (insert, 2, 5, 1), (insert, 3, 4, 0), (update, 4, 4, 0),
    (update, 5, 5, 1), (update, 6, 6, 1), (insert, 7, 7, 1), (insert, 8, 6, 0), (update, 9, 6, 0),
]:
    assert changed(statement, total, fence) == rows, (total, fence)
assert table.execute("SELECT * FROM results").fetchall() == [("a", 7, 7)]
"#;

/// Runs the function with a bucket in memory. `meanwhile` is called between its reads and writes.
const BUCKET: &str = r#"
import hashlib, io

class Refused(Exception):
    response = {"ResponseMetadata": {"HTTPStatusCode": 412}}

class Missing(Exception):
    pass

class Bucket:
    class exceptions:
        ClientError, NoSuchKey = Refused, Missing

    def __init__(self):
        self.body, self.meanwhile = None, []

    def etag(self):
        return self.body and hashlib.md5(self.body.encode()).hexdigest()

    def get_object(self, Bucket, Key):
        if self.body is None:
            raise Missing
        return {"Body": io.StringIO(self.body), "ETag": self.etag()}

    def put_object(self, Bucket, Key, Body, IfMatch=None, IfNoneMatch=None):
        if self.meanwhile:
            self.meanwhile.pop()()
        if self.etag() != IfMatch or (IfNoneMatch == "*") != (self.body is None):
            raise Refused
        self.body = Body

s3 = Bucket()
stored = lambda: (json.loads(s3.body)["result"], json.loads(s3.body)["fence"])
put = lambda result, fence: write(s3, "bucket", "key", result, fence)
assert put("a", 5) and put("b", 5) and not put("c", 4) and stored() == ("b", 5)
assert put("d", 6) and not put("e", 5) and stored() == ("d", 6)
# A later claim writes the same result between the read and the write of an earlier claim.
s3.meanwhile = [lambda: put("d", 8)]
assert not put("f", 7) and stored() == ("d", 8)
s3.meanwhile = [lambda: put("g", 9)]
assert put("h", 10) and stored() == ("h", 10)
s3.body, s3.meanwhile = None, [lambda: put("i", 2)]
assert not put("j", 1) and stored() == ("i", 2)
"#;

/// Returns the code blocks of the recipes in this language.
fn code_blocks(language: &str) -> Vec<String> {
    let (document, beginning) = (fs::read_to_string(PATH).expect("the guide can be read"), format!("```{language}\n"));
    let (_, recipes) = document.split_once("### Fencing tokens\n").expect("the guide has the recipes");
    let (recipes, _) = recipes.split_once("\n## ").expect("another section follows");
    let blocks = recipes.split(&beginning).skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

fn run(program: &str, argument: &str) {
    let mut python = child_command(python::venv());
    python.args(["-c", program, argument]).stderr(Stdio::inherit());
    assert!(python.output().expect("the interpreter starts").status.success());
}

#[test]
fn the_documented_statements_refuse_lower_fences() {
    run(STATEMENTS, &json!(code_blocks("sql")).to_string());
}

#[test]
fn the_documented_conditional_writes_refuse_lower_fences() {
    let function = code_blocks("python").concat();

    run(&format!("import json\n{function}\n{BUCKET}"), "");
}
