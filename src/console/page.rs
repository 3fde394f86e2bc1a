//! The page that loads the console, and the head that the pages share.

use std::sync::LazyLock;

use maud::{DOCTYPE, Markup, html};

/// The page, in HTML. Its links are relative, so that it works behind a path prefix.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head("Sukkal"))
                script type="module" src="console/main.js" {}
            }
            body {
                a.skip href="#view" { "Skip to the contents" }
                header #top {
                    a.brand href="#/" { "Sukkal" }
                    nav #pages aria-label="Pages" {}
                    div #session {}
                }
                main #view tabindex="-1" {
                    noscript { p { "The console needs JavaScript. The API works without it." } }
                }
                footer #status {}
                div #notices role="status" aria-live="polite" {}
            }
        }
    };
    page.into_string()
});

/// Returns the elements that the heads of all pages share.
pub(super) fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) }
        link rel="icon" href="console/icon.svg";
        link rel="stylesheet" href="console/console.css";
    }
}

/// Returns the page that loads the console, in HTML.
#[must_use]
pub fn page() -> &'static str {
    &PAGE
}
