//! `sukkal quota`: shows how much a project uses, and sets and removes its limits.

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::arguments::{key_and_value, object};
use super::error::Error;
use super::http::Service;
use super::output::{Output, count, inline, listed, printable, removed_keys};
use super::table::{Align, Table};

const PATH: &str = "/v2/quotas";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shows how much the project uses of each quota, and the limits in force
    Show,
    /// Replaces the limits that were set for the project
    ///
    /// Quotas that are not named have the limits of the configuration, and the output names those
    /// whose limits were removed. The service must run with `admin_mode`. The command sends the
    /// role `admin` in X-Roles, like `rm`.
    Set {
        /// Limits, such as `queues=1000`; 0 is no limit
        #[arg(required = true, value_name = "QUOTA=LIMIT", value_parser = key_and_value)]
        limits: Vec<(String, Value)>,
    },
    /// Removes the limits that were set for the project, so that those of the configuration apply
    Rm,
}

pub(super) async fn run(command: &Command, service: &Service, output: &mut Output) -> Result<(), Error> {
    match command {
        Command::Show => show(service, output).await,
        Command::Set { limits } => {
            let limits = object(limits)?;
            let before = service.find(PATH).await;
            let changed = service.request(Method::PUT, PATH).json(&limits.into()).send().await?.json()?;
            let removed = listed("; removed: ", &removed_keys(&before["quotas"], &changed["quotas"]));
            output.done(&format!("changed the quotas of {}{removed}", project(&changed)), &changed)
        }
        Command::Rm => {
            let before = service.find(PATH).await;
            service.request(Method::DELETE, PATH).send().await?;
            let is_unset = before["quotas"].as_object().is_some_and(Map::is_empty);
            let sentence = if is_unset {
                format!("no quotas were set for {}", project(&before))
            } else {
                format!("removed the quotas of {}", project(&before))
            };
            output.done(&sentence, &json!({ "project": before["project"], "removed": !is_unset }))
        }
    }
}

/// Returns how a sentence names the project of a document.
fn project(quotas: &Value) -> String {
    match &quotas["project"] {
        Value::Null => "the project".to_owned(),
        project => format!("project {}", inline(project, true)),
    }
}

async fn show(service: &Service, output: &mut Output) -> Result<(), Error> {
    let found = service.get("/v2/usage").await?;
    if output.is_json() {
        return output.document(&found);
    }
    let mut table = Table::new(&[("QUOTA", Align::Left), ("USED", Align::Right), ("LIMIT", Align::Right)]);
    for (name, limit) in found["limits"].as_object().into_iter().flatten() {
        // 0 is no limit.
        let limit = if *limit == json!(0) { "none".to_owned() } else { count(limit) };
        table.row([printable(name).into(), count(&found["usage"][name]).into(), limit.into()]);
    }
    output.table(&table)
}
