//! `sukkal man`, `completions` and `config`: what a person or a shell can know about the command
//! line and the options without a service.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_complete::env::Shells;
use clap_mangen::Man;

use sukkal_cli::exit::{BAD_OPTION, FAILED, fail};

/// Name of the program.
const NAME: &str = "sukkal";
/// Variable with which a shell asks for completions. Its value is the name of the shell.
pub(super) const COMPLETION_VARIABLE: &str = "COMPLETE";

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Command whose page to print, such as `message post` [default: the page of sukkal]
    command: Vec<String>,
    /// Write the pages of all commands into this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Prints a page of the manual, or writes all of them.
pub(super) fn man(options: &Options, command: Command) -> ExitCode {
    match &options.dir {
        Some(folder) => finish(write_pages(command, folder)),
        None => print_page(&options.command, command),
    }
}

fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(without_help(command), folder)
}

/// Leaves out the commands `help`, which have nothing to explain.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn print_page(names: &[String], mut command: Command) -> ExitCode {
    command = without_help(command);
    command.build();
    let mut page = &command;
    for name in names {
        let Some(found) = page.find_subcommand(name) else {
            return fail(BAD_OPTION, &format!("there is no command {name}; `sukkal --help` lists the commands"));
        };
        page = found;
    }
    let mut text = Vec::new();
    let rendered = Man::new(page.clone()).source(concat!("Sukkal ", env!("CARGO_PKG_VERSION"))).render(&mut text);
    finish(rendered.and_then(|()| print(&text)))
}

/// Prints a script that lets a shell ask this program for completions.
pub(super) fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&shell.to_string()) else {
        return fail(BAD_OPTION, "this shell has no completions");
    };
    let written = shell.write_registration(COMPLETION_VARIABLE, NAME, NAME, NAME, &mut script);
    finish(written.and_then(|()| print(&script)))
}

/// Prints a text that does not depend on anything.
pub(super) fn text(text: &str) -> ExitCode {
    finish(print(text.as_bytes()))
}

fn print(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

fn finish(outcome: io::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader, such as `head`, has all that it wants.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(FAILED, &error.to_string()),
    }
}
