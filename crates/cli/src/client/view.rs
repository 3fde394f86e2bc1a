//! Messages as people see them: as rows of a table, or one by one with all that is known.

use serde_json::Value;

use super::error::Error;
use super::http::Service;
use super::output::{Output, count, duration, duration_of, inline, printable};
use super::table::{Align, Cell, Color, Table};

/// A table of messages.
pub(super) struct Messages(Table);

impl Messages {
    pub(super) fn new() -> Self {
        let (left, right) = (Align::Left, Align::Right);
        Self(Table::new(&[
            ("ID", left),
            ("STATE", left),
            ("AGE", right),
            ("EXPIRES IN", right),
            ("CLAIMS", right),
            ("FROM", left),
            ("BODY", left),
        ]))
    }

    pub(super) fn add(&mut self, message: &Value) {
        let origin = &message["origin"];
        let claims = if origin["claim_count"] == 0 { None } else { origin.get("claim_count") };
        let from = match origin["topic"].as_str() {
            Some(topic) => format!("topic {topic}").into(),
            None => origin["queue"].clone(),
        };
        self.0.row([
            inline(&message["id"], true).into(),
            state(message),
            duration_of(&message["age"]).into(),
            expiry(message).into(),
            count(claims.unwrap_or(&message["claim_count"])).into(),
            inline(&from, true).into(),
            inline(&message["body"], false).into(),
        ]);
    }

    pub(super) fn table(&self) -> &Table {
        &self.0
    }
}

/// Prints a message with all that is known about it. An empty line precedes all but the first.
pub(super) fn show(message: &Value, is_first: bool, output: &mut Output) -> Result<(), Error> {
    if output.is_json() {
        return output.document(message);
    }
    let mut table = Table::of_properties();
    for (key, value) in message.as_object().into_iter().flatten() {
        let name = printable(key);
        match key.as_str() {
            "body" | "href" => {}
            "state" => table.property(&name, state(message)),
            "age" => table.property(&name, duration_of(value)),
            "ttl" => table.property("expires in", expiry(message)),
            "origin" => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    table.property(&format!("origin {}", printable(key)), inline(value, true));
                }
            }
            _ => table.property(&name, inline(value, true)),
        }
    }
    table.property("body", inline(&message["body"], false));
    if !is_first {
        output.line("")?;
    }
    output.table(&table)
}

/// The query for all that is known about a message.
pub(super) fn details(service: &Service) -> &'static str {
    if service.is_signed() { "?include_origin=true" } else { "?include_origin=true&include_state=true" }
}

fn state(message: &Value) -> Cell {
    let state = inline(&message["state"], true);
    let color = match state.as_str() {
        "claimed" => Some(Color::Yellow),
        "delayed" => Some(Color::Blue),
        _ => None,
    };
    Cell::colored(state, color)
}

fn expiry(message: &Value) -> String {
    let (ttl, age) = (message["ttl"].as_u64(), message["age"].as_u64());
    ttl.zip(age).map(|(ttl, age)| duration(ttl.saturating_sub(age))).unwrap_or_default()
}
