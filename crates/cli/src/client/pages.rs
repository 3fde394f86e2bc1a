//! Lists that the service returns page by page.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::error::Error;
use super::http::Service;
use super::output::{Listing, Output};
use super::table::Column;

/// Number of items in a page that the service allows by default.
const PAGE: u64 = 20;

/// The pages of a list.
pub(super) struct Pages<'s> {
    service: &'s Service,
    /// The key of the items in the documents.
    key: &'static str,
    /// The path of the next page. `None` after the last one.
    next: Option<String>,
    is_first: bool,
    /// How many items are still wanted.
    remaining: u64,
    is_empty: bool,
}

impl<'s> Pages<'s> {
    /// Prepares a list of at most `limit` items.
    pub(super) fn new(service: &'s Service, key: &'static str, path: String, limit: Option<u64>) -> Self {
        Self { service, key, next: Some(path), is_first: true, remaining: limit.unwrap_or(u64::MAX), is_empty: true }
    }

    /// Returns the items of the next page, which may be none, or `None` after the last page.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Value>>, Error> {
        let Some(path) = self.next.take().filter(|_| self.remaining > 0) else { return Ok(None) };
        let page = self.get(&path).await?;
        let mut document = page;
        let Some(Value::Array(mut items)) = document.get_mut(self.key).map(Value::take) else {
            return Err(Error::Failed(format!("the response has no {}; is the URL that of the service?", self.key)));
        };
        // An empty page of messages is the end. One of queues may have a link, if the service has
        // examined many names that do not match.
        if !items.is_empty() || self.key == self.service.plural() {
            self.next = next_link(&document).filter(|next| *next != path);
        }
        items.truncate(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        self.remaining -= items.len() as u64;
        self.is_empty &= items.is_empty();
        Ok(Some(items))
    }

    /// Whether no page so far has had an item.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Prints the items of all pages.
    pub(super) async fn print(mut self, columns: &'static [Column], output: &mut Output) -> Result<(), Error> {
        let mut list = Listing::new(columns, output);
        while let Some(items) = self.next().await? {
            items.iter().try_for_each(|item| list.add(item))?;
        }
        list.end()
    }

    /// Returns the items of all pages.
    pub(super) async fn all(mut self) -> Result<Vec<Value>, Error> {
        let mut all = Vec::new();
        while let Some(items) = self.next().await? {
            all.extend(items);
        }
        Ok(all)
    }

    async fn get(&mut self, path: &str) -> Result<Value, Error> {
        if !std::mem::take(&mut self.is_first) {
            return self.service.get(path).await;
        }
        let separator = if path.contains('?') { '&' } else { '?' };
        let limit = self.remaining.min(PAGE);
        match self.service.get(&format!("{path}{separator}limit={limit}")).await {
            // The operator may allow only smaller pages. Then the service chooses the size.
            Err(Error::Refused { status: 400, .. }) => self.service.get(path).await,
            other => other,
        }
    }
}

/// The path of the next page.
pub(super) fn next_link(page: &Value) -> Option<String> {
    let links = page["links"].as_array()?;
    let next = links.iter().find(|link| link["rel"] == "next")?;
    next["href"].as_str().filter(|href| href.starts_with("/v2/")).map(str::to_owned)
}

/// Returns the value of a parameter in a link.
pub(super) fn parameter(link: &str, name: &str) -> Option<String> {
    let (_, query) = link.split_once('?')?;
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    percent_decode_str(value).decode_utf8().ok().map(Cow::into_owned)
}
