//! `links`: how a client comes from one page to the next.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.').remove(b'~');

/// A link to another page.
#[derive(Debug, Serialize)]
pub struct Link {
    rel: &'static str,
    href: String,
}

/// The links of a page: none without a marker of the next page, else always the one to the next, even if that will be
/// empty. `parameters` are the request's, without its marker.
///
/// The marker stands first if the request had one, else last: clients compare links as text.
#[must_use]
pub fn next(path: &str, had_marker: bool, parameters: &[(&str, Option<String>)], marker: Option<&str>) -> Vec<Link> {
    let Some(marker) = marker else {
        return Vec::new();
    };
    let marker = [("marker", marker)].into_iter();
    vec![if had_marker {
        link_to(path, marker.chain(given(parameters)))
    } else {
        link_to(path, given(parameters).chain(marker))
    }]
}

/// A link to the next page with one parameter more.
#[must_use]
pub fn link(path: &str, parameters: &[(&str, Option<String>)], more: (&str, &str)) -> Link {
    link_to(path, given(parameters).chain([more]))
}

fn given<'a>(parameters: &'a [(&'a str, Option<String>)]) -> impl Iterator<Item = (&'a str, &'a str)> {
    parameters.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)))
}

fn link_to<'a>(path: &str, parameters: impl Iterator<Item = (&'a str, &'a str)>) -> Link {
    let mut href = path.to_owned();
    for (index, (name, value)) in parameters.enumerate() {
        href.push(if index == 0 { '?' } else { '&' });
        href.push_str(name);
        href.push('=');
        href.extend(utf8_percent_encode(value, PLAIN));
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
    fn a_marker_keeps_its_place() {
        let limit = [("limit", Some("2".to_owned())), ("detailed", None)];

        assert_eq!(href(false, &limit), "/v2/queues?limit=2&marker=q%203");
        assert_eq!(href(true, &limit), "/v2/queues?marker=q%203&limit=2");
        assert_eq!(href(false, &[]), "/v2/queues?marker=q%203");
    }

    #[test]
    fn an_empty_page_leads_nowhere() {
        assert!(next("/v2/queues", true, &[], None).is_empty());
    }
}
