//! The texts of mails that ask recipients to confirm, with the link that does it.

use std::fmt::Write;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use uuid::Uuid;

use sukkal_domain::{ConfirmationKind, ConfirmationRequest, MailConfig};

/// All characters that have a meaning in a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The texts that the operator has chosen.
pub(super) struct Texts {
    confirmation: String,
    unsubscription: String,
    /// The URL of the API, without a slash at the end.
    api_url: String,
    /// The page on which recipients confirm; empty if there is none.
    page: String,
}

impl Texts {
    pub(super) fn new(config: &MailConfig) -> Self {
        Self {
            confirmation: config.confirmation_text.clone(),
            unsubscription: config.unsubscription_text.clone(),
            api_url: config.api_url.trim_end_matches('/').to_owned(),
            page: config.external_confirmation_url.clone(),
        }
    }

    /// Returns the subject and the text for a confirmation with this document.
    pub(super) fn of(&self, request: &ConfirmationRequest, document: &Value) -> (String, String) {
        let queue = request.queue.name().as_str();
        let (subject, template) = match request.kind {
            ConfirmationKind::Subscription => {
                (format!("Confirm your subscription to the queue {queue}"), &self.confirmation)
            }
            ConfirmationKind::Unsubscription => {
                (format!("You have unsubscribed from the queue {queue}"), &self.unsubscription)
            }
        };
        let link = if self.page.is_empty() { self.command(document) } else { self.link(document) };
        (
            subject,
            fill_in(
                template,
                &[("{queue}", queue), ("{project}", request.queue.project().as_str()), ("{link}", &link)],
            ),
        )
    }

    /// Returns the link to the page, which has all that it needs in its query.
    fn link(&self, document: &Value) -> String {
        let url = self.url(document);
        let parameters = [
            ("Signature", text(document, "URL-Signature")),
            ("Methods", text(document, "URL-Methods")),
            ("Paths", text(document, "URL-Paths")),
            ("Project", text(document, "X-Project-ID")),
            ("Expires", text(document, "URL-Expires")),
            ("Url", url.as_str()),
            ("Queue", text(document, "queue_name")),
        ];
        let parameters = parameters.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, ENCODED)));
        format!("{}?{}", self.page, parameters.join("&"))
    }

    /// Returns the command of curl that confirms. Nothing in it can end a quoted text.
    fn command(&self, document: &Value) -> String {
        let mut command = format!("curl -X PUT {}", quoted(&self.url(document)));
        let client = Uuid::new_v4().to_string();
        let names = ["URL-Signature", "URL-Methods", "URL-Paths", "URL-Expires", "X-Project-ID"];
        let headers = names.map(|name| (name, text(document, name)));
        for (name, value) in
            headers.into_iter().chain([("Client-ID", client.as_str()), ("Content-Type", "application/json")])
        {
            let header = quoted(&format!("{name}: {value}"));
            write!(command, " \\\n    -H {header}").expect("a text can grow");
        }
        command + " \\\n    -d '{\"confirmed\": true}'"
    }

    fn url(&self, document: &Value) -> String {
        format!("{}{}", self.api_url, text(document, "URL-Paths"))
    }
}

fn text<'d>(document: &'d Value, name: &str) -> &'d str {
    document[name].as_str().unwrap_or_default()
}

/// Quotes a text for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Replaces each name by its value. Names in values stay as they are.
fn fill_in(template: &str, values: &[(&str, &str)]) -> String {
    let (mut filled, mut rest) = (String::new(), template);
    let next = |rest: &str| values.iter().filter_map(|(name, value)| Some((rest.find(name)?, *name, *value))).min();
    while let Some((at, name, value)) = next(rest) {
        filled.push_str(&rest[..at]);
        filled.push_str(value);
        rest = &rest[at + name.len()..];
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(page: &str) -> Texts {
        let (confirmation, unsubscription) = ("{queue} of {project}:\n{link}".to_owned(), String::new());
        Texts { confirmation, unsubscription, api_url: "https://api.example".to_owned(), page: page.to_owned() }
    }

    fn document() -> Value {
        json!({
            "URL-Signature": "0a", "URL-Methods": "PUT", "URL-Paths": "/v2/queues/q/confirm", "X-Project-ID": "o'neil & {link}",
            "URL-Expires": "2030-01-01T00:00:00", "queue_name": "q",
        })
    }

    #[test]
    fn a_link_has_encoded_values() {
        assert_eq!(
            texts("https://page.example/x").link(&document()),
            "https://page.example/x?Signature=0a&Methods=PUT&Paths=%2Fv2%2Fqueues%2Fq%2Fconfirm&Project=o%27neil%20%26%20%7Blink%7D\
             &Expires=2030-01-01T00%3A00%3A00&Url=https%3A%2F%2Fapi.example%2Fv2%2Fqueues%2Fq%2Fconfirm&Queue=q"
        );
    }

    #[test]
    fn a_command_is_quoted_for_the_shell() {
        let command = texts("").command(&document());

        assert!(command.starts_with("curl -X PUT 'https://api.example/v2/queues/q/confirm' \\\n"), "{command}");
        assert!(command.contains(r"-H 'X-Project-ID: o'\''neil & {link}'"), "{command}");
    }

    #[test]
    fn names_in_values_are_not_replaced() {
        assert_eq!(fill_in("{a}{b} {a} {c}", &[("{a}", "{b}"), ("{b}", "{a}")]), "{b}{a} {b} {c}");
    }
}
