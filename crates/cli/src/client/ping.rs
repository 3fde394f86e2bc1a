//! `sukkal ping`: checks that the service and its store respond.

use std::time::Instant;

use reqwest::Method;
use serde_json::json;

use super::error::Error;
use super::http::Service;
use super::output::{Output, milliseconds};

pub(super) async fn run(service: &Service, output: &mut Output) -> Result<(), Error> {
    let start = Instant::now();
    service.request(Method::GET, "/v2/ping").send().await?;
    let (url, time) = (service.url(), milliseconds(start.elapsed()));
    output.done(
        &format!("{url} responds after {time} ms"),
        &json!({ "url": url, "milliseconds": time.parse::<f64>().unwrap_or_default() }),
    )
}
