//! `sukkal pool`: lists, creates, changes, shows and deletes pools, the stores that keep queues.

use std::io;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::arguments::{document, key_and_value, limit, object, segment};
use super::error::Error;
use super::http::{Service, encode};
use super::output::{Output, count, inline, printable};
use super::pages::Pages;
use super::table::{Align, Column, Table};
use sukkal_base::text;
use sukkal_domain::warning::nearest;

const PATH: &str = "/v2/pools";
const NOTHING_TO_CHANGE: &str = "there is nothing to change; name --uri, --uri-stdin, --weight, --flavor or KEY=VALUE";
/// The beginning of the warning that a pool keeps its queues.
const RETIRED: &str = "the pool may have queues";

const COLUMNS: [Column; 4] = [
    ("NAME", Align::Left, |pool| inline(&pool["name"], true).into()),
    ("WEIGHT", Align::Right, |pool| count(&pool["weight"]).into()),
    ("FLAVOR", Align::Left, |pool| inline(&pool["flavor"], true).into()),
    ("URI", Align::Left, |pool| inline(&pool["uri"], true).into()),
];

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the pools
    #[command(alias = "list")]
    Ls {
        /// Maximum number of pools
        #[arg(long, value_name = "N", value_parser = limit)]
        limit: Option<u64>,
    },
    /// Shows a pool, without the user and the password of its URI
    Show {
        #[arg(value_parser = segment)]
        pool: String,
    },
    /// Creates a pool, or replaces the one with this name
    Put {
        #[arg(value_parser = segment)]
        pool: String,
        #[command(flatten)]
        address: Address,
        /// How often the pool is chosen for a new queue, relative to the others; 0 is never
        #[arg(long, value_name = "N")]
        weight: u32,
        /// Flavor of the pool
        #[arg(long, value_name = "NAME")]
        flavor: Option<String>,
        #[command(flatten)]
        notes: Notes,
    },
    /// Changes the weight, the flavor, the notes or the address of a pool
    Set {
        #[arg(value_parser = segment)]
        pool: String,
        #[command(flatten)]
        address: Address,
        /// How often the pool is chosen for a new queue, relative to the others; 0 is never
        #[arg(long, value_name = "N")]
        weight: Option<u32>,
        /// Flavor of the pool; an empty one removes it from its flavor
        #[arg(long, value_name = "NAME")]
        flavor: Option<String>,
        #[command(flatten)]
        notes: Notes,
    },
    /// Deletes pools
    ///
    /// A pool that has queues is retired instead: it gets no new ones, and keeps those that it has.
    /// The command then prints a warning.
    #[command(alias = "delete")]
    Rm {
        #[arg(required = true, value_name = "POOL", value_parser = segment)]
        pools: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub struct Address {
    /// Address, such as redis://10.0.0.5:6379
    ///
    /// Other users of this machine may see the options of a command, so prefer --uri-stdin if the
    /// address has a password.
    #[arg(long, value_name = "URI", conflicts_with = "uri_stdin")]
    uri: Option<String>,
    /// Read the address from stdin
    #[arg(long)]
    uri_stdin: bool,
}

#[derive(Args, Debug)]
pub struct Notes {
    /// Notes without an effect, such as `rack=b2`. They replace all earlier ones. A value that is
    /// not JSON is a string
    #[arg(value_name = "KEY=VALUE", value_parser = key_and_value)]
    notes: Vec<(String, Value)>,
}

pub(super) async fn run(command: &Command, service: &Service, output: &mut Output) -> Result<(), Error> {
    match command {
        Command::Ls { limit } => {
            Pages::new(service, "pools", format!("{PATH}?detailed=true"), *limit).print(&COLUMNS, output).await
        }
        Command::Show { pool } => show(pool, service, output).await,
        Command::Put { pool, address, weight, flavor, notes } => {
            let document = pool_document(address, Some(*weight), flavor.as_deref(), notes)?;
            service.request(Method::PUT, &path(pool)).json(&document).send().await?;
            output.done(&format!("stored pool {pool}"), &json!({ "name": pool, "stored": true }))
        }
        Command::Set { pool, address, weight, flavor, notes } => {
            let document = pool_document(address, *weight, flavor.as_deref(), notes)?;
            if document.as_object().is_none_or(Map::is_empty) {
                return Err(Error::Usage(NOTHING_TO_CHANGE.to_owned()));
            }
            let request = service.request(Method::PATCH, &path(pool)).json(&document).repeatable();
            let changed = request.send().await?.json()?;
            output.done(&format!("changed pool {pool}"), &changed)
        }
        Command::Rm { pools } => rm(pools, service, output).await,
    }
}

async fn show(pool: &str, service: &Service, output: &mut Output) -> Result<(), Error> {
    let pool = service.get(&format!("{}?detailed=true", path(pool))).await?;
    if output.is_json() {
        return output.document(&pool);
    }
    let mut table = Table::of_properties();
    for name in ["name", "uri", "weight", "flavor"] {
        table.property(name, inline(&pool[name], true));
    }
    for (key, value) in pool["options"].as_object().into_iter().flatten() {
        table.property(&printable(key), inline(value, false));
    }
    output.table(&table)
}

/// Returns the document with the values that are given.
fn pool_document(address: &Address, weight: Option<u32>, flavor: Option<&str>, notes: &Notes) -> Result<Value, Error> {
    let uri = if address.uri_stdin {
        Some(text::text_of(io::stdin()).map_err(Error::input)?.trim().to_owned())
    } else {
        address.uri.clone()
    };
    let notes = object(&notes.notes)?;
    let misplaced = |note: &String| Some((note.clone(), nearest(note, ["uri", "weight", "flavor"])?));
    if let Some((note, field)) = notes.keys().find_map(misplaced) {
        return Err(Error::Usage(format!("{note}=VALUE would be a note without an effect; use --{field}")));
    }
    let options = (!notes.is_empty()).then(|| notes.into());
    Ok(document([
        ("uri", uri.map(Value::from)),
        ("weight", weight.map(Value::from)),
        ("flavor", flavor.map(Value::from)),
        ("options", options),
    ]))
}

async fn rm(pools: &[String], service: &Service, output: &mut Output) -> Result<(), Error> {
    for pool in pools {
        let is_retired = service.delete(&path(pool)).await?.warns(RETIRED);
        let done = if is_retired { "retired" } else { "deleted" };
        output.done(&format!("{done} pool {pool}"), &json!({ "name": pool, done: true }))?;
    }
    Ok(())
}

fn path(pool: &str) -> String {
    format!("{PATH}/{}", encode(pool))
}
