//! `sukkal flavor`: lists, creates, shows and deletes flavors, named sets of pools.

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use super::arguments::{limit, segment};
use super::error::Error;
use super::http::{Service, encode};
use super::output::{Output, inline};
use super::pages::Pages;
use super::table::{Align, Table};

const PATH: &str = "/v2/flavors";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the flavors of the project, with their pools
    Ls {
        /// Maximum number of flavors
        #[arg(long, value_name = "N", value_parser = limit)]
        limit: Option<u64>,
    },
    /// Shows a flavor with its pools
    Show {
        #[arg(value_parser = segment)]
        flavor: String,
    },
    /// Creates a flavor of the project that has exactly these pools, or replaces its pools
    Put {
        #[arg(value_parser = segment)]
        flavor: String,
        #[arg(required = true, value_name = "POOL")]
        pools: Vec<String>,
    },
    /// Deletes flavors. Their pools and queues remain
    Rm {
        #[arg(required = true, value_name = "FLAVOR", value_parser = segment)]
        flavors: Vec<String>,
    },
}

pub(super) async fn run(command: &Command, service: &Service, output: &mut Output) -> Result<(), Error> {
    match command {
        Command::Ls { limit } => ls(*limit, service, output).await,
        Command::Show { flavor } => show(flavor, service, output).await,
        Command::Put { flavor, pools } => {
            let request = service.request(Method::PUT, &path(flavor)).json(&json!({ "pool_list": pools }));
            request.send().await?;
            output.done(&format!("stored flavor {flavor}"), &json!({ "name": flavor, "stored": true }))
        }
        Command::Rm { flavors } => rm(flavors, service, output).await,
    }
}

async fn ls(limit: Option<u64>, service: &Service, output: &mut Output) -> Result<(), Error> {
    let mut table = Table::new(&[("NAME", Align::Left), ("POOLS", Align::Left)]);
    let mut pages = Pages::new(service, "flavors", PATH.to_owned(), limit);
    while let Some(flavors) = pages.next().await? {
        for flavor in flavors {
            if output.is_json() {
                output.document(&flavor)?;
            } else {
                table.row([inline(&flavor["name"], true).into(), pools(&flavor).into()]);
            }
        }
    }
    output.table(&table)
}

async fn show(flavor: &str, service: &Service, output: &mut Output) -> Result<(), Error> {
    let flavor = service.get(&path(flavor)).await?;
    if output.is_json() {
        return output.document(&flavor);
    }
    let mut table = Table::of_properties();
    table.property("name", inline(&flavor["name"], true));
    table.property("pools", pools(&flavor));
    output.table(&table)
}

async fn rm(flavors: &[String], service: &Service, output: &mut Output) -> Result<(), Error> {
    for flavor in flavors {
        service.delete(&path(flavor)).await?;
        output.done(&format!("deleted flavor {flavor}"), &json!({ "name": flavor, "deleted": true }))?;
    }
    Ok(())
}

/// Returns the names of the pools of a flavor.
fn pools(flavor: &Value) -> String {
    let pools = flavor["pool_list"].as_array().into_iter().flatten();
    pools.map(|pool| inline(pool, true)).collect::<Vec<_>>().join(",")
}

fn path(flavor: &str) -> String {
    format!("{PATH}/{}", encode(flavor))
}
