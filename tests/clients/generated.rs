//! Typed clients generated from `openapi.yaml` compile and post messages, and linters find no
//! errors in it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::contract;
use crate::http::feed;
use support::redis::{RedisServer, child_command, spawn};
use support::sukkal::Sukkal;
use support::{node, python, root};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/generated");
const PROJECT: &str = "generated";

/// Runs a command that must succeed.
fn run(mut command: Command) {
    let shown = format!("{command:?}");
    let child = spawn({
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    });
    let output = child.expect("the program starts").wait_with_output().expect("the process can be waited for");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{shown}:\n{}{}", text(&output.stdout), text(&output.stderr));
}

/// Returns a command of the Node.js packages that runs in a folder below them.
fn node_command(packages: &Path, name: &str, folder: &Path) -> Command {
    let mut command = child_command(packages.join("node_modules/.bin").join(name));
    command.current_dir(folder).env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
    command
}

fn with<S: AsRef<OsStr>>(mut command: Command, arguments: impl IntoIterator<Item = S>) -> Command {
    command.args(arguments);
    command
}

#[test]
fn redocly_finds_no_errors_in_the_contract() {
    let folder = tempfile::tempdir().unwrap();

    run(with(node_command(&node::packages(), "redocly", folder.path()), ["lint", contract::PATH]));
}

#[test]
fn spectral_finds_no_errors_in_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), "extends: ['spectral:oas']\n").unwrap();
    let spectral = node_command(&node::packages(), "spectral", folder.path());

    run(with(spectral, ["lint", "--ruleset", "rules.yaml", contract::PATH]));
}

#[test]
fn the_guide_installs_the_tested_versions() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let packages: Value = serde_json::from_str(&read("tests/clients/generated/package.json")).unwrap();
    let (guide, requirements) = (read("docs/clients.md"), read("tests/requirements.txt"));
    let python = requirements.lines().find(|line| line.starts_with("openapi-python-client==")).unwrap().to_owned();
    let node = ["openapi-fetch", "openapi-typescript", "typescript"]
        .map(|name| format!("{name}@{}", packages["devDependencies"][name].as_str().unwrap()));

    for installed in node.into_iter().chain([python]) {
        assert!(guide.contains(&installed), "docs/clients.md does not install {installed}");
    }
}

#[tokio::test]
async fn a_generated_typescript_client_compiles_and_posts_a_message() {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start(&redis.url());
    let packages = node::packages();
    // The folder is below the packages, so that the client can import them.
    let folder = tempfile::tempdir_in(&packages).unwrap();
    let command = |name| node_command(&packages, name, folder.path());
    fs::copy(format!("{FOLDER}/post.ts"), folder.path().join("post.ts")).unwrap();

    run(with(command("openapi-typescript"), [contract::PATH, "--default-non-nullable=false", "--output", "api.ts"]));
    // The declarations of the libraries do not depend on the contract.
    let options = ["--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext"];
    run(with(with(command("tsc"), options), ["post.ts"]));
    let node = child_command("node");
    run(with(node, [folder.path().join("post.js").to_str().unwrap(), &sukkal.url(""), PROJECT]));

    assert_eq!(feed(&sukkal.project(PROJECT), "typescript", "").await, [json!({ "typed": "yes" })]);
}

#[tokio::test]
async fn a_generated_python_client_passes_mypy_and_posts_a_message() {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start(&redis.url());
    let python = python::venv();
    let folder = tempfile::tempdir().unwrap();
    let command = |module: &str| {
        let mut command = child_command(&python);
        command.args(["-m", module]).current_dir(folder.path());
        command
    };
    fs::copy(format!("{FOLDER}/post.py"), folder.path().join("post.py")).unwrap();

    let config = format!("{FOLDER}/openapi-python-client.yaml");
    let generate = ["generate", "--path", contract::PATH, "--output-path", "sukkal_client", "--meta", "none"];
    let generate = with(command("openapi_python_client"), generate);
    run(with(generate, ["--config", &config, "--fail-on-warning"]));
    // It keeps the results for the libraries, and for files with the same content as in an earlier
    // run.
    let mypy = with(command("mypy"), ["--strict", "--cache-dir"]);
    run(with(with(mypy, [root().join("target/python-tests/mypy")]), ["sukkal_client", "post.py"]));
    run(with(command("post"), [&sukkal.url(""), PROJECT]));

    assert_eq!(feed(&sukkal.project(PROJECT), "python", "").await, [json!({ "typed": "yes" })]);
}
