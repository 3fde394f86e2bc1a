//! Descriptions, which are Markdown.

use maud::{Markup, PreEscaped};
use pulldown_cmark::{Event, Options, Parser, html};

/// Returns a description as HTML. Markup inside the description is shown as text.
pub(super) fn markdown(text: &str) -> Markup {
    let as_text = |event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        event => event,
    };
    let mut written = String::with_capacity(text.len() * 2);
    html::push_html(&mut written, Parser::new_ext(text, Options::ENABLE_TABLES).map(as_text));
    PreEscaped(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_cannot_contain_markup() {
        let written = markdown("**`a`** <script>alert(1)</script>").into_string();

        assert_eq!(written, "<p><strong><code>a</code></strong> &lt;script&gt;alert(1)&lt;/script&gt;</p>\n");
    }
}
