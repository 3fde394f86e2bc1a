//! The `links` of a page, which lead to the next page.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

/// Estimated size in bytes of the query of a link.
const QUERY_BYTES: usize = 128;
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.').remove(b'~');

/// A link to the next page.
#[derive(Debug, Serialize)]
pub struct Link {
    rel: &'static str,
    href: String,
}

/// Returns the links of a page: none without a marker of the next page, otherwise the link to the
/// next page, which may be empty. `parameters` are those of the request without its marker.
///
/// The marker is the first parameter if the request had a marker, otherwise the last one. Clients
/// compare links as text.
#[must_use]
pub fn next(path: &str, had_marker: bool, parameters: &[(&str, Option<String>)], marker: Option<&str>) -> Vec<Link> {
    let Some(marker) = marker else {
        return Vec::new();
    };
    let marker = [("marker", marker)].into_iter();
    vec![if had_marker {
        link_to(path, marker.chain(present(parameters)))
    } else {
        link_to(path, present(parameters).chain(marker))
    }]
}

/// Returns a link to the next page with these parameters.
#[must_use]
pub fn next_to(path: &str, parameters: &[(&str, Option<String>)]) -> Link {
    link_to(path, present(parameters))
}

/// Returns a link to the next page with an additional parameter.
#[must_use]
pub fn next_with(path: &str, parameters: &[(&str, Option<String>)], additional: (&str, &str)) -> Link {
    link_to(path, present(parameters).chain([additional]))
}

fn present<'a>(parameters: &'a [(&'a str, Option<String>)]) -> impl Iterator<Item = (&'a str, &'a str)> {
    parameters.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)))
}

fn link_to<'a>(path: &str, parameters: impl Iterator<Item = (&'a str, &'a str)>) -> Link {
    let mut href = String::with_capacity(path.len() + QUERY_BYTES);
    href.push_str(path);
    for (index, (name, value)) in parameters.enumerate() {
        href.push(if index == 0 { '?' } else { '&' });
        href.extend(utf8_percent_encode(name, UNESCAPED));
        href.push('=');
        href.extend(utf8_percent_encode(value, UNESCAPED));
    }
    Link { rel: "next", href }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn href(had_marker: bool, parameters: &[(&str, Option<String>)]) -> String {
        let mut links = next("/v2/queues", had_marker, parameters, Some("q 3"));
        links.remove(0).href
    }

    #[test]
    fn the_marker_is_first_if_the_request_had_one() {
        let limit = [("limit", Some("2".to_owned())), ("detailed", None)];

        assert_eq!(href(false, &limit), "/v2/queues?limit=2&marker=q%203");
        assert_eq!(href(true, &limit), "/v2/queues?marker=q%203&limit=2");
        assert_eq!(href(false, &[]), "/v2/queues?marker=q%203");
    }

    #[test]
    fn a_page_without_a_next_marker_has_no_links() {
        assert!(next("/v2/queues", true, &[], None).is_empty());
    }
}
