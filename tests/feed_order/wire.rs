//! The HTTP requests of a race. Responses are scanned instead of parsed, so that the test costs
//! little compared with the server.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode};
use tokio::time::sleep;
use uuid::Uuid;

use super::history::{Draft, Seen};
use support::random::Random;
use support::test_bed::ServerUrls;

const PROJECT: &str = "race";
/// While a store is down, requests are refused at once.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(30);
const ID_CHARS: usize = 36;
/// A server responds within two seconds, also while its store is down; this allows for a busy
/// machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// All servers; each request goes to any of them.
pub(super) struct Wire {
    client: Client,
    pub(super) queue: String,
    servers: Arc<ServerUrls>,
}

/// There was no response that shows the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unknown(pub(super) String);

impl From<reqwest::Error> for Unknown {
    fn from(error: reqwest::Error) -> Self {
        assert!(!error.is_timeout(), "there is no response in time: {error:?}");
        Self(format!("{error:?}"))
    }
}

impl Wire {
    /// Creates a client of one queue.
    pub(super) fn new(queue: &str, servers: Arc<ServerUrls>) -> Self {
        let client = support::plain_http::builder().timeout(TIMEOUT).build().expect("the options are in order");
        Self { client, queue: queue.to_owned(), servers }
    }

    /// Creates the queue, with a default delay and possibly with shards.
    pub(super) async fn create(
        &self,
        by: &Uuid,
        random: &mut Random,
        delay_s: u32,
        shards: u16,
    ) -> Result<(), Unknown> {
        let request = self.client.put(self.url(random, "")).header("Content-Type", "application/json");
        let metadata = format!("{{\"_default_message_delay\":{delay_s},\"_shards\":{shards}}}");
        send(request.body(metadata), by, StatusCode::CREATED).await?;
        Ok(())
    }

    /// Returns the project of all requests.
    pub(super) fn project() -> &'static str {
        PROJECT
    }

    pub(super) async fn post(&self, by: &Uuid, random: &mut Random, drafts: &[Draft]) -> Result<Vec<Uuid>, Unknown> {
        let mut body = "{\"messages\":[".to_owned();
        for (index, Draft { tag, ttl_s, delay_s }) in drafts.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let delay = delay_s.map_or(String::new(), |delay_s| format!(",\"delay\":{delay_s}"));
            write!(body, "{comma}{{\"ttl\":{ttl_s}{delay},\"body\":{tag}}}").expect("a string can be written to");
        }
        body.push_str("]}");
        let request =
            self.client.post(self.url(random, "/messages")).header("Content-Type", "application/json").body(body);
        let answer = send(request, by, StatusCode::CREATED).await?;
        // The id is after the last slash of each path.
        let paths = answer.split("/messages/").skip(1);
        paths.map(|text| parse_id(text).ok_or_else(|| Unknown(format!("no id: {text}")))).collect()
    }

    pub(super) async fn list(
        &self,
        by: &Uuid,
        random: &mut Random,
        marker: Option<Uuid>,
        limit: usize,
        echo: bool,
    ) -> Result<Vec<Seen>, Unknown> {
        let mut query = format!("/messages?limit={limit}&echo={echo}&include_claimed=true");
        if let Some(marker) = marker {
            write!(query, "&marker={marker}").expect("a string can be written to");
        }
        let request = self.client.get(self.url(random, &query));
        scan_page(&send(request, by, StatusCode::OK).await?)
    }

    pub(super) async fn delete(&self, by: &Uuid, random: &mut Random, ids: &[Uuid]) -> Result<(), Unknown> {
        let rest = match ids {
            [id] => format!("/messages/{id}"),
            ids => format!("/messages?ids={}", ids.iter().map(Uuid::to_string).collect::<Vec<_>>().join(",")),
        };
        send(self.client.delete(self.url(random, &rest)), by, StatusCode::NO_CONTENT).await?;
        Ok(())
    }

    /// Deletes messages in a way that includes claimed ones.
    pub(super) async fn delete_claimed(&self, by: &Uuid, random: &mut Random, ids: &[Uuid]) -> Result<(), Unknown> {
        let ids = ids.iter().map(Uuid::to_string).collect::<Vec<_>>().join(",");
        let request = self.client.delete(self.url(random, &format!("/messages?ids={ids}")));
        send(request, by, StatusCode::NO_CONTENT).await?;
        Ok(())
    }

    /// Claims messages, and returns their ids.
    pub(super) async fn claim(&self, by: &Uuid, random: &mut Random, limit: usize) -> Result<Vec<Uuid>, Unknown> {
        let request = self.client.post(self.url(random, &format!("/claims?limit={limit}")));
        let request = request.header("Content-Type", "application/json").body("{}");
        scan_ids(&send_any(request, by, &[StatusCode::CREATED, StatusCode::NO_CONTENT]).await?)
    }

    /// Pops messages, and returns their ids.
    pub(super) async fn pop(&self, by: &Uuid, random: &mut Random, limit: usize) -> Result<Vec<Uuid>, Unknown> {
        let request = self.client.delete(self.url(random, &format!("/messages?pop={limit}")));
        scan_ids(&send(request, by, StatusCode::OK).await?)
    }

    fn url(&self, random: &mut Random, rest: &str) -> String {
        format!("{}/v2/queues/{}{rest}", self.servers.choose(random), self.queue)
    }
}

async fn send(request: RequestBuilder, by: &Uuid, expected: StatusCode) -> Result<String, Unknown> {
    send_any(request, by, &[expected]).await
}

async fn send_any(request: RequestBuilder, by: &Uuid, expected: &[StatusCode]) -> Result<String, Unknown> {
    let request = request.header("Client-ID", by.to_string()).header("X-Project-ID", PROJECT);
    let outcome = answer(request, expected).await;
    if outcome.is_err() {
        sleep(PAUSE_AFTER_FAILURE).await;
    }
    outcome
}

async fn answer(request: RequestBuilder, expected: &[StatusCode]) -> Result<String, Unknown> {
    let answer = request.send().await?;
    let status = answer.status();
    let text = answer.text().await?;
    let is_expected = expected.contains(&status);
    let is_away = status == StatusCode::SERVICE_UNAVAILABLE;
    assert!(is_expected || is_away, "{status}, not {expected:?}: {text}");
    if is_expected { Ok(text) } else { Err(Unknown(format!("{status}: {text}"))) }
}

/// Returns the ids and bodies of a page. A body is a number and the last field of its document.
fn scan_page(text: &str) -> Result<Vec<Seen>, Unknown> {
    let documents = text.split("{\"id\":\"").skip(1);
    let scanned = documents.map(|document| {
        let id = parse_id(document)?;
        let (_, body) = document.split_once("\"body\":")?;
        let (tag, _) = body.split_once('}')?;
        Some(Seen { id, tag: tag.parse().ok()? })
    });
    scanned.collect::<Option<_>>().ok_or_else(|| Unknown(format!("no page: {text}")))
}

/// Returns the ids of the messages in a response.
fn scan_ids(text: &str) -> Result<Vec<Uuid>, Unknown> {
    let ids = text.split("{\"id\":\"").skip(1).map(parse_id);
    ids.collect::<Option<_>>().ok_or_else(|| Unknown(format!("no ids: {text}")))
}

fn parse_id(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text.get(..ID_CHARS)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_scanned_for_ids_and_bodies() {
        let [a, b] = [Uuid::from_u128(1), Uuid::from_u128(2)];
        let document = |id| format!(r#"{{"id":"{id}","href":"/v2/queues/q/messages/{id}","ttl":60,"age":0,"body":"#);
        let page = format!(r#"{{"messages":[{}17}},{}4}}],"links":[{{"rel":"next"}}]}}"#, document(a), document(b));

        assert_eq!(scan_page(&page), Ok(vec![Seen { id: a, tag: 17 }, Seen { id: b, tag: 4 }]));
        assert_eq!(scan_page(r#"{"messages":[],"links":[]}"#), Ok(Vec::new()));
        assert!(scan_page(&page.replace("17", "\"x\"")).is_err());
    }
}
