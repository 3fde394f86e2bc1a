//! The example of `docs/pools.md` does what the page says.

use std::fs;

use super::Deployment;
use support::redis::child_command;

#[test]
fn the_example_of_the_guide_creates_queues_in_the_pools_that_it_names() {
    let deployment = Deployment::embedded(2);
    let server = deployment.serve();
    let page = fs::read_to_string(support::root().join("docs/pools.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("Try it\n")).unwrap();
    let blocks: Vec<&str> = section.split("```").skip(1).step_by(2).collect();
    let [_start, pools, queues, shown] = blocks[..] else { panic!("not four blocks: {blocks:?}") };
    let commands = |block: &str| block.strip_prefix("sh\n").unwrap().to_owned();

    let script = format!("set -euo pipefail\n{}{}", commands(pools), commands(queues))
        .replace("http://127.0.0.1:8888", &server.url(""))
        .replace("6380", &deployment.pools[0].port().to_string())
        .replace("6381", &deployment.pools[1].port().to_string());
    let output = child_command("bash").args(["-c", &script]).output().unwrap();

    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), shown.strip_prefix("text\n").unwrap());
}
