//! The schemas of documents.

use maud::{Markup, html};
use serde_json::Value;

use super::contract::text;
use super::markdown::markdown;

const SCHEMAS: &str = "#/components/schemas/";

/// Returns the section of a schema with a name.
pub(super) fn section(name: &str, schema: &Value) -> Markup {
    html! {
        article.card id={ "schema-" (name) } {
            h3 { (name) }
            (markdown(text(schema, "description")))
            @if has_properties(schema) { (properties(schema)) } @else { p { (kind(schema)) } }
        }
    }
}

fn has_properties(schema: &Value) -> bool {
    schema["properties"].is_object() || parts(schema).iter().any(|part| part["properties"].is_object())
}

/// Returns the parts of a schema that is a combination.
fn parts(schema: &Value) -> &[Value] {
    schema["allOf"].as_array().map_or(&[], Vec::as_slice)
}

fn properties(schema: &Value) -> Markup {
    html! {
        @for part in parts(schema).iter().filter(|part| part["$ref"].is_string()) { p { "All of " (kind(part)) ", and:" } }
        table {
            thead { tr { th { "Key" } th { "Type" } th { "Meaning" } } }
            tbody {
                @for part in parts(schema).iter().chain([schema]) {
                    @for (key, value) in part["properties"].as_object().into_iter().flatten() {
                        (property(key, value, part))
                    }
                }
            }
        }
    }
}

fn property(key: &str, value: &Value, parent: &Value) -> Markup {
    let is_required = parent["required"].as_array().is_some_and(|keys| keys.iter().any(|required| required == key));
    html! {
        tr {
            td { code { (key) } @if is_required { small { "always" } } }
            td { (kind(value)) }
            td {
                (markdown(text(value, "description")))
                @if value["properties"].is_object() { (properties(value)) }
            }
        }
    }
}

/// Returns the type of values, and a link if it is a schema with a name.
pub(super) fn kind(schema: &Value) -> Markup {
    let one_of = ["oneOf", "anyOf", "allOf"].iter().find_map(|key| schema[key].as_array());
    html! {
        @if let Some(name) = schema["$ref"].as_str().and_then(|target| target.strip_prefix(SCHEMAS)) {
            a href={ "#schema-" (name) } { (name) }
        } @else if let Some(choices) = one_of {
            @for (index, choice) in choices.iter().enumerate() { @if index > 0 { " or " } (kind(choice)) }
        } @else if let Some(values) = schema["enum"].as_array() {
            @for (index, value) in values.iter().enumerate() { @if index > 0 { " or " } code { (value) } }
        } @else if let Some(value) = schema.get("const") {
            code { (value) }
        } @else if schema["items"].is_object() {
            "list of " (kind(&schema["items"]))
        } @else {
            (types(schema))
            @for limit in limits(schema) { small { (limit) } }
        }
    }
}

fn types(schema: &Value) -> String {
    match &schema["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any value".to_owned(),
    }
}

fn limits(schema: &Value) -> Vec<String> {
    let named = [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "length at least"),
        ("maxLength", "length at most"),
        ("default", "default"),
        ("format", "format"),
    ];
    let known = named.into_iter().filter(|(key, _)| schema.get(*key).is_some());
    known.map(|(key, words)| format!("{words} {}", schema[key].to_string().trim_matches('"'))).collect()
}
