//! The reference of the API (`/docs`): `openapi.yaml` as a page, which needs no scripts.

mod contract;
mod markdown;
mod operation;
mod schema;

use std::sync::LazyLock;

use maud::{DOCTYPE, Markup, html};
use serde_json::Value;

use self::contract::text;
use self::markdown::markdown;
use self::operation::Operation;
use super::page::head;

const CONTRACT: &str = include_str!("../../../openapi.yaml");
/// The keys of a path that are methods, in the order in which they are shown.
const METHODS: [&str; 6] = ["get", "head", "put", "post", "patch", "delete"];

static REFERENCE: LazyLock<String> = LazyLock::new(|| {
    let contract: Value = serde_saphyr::from_str(CONTRACT).expect("openapi.yaml is YAML, as a test shows");
    page(&contract).into_string()
});

/// Returns the reference, in HTML. The first call takes some milliseconds.
#[must_use]
pub fn reference() -> &'static str {
    &REFERENCE
}

fn page(contract: &Value) -> Markup {
    let operations = operations(contract);
    let components = |kind: &str| contract["components"][kind].as_object().into_iter().flatten();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head("API of Sukkal"))
                link rel="stylesheet" href="console/docs.css";
            }
            body.reference {
                header #top { a.brand href="console" { "Sukkal" } nav { a href="docs" aria-current="page" { "API" } } }
                main #view {
                    h1 { "API" }
                    (contents(contract, &operations))
                    section { (markdown(text(&contract["info"], "description"))) }
                    section #credentials {
                        h2 { "Credentials" }
                        @for (name, scheme) in components("securitySchemes") { (credential(name, scheme)) }
                    }
                    @for tag in tags(contract) {
                        section id={ "tag-" (text(tag, "name")) } {
                            h2 { (text(tag, "name")) }
                            (markdown(text(tag, "description")))
                            @for operation in operations.iter().filter(|operation| operation.has_tag(text(tag, "name"))) {
                                (operation.markup(contract))
                            }
                        }
                    }
                    section #schemas {
                        h2 { "Schemas" }
                        @for (name, schema) in components("schemas") { (schema::section(name, schema)) }
                    }
                }
            }
        }
    }
}

/// Links to all operations, by their tags.
fn contents(contract: &Value, operations: &[Operation<'_>]) -> Markup {
    html! {
        nav.contents aria-label="Operations" {
            @for tag in tags(contract) {
                details {
                    summary { (text(tag, "name")) }
                    ul.plain {
                        @for operation in operations.iter().filter(|operation| operation.has_tag(text(tag, "name"))) {
                            li { a href={ "#" (operation.id()) } { (operation.summary()) } }
                        }
                    }
                }
            }
            a href="#credentials" { "Credentials" }
            " "
            a href="#schemas" { "Schemas" }
        }
    }
}

/// A kind of credential, and where a request has it.
fn credential(name: &str, scheme: &Value) -> Markup {
    let place = ["in", "name", "scheme"].map(|key| text(scheme, key)).join(" ");
    html! {
        article.card id={ "credential-" (name) } {
            h3 { (name) }
            p { span.tag { (text(scheme, "type")) } " " code { (place.trim()) } }
            (markdown(text(scheme, "description")))
        }
    }
}

fn tags(contract: &Value) -> &[Value] {
    contract["tags"].as_array().map_or(&[], Vec::as_slice)
}

fn operations(contract: &Value) -> Vec<Operation<'_>> {
    let paths = contract["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, item)| METHODS.iter().filter_map(move |method| Operation::new(method, path, item))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_each_operation_credential_and_schema() {
        let contract: Value = serde_saphyr::from_str(CONTRACT).unwrap();
        let operations = operations(&contract);

        assert_eq!(operations.len(), CONTRACT.matches("\n      operationId: ").count());
        for operation in &operations {
            let heading = format!("id=\"{}\"", operation.id());
            assert_eq!(reference().matches(&heading).count(), 1, "{heading}");
        }
        for (kind, prefix) in [("securitySchemes", "credential"), ("schemas", "schema")] {
            for name in contract["components"][kind].as_object().unwrap().keys() {
                assert!(reference().contains(&format!("id=\"{prefix}-{name}\"")), "{name}");
            }
        }
    }

    #[test]
    fn the_reference_loads_nothing_from_other_servers() {
        assert!(!reference().contains("src="));
        assert!(!reference().contains("<link rel=\"stylesheet\" href=\"http"));
    }
}
