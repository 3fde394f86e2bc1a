//! Messages as people see them: as rows of a table, or one by one with all that is known.

use serde_json::Value;

use super::error::Error;
use super::http::Service;
use super::output::{Output, count, duration, duration_of, inline, printable};
use super::table::{Align, Cell, Color, Column, Table};

/// The columns of messages.
pub(super) const MESSAGES: [Column; 7] = [
    ("ID", Align::Left, |message| inline(&message["id"], true).into()),
    ("STATE", Align::Left, state),
    ("AGE", Align::Right, |message| duration_of(&message["age"]).into()),
    ("EXPIRES IN", Align::Right, |message| expiry(message).into()),
    ("CLAIMS", Align::Right, |message| claims(message).into()),
    ("FROM", Align::Left, |message| origin(message).into()),
    ("BODY", Align::Left, |message| inline(&message["body"], false).into()),
];

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

fn claims(message: &Value) -> String {
    let of_origin = message["origin"].get("claim_count").filter(|claims| **claims != 0);
    count(of_origin.unwrap_or(&message["claim_count"]))
}

fn origin(message: &Value) -> String {
    match message["origin"]["topic"].as_str() {
        Some(topic) => inline(&format!("topic {topic}").into(), true),
        None => inline(&message["origin"]["queue"], true),
    }
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
