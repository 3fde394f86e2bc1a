//! Parses response bodies, and only the parts that the next request needs.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A page of a queue's feed.
#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    messages: Vec<IgnoredAny>,
    #[serde(borrow)]
    links: Vec<Link<'a>>,
}

#[derive(Debug, Deserialize)]
struct Link<'a> {
    #[serde(borrow)]
    rel: Cow<'a, str>,
    #[serde(borrow)]
    href: Cow<'a, str>,
}

/// The messages that a claim returned.
#[derive(Debug, Deserialize)]
pub(super) struct ClaimResponse<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

impl<'a> Page<'a> {
    /// Parses a response body. Returns `None` if it is not a page.
    pub(super) fn parse(body: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages.len() as u64
    }

    /// The marker of the next page, percent-encoded as in the link.
    pub(super) fn marker(&self) -> Option<&str> {
        let next = self.links.iter().find(|link| link.rel == "next")?;
        let (_, query) = next.href.split_once('?')?;
        query.split('&').find_map(|parameter| parameter.strip_prefix("marker="))
    }
}

impl<'a> ClaimResponse<'a> {
    /// Parses a response body. An empty body is a claim without messages. Returns `None` for any
    /// other body that is not a claim.
    pub(super) fn parse(body: &'a [u8]) -> Option<Self> {
        if body.is_empty() { Some(Self { messages: Vec::new() }) } else { serde_json::from_slice(body).ok() }
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(|message| message.id.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_comes_from_the_link_to_the_next_page() {
        let body = br#"{"messages": [{"body": {"href": "?marker=no", "links": [1]}, "id": "7"}, {"id": "8"}],
            "links": [{"rel": "self", "href": "/v2/queues/q/messages?marker=6"},
                      {"rel": "next", "href": "/v2/queues/q/messages?limit=2&marker=a%20b&echo=true"}]}"#;

        let page = Page::parse(body).unwrap();

        assert_eq!((page.messages(), page.marker()), (2, Some("a%20b")));
    }

    #[test]
    fn the_last_page_of_a_feed_has_no_marker() {
        let page = Page::parse(br#"{"messages":[],"links":[]}"#).unwrap();

        assert_eq!((page.messages(), page.marker()), (0, None));
    }

    #[test]
    fn the_ids_of_claimed_messages_are_parsed() {
        let claimed =
            ClaimResponse::parse(br#"{"messages": [{"ttl": 9, "id": "x", "body": "\n"}, {"id": "y"}]}"#).unwrap();

        assert_eq!(claimed.ids().collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(ClaimResponse::parse(b"").unwrap().messages(), 0);
    }

    #[test]
    fn other_documents_are_neither_pages_nor_claims() {
        for body in [&b"{}"[..], b"[]", b"<html>", br#"{"messages":[{}]"#] {
            assert!(Page::parse(body).is_none() && ClaimResponse::parse(body).is_none());
        }
    }
}
