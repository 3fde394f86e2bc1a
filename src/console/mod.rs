//! The console: pages in which operators see and manage queues, and the reference of the API. The
//! pages run in the browser and use nothing but the API. The files are compiled in.
//!
//! `assets/` has one module for each page, and the modules that the pages share. `docs/console.md`
//! describes them and the visual design.

mod page;
mod reference;

use std::sync::LazyLock;

pub use self::page::page;
pub use self::reference::reference;

/// A file of the console.
#[derive(Debug)]
pub struct Asset {
    /// The name, which is the last segment of its path.
    pub name: &'static str,
    /// The media type.
    pub media_type: &'static str,
    /// The contents, without the spaces and comments that browsers do not need.
    pub text: String,
    /// The entity tag, which changes with the contents.
    pub tag: String,
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        [$(Asset::new($name, include_str!(concat!("assets/", $name)))),*]
    };
}

static ASSETS: LazyLock<[Asset; 21]> = LazyLock::new(|| {
    assets![
        "console.css",
        "docs.css",
        "icon.svg",
        "main.js",
        "api.js",
        "attention.js",
        "chart.js",
        "claims.js",
        "dead_letters.js",
        "dom.js",
        "format.js",
        "json.js",
        "messages.js",
        "operators.js",
        "queue.js",
        "queues.js",
        "redrive.js",
        "sample.js",
        "session.js",
        "settings.js",
        "subscriptions.js",
    ]
});

/// Returns the file with this name.
#[must_use]
pub fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

impl Asset {
    fn new(name: &'static str, text: &str) -> Self {
        let (media_type, text) = match name.rsplit_once('.') {
            Some((_, "css")) => ("text/css; charset=utf-8", compact_style(text)),
            Some((_, "svg")) => ("image/svg+xml", text.to_owned()),
            _ => ("text/javascript; charset=utf-8", compact_script(text)),
        };
        Self { name, media_type, tag: tag(&text), text }
    }
}

/// The operators of scripts that are written without spaces. No text that users see has them.
const OPERATORS: [&str; 9] = ["=>", "===", "!==", "=", "&&", "||", "??", "?", ":"];

/// Returns a script without comments, indentation, most ends of lines, and spaces around operators
/// and before blocks, which are a fifth of what browsers would load. No string of the scripts has
/// more than one line.
fn compact_script(script: &str) -> String {
    let dense = |text: String, operator: &&str| text.replace(&format!(" {operator} "), operator);
    let script = OPERATORS.iter().fold(script.replace(") {", "){"), dense);
    let lines = script.lines().map(str::trim_start);
    let is_code = |line: &&str| !["//", "/*", "*"].iter().any(|comment| line.starts_with(comment));
    let is_open = |line: &str| line.ends_with(['{', '(', '[', ',', ';']);
    lines.filter(is_code).fold(String::with_capacity(script.len()), |mut text, line| {
        text.push_str(line);
        text.push_str(if is_open(line) { "" } else { "\n" });
        text
    })
}

/// Returns a style sheet without ends of lines and spaces that have no meaning.
fn compact_style(style: &str) -> String {
    let spaces = [("\n", ""), ("  ", ""), ("; ", ";"), (": ", ":"), (" {", "{"), ("{ ", "{"), (" }", "}"), (", ", ",")];
    spaces.iter().fold(style.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Returns the entity tag of a document.
#[must_use]
pub fn tag(text: &str) -> String {
    format!("\"{:016x}\"", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a browser loads at the first visit, without compression.
    const BYTES_MAX: usize = 100 * 1024;

    #[test]
    fn the_console_is_small() {
        let bytes = ASSETS.iter().filter(|asset| asset.name != "docs.css").map(|asset| asset.text.len()).sum::<usize>()
            + page().len();

        assert!(bytes <= BYTES_MAX, "{bytes} bytes");
    }

    /// The rules that keep texts of clients from running as scripts.
    #[test]
    fn the_scripts_make_no_markup_of_text() {
        for asset in ASSETS.iter() {
            for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!asset.text.contains(forbidden), "{} has {forbidden}", asset.name);
            }
        }
    }

    #[test]
    fn the_console_needs_no_other_server() {
        for asset in ASSETS.iter() {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "").replace("https://hooks.example.com", "");
            assert!(!text.contains("://") || asset.name == "session.js", "{} names another server", asset.name);
        }
    }
}
