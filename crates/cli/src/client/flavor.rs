//! `sukkal flavor`: lists, creates, shows and deletes flavors, named sets of pools.

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use super::arguments::{limit, segment};
use super::error::Error;
use super::http::{Service, encode};
use super::output::{Output, inline};
use super::pages::Pages;
use super::table::{Align, Column};

const PATH: &str = "/v2/flavors";

const COLUMNS: [Column; 2] = [
    ("NAME", Align::Left, |flavor| inline(&flavor["name"], true).into()),
    ("POOLS", Align::Left, |flavor| pools(flavor).into()),
];

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
        Command::Ls { limit } => Pages::new(service, "flavors", PATH.to_owned(), *limit).print(&COLUMNS, output).await,
        Command::Show { flavor } => output.item(&COLUMNS, &service.get(&path(flavor)).await?),
        Command::Put { flavor, pools } => {
            let request = service.request(Method::PUT, &path(flavor)).json(&json!({ "pool_list": pools }));
            request.send().await?;
            output.done(&format!("stored flavor {flavor}"), &json!({ "name": flavor, "stored": true }))
        }
        Command::Rm { flavors } => rm(flavors, service, output).await,
    }
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
