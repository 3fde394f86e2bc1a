//! What is read of answers: as little as it takes to go on.

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

/// What a claim has got.
#[derive(Debug, Deserialize)]
pub(super) struct Claimed<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

impl<'a> Page<'a> {
    /// `None` if it is none.
    pub(super) fn read(answer: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(answer).ok()
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages.len() as u64
    }

    /// The marker of the page behind this one, as it stands in the link.
    pub(super) fn marker(&self) -> Option<&str> {
        let next = self.links.iter().find(|link| link.rel == "next")?;
        let (_, query) = next.href.split_once('?')?;
        query.split('&').find_map(|parameter| parameter.strip_prefix("marker="))
    }
}

impl<'a> Claimed<'a> {
    /// `None` if it is none; no answer at all is a claim of nothing.
    pub(super) fn read(answer: &'a [u8]) -> Option<Self> {
        if answer.is_empty() { Some(Self { messages: Vec::new() }) } else { serde_json::from_slice(answer).ok() }
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
    fn the_marker_is_that_of_the_next_page() {
        let answer = br#"{"messages": [{"body": {"href": "?marker=no", "links": [1]}, "id": "7"}, {"id": "8"}],
            "links": [{"rel": "self", "href": "/v2/queues/q/messages?marker=6"},
                      {"rel": "next", "href": "/v2/queues/q/messages?limit=2&marker=a%20b&echo=true"}]}"#;

        let page = Page::read(answer).unwrap();

        assert_eq!((page.messages(), page.marker()), (2, Some("a%20b")));
    }

    #[test]
    fn the_end_of_a_feed_has_no_marker() {
        let page = Page::read(br#"{"messages":[],"links":[]}"#).unwrap();

        assert_eq!((page.messages(), page.marker()), (0, None));
    }

    #[test]
    fn claimed_messages_are_known_by_their_ids() {
        let claimed = Claimed::read(br#"{"messages": [{"ttl": 9, "id": "x", "body": "\n"}, {"id": "y"}]}"#).unwrap();

        assert_eq!(claimed.ids().collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(Claimed::read(b"").unwrap().messages(), 0);
    }

    #[test]
    fn other_documents_are_no_answers() {
        for answer in [&b"{}"[..], b"[]", b"<html>", br#"{"messages":[{}]"#] {
            assert!(Page::read(answer).is_none() && Claimed::read(answer).is_none());
        }
    }
}
