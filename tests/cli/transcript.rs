//! Transcripts: commands with the output that they must have, run in one session of bash.
//!
//! A line that begins with `$ ` is a command, and lines that begin with `> ` continue it. The lines
//! up to the next command are its output, on stdout and stderr, and `[exit N]` if it fails. Other
//! text is not run: paragraphs that begin with `#`, and in Markdown everything outside of `console`
//! blocks.
//!
//! Ids, times and ports differ from run to run. Ids are therefore numbered in the order in which
//! they occur, and times are replaced. The width of a gap between columns does not count.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use support::redis::child_command;
use support::sukkal::{Sukkal, binary};

/// The address in transcripts, which stands for that of the service under test.
const ADDRESS: &str = "127.0.0.1:8888";
/// They surround the output of each command, so they must not occur in it.
const START: char = '\u{1}';
const END: char = '\u{2}';

/// A command, and the output that it must have.
#[derive(Debug)]
struct Step {
    command: String,
    output: String,
}

/// Runs the commands of a file against a service, and compares their output.
pub(super) fn check(path: &str, sukkal: &Sukkal) {
    check_with(path, sukkal, &[]);
}

/// The same with these variables, whose names with a `$` stand for their values in the output.
pub(super) fn check_with(path: &str, sukkal: &Sukkal, variables: &[(&str, &str)]) {
    let text = fs::read_to_string(support::root().join(path)).unwrap();
    let steps = if Path::new(path).extension().is_some_and(|extension| extension == "md") {
        parse(&console_blocks(&text))
    } else {
        parse(&text)
    };
    assert!(!steps.is_empty(), "{path} has no commands");
    let outputs = run(&steps, sukkal, variables);
    assert_eq!(outputs.len(), steps.len(), "the session of {path} has ended early: {outputs:#?}");

    let (mut expected_ids, mut actual_ids) = (Ids::default(), Ids::default());
    let transcript = |step: &Step, output: &str| format!("$ {}\n{output}\n", step.command.replace('\n', "\n> "));
    let mut differences = String::new();
    for (step, output) in steps.iter().zip(&outputs) {
        let expected = transcript(step, &expected_ids.normalize(&step.output));
        let named = |text: String, (name, value): &(&str, &str)| text.replace(value, &format!("${name}"));
        let output = variables.iter().fold(output.replace(sukkal.address(), ADDRESS), named);
        let actual = transcript(step, &actual_ids.normalize(&output));
        if expected != actual {
            write!(differences, "--- expected\n{expected}--- actual\n{actual}").unwrap();
        }
    }
    assert!(differences.is_empty(), "{path}\n{differences}");
}

/// Joins the `console` blocks of a Markdown text.
fn console_blocks(text: &str) -> String {
    let blocks = text.split("```console\n").skip(1);
    blocks.filter_map(|block| Some(block.split_once("```")?.0)).collect()
}

fn parse(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_comment = true;
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), output: String::new() });
            is_comment = false;
        } else if line.starts_with("# ") {
            is_comment = true;
        } else if let (Some(step), false) = (steps.last_mut(), is_comment) {
            match line.strip_prefix("> ") {
                Some(more) if step.output.is_empty() => write!(step.command, "\n{more}").unwrap(),
                _ => writeln!(step.output, "{line}").unwrap(),
            }
        }
    }
    for step in &mut steps {
        step.output.truncate(step.output.trim_end().len());
    }
    steps
}

/// Runs the commands in one session with a home of its own, which is `~` in their output, and with
/// these variables. Returns the output of each.
fn run(steps: &[Step], sukkal: &Sukkal, variables: &[(&str, &str)]) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let mut script = "exec 2>&1\n".to_owned();
    for Step { command, .. } in steps {
        let command = command.replace(ADDRESS, sukkal.address());
        writeln!(script, "printf '{START}'\n{{ {command}\n}}").unwrap();
        writeln!(script, "code=$?; [ $code = 0 ] || echo \"[exit $code]\"; printf '{END}'").unwrap();
    }
    let folder = binary().parent().unwrap().to_str().unwrap();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut bash = child_command("bash");
    bash.args(["--norc", "--noprofile", "-c", &script]).current_dir(&home).stdin(Stdio::null());
    bash.env("HOME", home.path()).env("PATH", path).env("SUKKAL_URL", sukkal.url("")).env("LC_ALL", "C.UTF-8");
    bash.env_remove("XDG_CONFIG_HOME").envs(variables.iter().copied());
    let output = bash.output().expect("bash is installed");
    let text = String::from_utf8(output.stdout).expect("the output is text");
    let text = text.replace(home.path().to_str().unwrap(), "~");
    let outputs = text.split(START).skip(1).filter_map(|rest| Some(rest.split_once(END)?.0.trim_end().to_owned()));
    outputs.collect()
}

/// The ids of a transcript by their text, numbered in the order in which they occur.
#[derive(Default)]
struct Ids(HashMap<String, usize>);

impl Ids {
    /// Replaces what differs from run to run.
    fn normalize(&mut self, text: &str) -> String {
        let mut normal = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let is_start = !normal.ends_with(|c: char| c.is_ascii_alphanumeric());
            let word_length =
                rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-.:".contains(c)).unwrap_or(rest.len());
            let word = rest[..word_length].trim_end_matches(':');
            let word_length = word.len();
            if is_start && is_uuid(word) {
                let number = self.0.len() + 1;
                write!(normal, "<{}>", self.0.entry(word.to_owned()).or_insert(number)).unwrap();
                rest = &rest[word_length..];
            } else if is_start && is_time(word, &normal, &rest[word_length..]) {
                normal += "<time>";
                rest = &rest[word_length..];
            } else if rest.starts_with("  ") {
                normal += "  ";
                rest = rest.trim_start_matches(' ');
            } else {
                normal.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        normal
    }
}

fn is_uuid(word: &str) -> bool {
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// Whether a word is a duration such as `59m`, a time, a fence, or a number of seconds or
/// milliseconds.
fn is_time(word: &str, before: &str, after: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let is_duration = word.strip_suffix(['s', 'm', 'h', 'd']).is_some_and(is_number);
    let is_date = word.len() >= 10 && word.starts_with("20") && word.get(4..5) == Some("-");
    let is_fence = word.len() >= 16 && is_number(word);
    let is_named = ["\"age\":", "\"oldest_age\":", "\"milliseconds\":"].iter().any(|name| before.ends_with(name));
    is_duration || is_date || is_fence || (is_number(word) && (is_named || after.starts_with(" ms")))
}
