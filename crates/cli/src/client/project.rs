//! `sukkal project`: lists projects.

use clap::Subcommand;

use super::arguments::limit;
use super::error::Error;
use super::http::Service;
use super::output::{Output, count, inline};
use super::pages::Pages;
use super::table::{Align, Table};

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
    let mut table = Table::new(&[("PROJECT", Align::Left), ("QUEUES", Align::Right)]);
    let mut pages = Pages::new(service, "projects", "/v2/projects".to_owned(), *limit);
    while let Some(projects) = pages.next().await? {
        for project in projects {
            if output.is_json() {
                output.document(&project)?;
            } else {
                table.row([inline(&project["id"], true).into(), count(&project["queues"]).into()]);
            }
        }
    }
    output.table(&table)
}
