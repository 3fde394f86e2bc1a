//! The language of what people read, as far as a test can check it: short lines, short sentences,
//! no private terms.

use std::fs;
use std::path::PathBuf;

use super::{files, root, sources};

const COLUMNS_MAX: usize = 100;
const SENTENCE_WORDS_MAX: usize = 30;

/// Names of the past that have no other meaning. Standard terms take their place.
const REPLACED_NAMES: [&str; 14] = [
    "grave",
    "WayBack",
    "way_back",
    "to_the_end",
    "couriers",
    "name_the_loss",
    "feel_the_pulse",
    "let_in",
    "People",
    "Desk",
    "Looks",
    "looked(",
    "draw_lots",
    "upkeep",
];

/// Documents for users and developers. The figures in documents that benchmarks write are in
/// tables.
fn documents() -> Vec<(PathBuf, String)> {
    let mut documents = files("docs", ".md");
    for name in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"] {
        documents.push((PathBuf::from(name), fs::read_to_string(root().join(name)).unwrap()));
    }
    documents
}

/// The lines of a Markdown text that are prose: no code, tables, headings or comments.
fn prose_of_markdown(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let start = line.trim_start();
        if start.starts_with("```") {
            is_code = !is_code;
            lines.push("");
            continue;
        }
        let is_other = is_code || start.starts_with('|') || start.starts_with('#') || start.starts_with("<!--");
        let is_indented_code = line.starts_with("    ") && lines.last().is_none_or(|last: &&str| last.is_empty());
        lines.push(if is_other || is_indented_code { "" } else { line });
    }
    lines
}

/// The texts of an `OpenAPI` document in YAML: its summaries and descriptions, whatever their
/// style.
fn prose_of_openapi(text: &str) -> Vec<Vec<&str>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().peekable();
    let mut texts = Vec::new();
    while let Some(line) = lines.next() {
        let key = line.trim_start().trim_start_matches("- ");
        let Some(first) = ["summary: ", "description: "].iter().find_map(|name| key.strip_prefix(name)) else {
            continue;
        };
        let mut prose = vec![first.trim_start_matches(['|', '>', '-'])];
        while let Some(more) = lines.next_if(|more| more.is_empty() || indent(more) > indent(line)) {
            prose.push(more.trim());
        }
        texts.push(prose);
    }
    texts
}

/// The sentences of a text. Items of a list and paragraphs end a sentence too.
fn sentences(lines: &[&str]) -> Vec<String> {
    let mut sentences = vec![String::new()];
    for line in lines {
        let text = line.trim_start();
        if text.is_empty() || text.starts_with("- ") || text.starts_with(|c: char| c.is_ascii_digit()) {
            sentences.push(String::new());
        }
        for word in text.trim_start_matches("- ").split_whitespace() {
            let sentence = sentences.last_mut().unwrap();
            sentence.push_str(word);
            sentence.push(' ');
            let word = word.trim_end_matches(['*', '_', ')', '"', '`']);
            if word.ends_with(['.', '?', '!', ':', ';']) {
                sentences.push(String::new());
            }
        }
    }
    sentences.retain(|sentence| !sentence.trim().is_empty());
    sentences
}

fn is_too_long(sentence: &str) -> bool {
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    sentence.split_whitespace().filter(is_word).count() > SENTENCE_WORDS_MAX
}

#[test]
fn lines_of_prose_have_at_most_100_columns() {
    let mut long = Vec::new();
    for (path, text) in documents() {
        let lines = prose_of_markdown(&text);
        // A link or a piece of code cannot be broken.
        let is_long = |line: &&&str| line.chars().count() > COLUMNS_MAX && line.trim().contains(' ');
        long.extend(lines.iter().filter(is_long).map(|line| format!("{}: {line}", path.display())));
    }

    assert!(long.is_empty(), "{} lines, the first: {:#?}", long.len(), &long[..long.len().min(10)]);
}

#[test]
fn comments_have_at_most_100_columns() {
    let mut long = Vec::new();
    for (path, text) in sources() {
        // Tables and lists with columns have lines of their own.
        let is_prose = |line: &&str| {
            let comment = line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']));
            comment.is_some_and(|comment| {
                !comment.starts_with("  ") && !comment.starts_with(" |") && comment.trim().contains(' ')
            })
        };
        let is_long = |line: &&str| line.chars().count() > COLUMNS_MAX;
        long.extend(text.lines().filter(is_prose).filter(is_long).map(|line| format!("{}: {line}", path.display())));
    }

    assert!(long.is_empty(), "{} lines, the first: {:#?}", long.len(), &long[..long.len().min(10)]);
}

#[test]
fn sentences_have_at_most_30_words() {
    let mut long = Vec::new();
    for (path, text) in documents() {
        let found = sentences(&prose_of_markdown(&text)).into_iter().filter(|sentence| is_too_long(sentence));
        long.extend(found.map(|sentence| format!("{}: {sentence}", path.display())));
    }
    for text in prose_of_openapi(&fs::read_to_string(root().join("openapi.yaml")).unwrap()) {
        let found = sentences(&text).into_iter().filter(|sentence| is_too_long(sentence));
        long.extend(found.map(|sentence| format!("openapi.yaml: {sentence}")));
    }

    assert!(long.is_empty(), "{} sentences, the first: {:#?}", long.len(), &long[..long.len().min(10)]);
}

#[test]
fn names_of_the_past_are_gone() {
    let here = file!();
    let mut found = Vec::new();
    for (path, text) in sources().into_iter().chain(files("scripts", ".lua")).chain(documents()) {
        for name in
            REPLACED_NAMES.iter().filter(|name| !here.ends_with(path.to_str().unwrap()) && text.contains(**name))
        {
            found.push(format!("{}: {name}", path.display()));
        }
    }

    assert!(found.is_empty(), "{found:#?}");
}
