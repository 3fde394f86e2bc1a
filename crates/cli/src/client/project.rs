//! `sukkal project`: lists projects.

use clap::Subcommand;

use super::arguments::limit;
use super::error::Error;
use super::http::Service;
use super::output::{Output, count, inline};
use super::pages::Pages;
use super::table::{Align, Column};

const COLUMNS: [Column; 2] = [
    ("PROJECT", Align::Left, |project| inline(&project["id"], true).into()),
    ("QUEUES", Align::Right, |project| count(&project["queues"]).into()),
];

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the projects that have queues
    ///
    /// The service must run with `admin_mode`. The command sends the role `admin` in X-Roles. A
    /// proxy that authenticates callers replaces this header with the roles of the caller.
    #[command(alias = "list")]
    Ls {
        /// Maximum number of projects
        #[arg(long, value_name = "N", value_parser = limit)]
        limit: Option<u64>,
    },
}

pub(super) async fn run(command: &Command, service: &Service, output: &mut Output) -> Result<(), Error> {
    let Command::Ls { limit } = command;
    Pages::new(service, "projects", "/v2/projects".to_owned(), *limit).print(&COLUMNS, output).await
}
