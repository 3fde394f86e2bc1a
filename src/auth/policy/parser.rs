//! The language of rules: that of oslo.policy without references and without targets.
//!
//! ```text
//! rule   = "" | any
//! any    = all { "or" all }
//! all    = single { "and" single }
//! single = "not" single | "(" any ")" | "@" | "!" | "role:" NAME | "project:" ID
//! ```

use thiserror::Error;

use super::check::Check;
use sukkal_domain::ProjectId;

/// Maximum length of a rule, in characters.
const RULE_CHARS_MAX: usize = 1000;
/// Maximum number of parentheses and `not`s around a check.
const LEVELS_MAX: usize = 20;

/// The reason why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {problem}")]
pub struct InvalidRule {
    /// The position of the mistake, in characters, from 1.
    column: usize,
    problem: Problem,
}

impl InvalidRule {
    /// Returns the same mistake in a text that has this number of characters before the rule.
    pub(super) fn after(self, chars: usize) -> Self {
        Self { column: self.column + chars, ..self }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum Problem {
    #[error("the rule has more than {RULE_CHARS_MAX} characters")]
    TooLong,
    #[error("more than {LEVELS_MAX} levels of parentheses and \"not\"")]
    TooDeep,
    #[error("\"(\" is not closed")]
    Unclosed,
    #[error("{0} is not a check; {CHECKS}")]
    NoCheck(String),
    #[error("{0} must be \"and\" or \"or\"")]
    NoOperator(String),
    #[error("\")\" has no \"(\"")]
    Unopened,
}

const CHECKS: &str = "write role:NAME, project:ID, @ (everybody), ! (nobody), or \"not\" or \"(\" before one";

/// Parses a rule. An empty one allows everybody.
pub(super) fn parse(text: &str) -> Result<Check, InvalidRule> {
    if text.chars().nth(RULE_CHARS_MAX).is_some() {
        return Err(InvalidRule { column: RULE_CHARS_MAX + 1, problem: Problem::TooLong });
    }
    let mut parser = Parser { words: words(text), next: 0, end: text.chars().count() + 1 };
    if parser.words.is_empty() {
        return Ok(Check::Everybody);
    }
    let check = parser.any(0)?;
    match parser.peek() {
        None => Ok(check),
        Some(")") => Err(parser.error(Problem::Unopened)),
        Some(_) => Err(parser.error(Problem::NoOperator(parser.found()))),
    }
}

/// A word with its column.
type Word<'t> = (usize, &'t str);

/// Splits a text at whitespace, and before and after parentheses.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut start = None;
    for (column, (at, c)) in (1..).zip(text.char_indices()) {
        let is_parenthesis = c == '(' || c == ')';
        if is_parenthesis || c.is_whitespace() {
            words.extend(start.take().map(|(column, from)| (column, &text[from..at])));
            if is_parenthesis {
                words.push((column, &text[at..=at]));
            }
        } else {
            start.get_or_insert((column, at));
        }
    }
    words.extend(start.map(|(column, from)| (column, &text[from..])));
    words
}

struct Parser<'t> {
    words: Vec<Word<'t>>,
    next: usize,
    /// The column after the last one.
    end: usize,
}

impl<'t> Parser<'t> {
    fn any(&mut self, level: usize) -> Result<Check, InvalidRule> {
        let mut checks = vec![self.all(level)?];
        while self.skip("or") {
            checks.push(self.all(level)?);
        }
        Ok(if checks.len() == 1 { checks.remove(0) } else { Check::Any(checks) })
    }

    fn all(&mut self, level: usize) -> Result<Check, InvalidRule> {
        let mut checks = vec![self.single(level)?];
        while self.skip("and") {
            checks.push(self.single(level)?);
        }
        Ok(if checks.len() == 1 { checks.remove(0) } else { Check::All(checks) })
    }

    fn single(&mut self, level: usize) -> Result<Check, InvalidRule> {
        if level > LEVELS_MAX {
            self.next -= 1;
            return Err(self.error(Problem::TooDeep));
        }
        if self.skip("not") {
            return Ok(Check::Not(Box::new(self.single(level + 1)?)));
        }
        let opening = self.next;
        if self.skip("(") {
            let check = self.any(level + 1)?;
            return match self.peek() {
                Some(")") => {
                    self.next += 1;
                    Ok(check)
                }
                Some(_) => Err(self.error(Problem::NoOperator(self.found()))),
                None => {
                    self.next = opening;
                    Err(self.error(Problem::Unclosed))
                }
            };
        }
        let check = self.peek().and_then(check_of).ok_or_else(|| self.error(Problem::NoCheck(self.found())))?;
        self.next += 1;
        Ok(check)
    }

    fn peek(&self) -> Option<&'t str> {
        self.words.get(self.next).map(|(_, word)| *word)
    }

    /// Moves past the next word if it is this one, in upper or lower case.
    fn skip(&mut self, word: &str) -> bool {
        let is_next = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.next += usize::from(is_next);
        is_next
    }

    /// Describes the next word, or the end.
    fn found(&self) -> String {
        self.peek().map_or("the end of the rule".to_owned(), |word| format!("{word:?}"))
    }

    /// Returns an error at the next word.
    fn error(&self, problem: Problem) -> InvalidRule {
        InvalidRule { column: self.words.get(self.next).map_or(self.end, |(column, _)| *column), problem }
    }
}

/// Returns the check that a word is.
fn check_of(word: &str) -> Option<Check> {
    match word {
        "@" => Some(Check::Everybody),
        "!" => Some(Check::Nobody),
        _ => match word.split_once(':')? {
            // No client has a role with a comma, which separates roles.
            ("role", role) if !role.is_empty() && !role.contains(',') => Some(Check::Role(role.into())),
            ("project", project) => ProjectId::new(project).map(Check::Project),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn role(name: &str) -> Check {
        Check::Role(name.into())
    }

    fn not(check: Check) -> Check {
        Check::Not(Box::new(check))
    }

    #[test]
    fn not_binds_more_tightly_than_and_and_and_more_tightly_than_or() {
        let project = || Check::Project(ProjectId::new("p:1").unwrap());
        let (a, b, c) = (|| role("a"), || role("b"), || role("c"));
        for (text, check) in [
            ("", Check::Everybody),
            (" \t\n", Check::Everybody),
            ("@", Check::Everybody),
            ("!", Check::Nobody),
            ("role:a", a()),
            ("project:p:1", project()),
            ("role:a or role:b and role:c", Check::Any(vec![a(), Check::All(vec![b(), c()])])),
            ("role:a and role:b or role:c", Check::Any(vec![Check::All(vec![a(), b()]), c()])),
            ("(role:a or role:b)and role:c", Check::All(vec![Check::Any(vec![a(), b()]), c()])),
            ("role:a OR role:b oR role:c", Check::Any(vec![a(), b(), c()])),
            ("not role:a and role:b", Check::All(vec![not(a()), b()])),
            ("NOT not(role:a and ( project:p:1 ))", not(not(Check::All(vec![a(), project()])))),
            ("((role:a))", a()),
            ("not !", not(Check::Nobody)),
        ] {
            assert_eq!(parse(text), Ok(check), "{text}");
        }
    }

    #[test]
    fn a_mistake_is_reported_with_its_column_and_with_what_is_accepted() {
        for (text, expected) in [
            ("roel:a", "column 1: \"roel:a\" is not a check"),
            ("  user", "column 3: \"user\" is not a check"),
            ("!role:a", "column 1: \"!role:a\" is not a check"),
            ("role:", "column 1: \"role:\" is not a check"),
            ("project:", "column 1: \"project:\" is not a check"),
            ("role:a, role:b", "column 1: \"role:a,\" is not a check"),
            ("''", "column 1: \"''\" is not a check"),
            ("rule:context_is_admin", "column 1: \"rule:context_is_admin\" is not a check"),
            ("role:é adn role:b", "column 8: \"adn\" must be \"and\" or \"or\""),
            ("role:a role:b", "column 8: \"role:b\" must be \"and\" or \"or\""),
            ("role:a not role:b", "column 8: \"not\" must be \"and\" or \"or\""),
            ("role:a and", "column 11: the end of the rule is not a check"),
            ("role:a and or role:b", "column 12: \"or\" is not a check"),
            ("and", "column 1: \"and\" is not a check"),
            ("not", "column 4: the end of the rule is not a check"),
            ("()", "column 2: \")\" is not a check"),
            ("role:a and (role:b or role:c", "column 12: \"(\" is not closed"),
            ("((role:a)", "column 1: \"(\" is not closed"),
            ("(role:a role:b)", "column 9: \"role:b\" must be \"and\" or \"or\""),
            ("role:a)", "column 7: \")\" has no \"(\""),
            (")", "column 1: \")\" is not a check"),
            ("role:%(user)s", "column 7: \"(\" must be \"and\" or \"or\""),
        ] {
            let error = parse(text).unwrap_err().to_string();

            assert!(error.starts_with(expected), "{text}: {error}");
            assert!(error.contains("and") || error.contains("role:NAME") || error.contains('('), "{text}: {error}");
        }
        let error = parse("user:me").unwrap_err().to_string();
        assert_eq!(error, format!("column 1: \"user:me\" is not a check; {CHECKS}"));
    }

    #[test]
    fn deep_and_long_rules_are_refused() {
        let nested = |levels: usize| format!("{}role:a{}", "(".repeat(levels), ")".repeat(levels));
        let negated = |levels: usize| format!("{}role:a", "not ".repeat(levels));

        assert_eq!(parse(&nested(LEVELS_MAX)), Ok(role("a")));
        assert!(parse(&negated(LEVELS_MAX)).is_ok());
        for (text, column) in [
            (nested(LEVELS_MAX + 1), LEVELS_MAX + 1),
            ("(".repeat(RULE_CHARS_MAX), LEVELS_MAX + 1),
            (negated(LEVELS_MAX + 1), 4 * LEVELS_MAX + 1),
        ] {
            assert_eq!(parse(&text), Err(InvalidRule { column, problem: Problem::TooDeep }), "{text}");
        }
        let long = |chars: usize| format!("role:{}", "é".repeat(chars - "role:".len()));
        assert!(parse(&long(RULE_CHARS_MAX)).is_ok());
        for text in [long(RULE_CHARS_MAX + 1), " ".repeat(1 << 20), "(".repeat(1 << 20)] {
            assert_eq!(parse(&text), Err(InvalidRule { column: RULE_CHARS_MAX + 1, problem: Problem::TooLong }));
        }
    }

    proptest! {
        #[test]
        fn a_mistake_is_inside_the_text_or_at_its_end(text in "(and|or|not|role:é|project:p|@|!|x|[() \t]){0,60}") {
            if let Err(invalid) = parse(&text) {
                prop_assert!((1..=text.chars().count() + 1).contains(&invalid.column), "{text}: {invalid}");
            }
        }
    }
}
