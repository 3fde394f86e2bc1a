//! One operation of the API.

use maud::{Markup, html};
use serde_json::Value;

use super::contract::{resolved, text};
use super::markdown::markdown;
use super::schema;

/// A method of a path.
pub(super) struct Operation<'c> {
    method: &'c str,
    path: &'c str,
    item: &'c Value,
    details: &'c Value,
}

impl<'c> Operation<'c> {
    /// Returns the operation of a method; `None` if the path does not have the method.
    pub(super) fn new(method: &'c str, path: &'c str, item: &'c Value) -> Option<Self> {
        let details = item.get(method)?;
        Some(Self { method, path, item, details })
    }

    /// Returns the id, which is unique.
    pub(super) fn id(&self) -> &'c str {
        text(self.details, "operationId")
    }

    /// Returns what the operation does, in a few words.
    pub(super) fn summary(&self) -> &'c str {
        text(self.details, "summary")
    }

    /// Returns whether the operation belongs to this group.
    pub(super) fn has_tag(&self, tag: &str) -> bool {
        self.details["tags"].as_array().is_some_and(|tags| tags.iter().any(|own| own == tag))
    }

    /// Returns the description of the operation.
    pub(super) fn markup(&self, contract: &Value) -> Markup {
        let parameters = self.parameters(contract);
        let body = resolved(contract, &self.details["requestBody"]);
        html! {
            article.card id=(self.id()) {
                h3 { (self.summary()) }
                p { span.tag { (self.method.to_uppercase()) } " " code { (self.path) } }
                (markdown(text(self.details, "description")))
                @if !parameters.is_empty() {
                    h4 { "Parameters" }
                    table {
                        thead { tr { th { "Name" } th { "Place" } th { "Type" } th { "Meaning" } } }
                        tbody { @for parameter in &parameters { (parameter_row(parameter)) } }
                    }
                }
                @if body.is_object() {
                    h4 { "Request body" }
                    (markdown(text(body, "description")))
                    (contents(body))
                }
                @if !body.is_object() || example(body).is_some() {
                    h4 { "Example" }
                    pre tabindex="0" { (self.command(body)) }
                }
                h4 { "Responses" }
                @for (status, response) in self.details["responses"].as_object().into_iter().flatten() {
                    details {
                        summary { (status) " " span.faint { (summary_of(resolved(contract, response))) } }
                        (markdown(text(resolved(contract, response), "description")))
                        (contents(resolved(contract, response)))
                    }
                }
            }
        }
    }

    /// Returns the parameters of the path and of the method.
    fn parameters(&self, contract: &'c Value) -> Vec<&'c Value> {
        let lists = [&self.item["parameters"], &self.details["parameters"]];
        let parameters = lists.into_iter().filter_map(Value::as_array).flatten();
        parameters.map(|parameter| resolved(contract, parameter)).collect()
    }

    /// Returns a command that shows the operation.
    fn command(&self, body: &Value) -> String {
        let method = self.method.to_uppercase();
        let path = self.path.replace("{queue_name}", "orders").replace("{topic_name}", "orders");
        let headers = "-H 'Client-ID: 3381af92-2b9e-11e3-b191-71861300734c' -H 'X-Project-ID: demo'";
        let data = example(body).map(|(media_type, example)| {
            let quoted = example.to_string().replace('\'', r"'\''");
            format!(" \\\n  -H 'Content-Type: {media_type}' -d '{quoted}'")
        });
        format!("curl -X {method} 'http://127.0.0.1:8888{path}' \\\n  {headers}{}", data.unwrap_or_default())
    }
}

fn parameter_row(parameter: &Value) -> Markup {
    let is_required = parameter["required"] == true;
    html! {
        tr {
            td { code { (text(parameter, "name")) } @if is_required { small { "required" } } }
            td { (text(parameter, "in")) }
            td { (schema::kind(&parameter["schema"])) }
            td {
                (markdown(text(parameter, "description")))
                @if !parameter["example"].is_null() { small { "Example: " code { (parameter["example"]) } } }
            }
        }
    }
}

/// Returns the schemas and examples of a body.
fn contents(body: &Value) -> Markup {
    html! {
        @for (media_type, content) in body["content"].as_object().into_iter().flatten() {
            p { code { (media_type) } " " (schema::kind(&content["schema"])) }
            @if !content["example"].is_null() { pre tabindex="0" { (pretty(&content["example"])) } }
        }
    }
}

/// Returns the media type and the example of a body, if it has one.
fn example(body: &Value) -> Option<(&str, &Value)> {
    let contents = body["content"].as_object()?.iter();
    contents.map(|(media_type, content)| (media_type.as_str(), &content["example"])).find(|(_, value)| !value.is_null())
}

fn pretty(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

/// Returns the first sentence of the description, without markup.
fn summary_of(response: &Value) -> String {
    let text = text(response, "description").replace('`', "").split_whitespace().collect::<Vec<_>>().join(" ");
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    text[..end].to_owned()
}
