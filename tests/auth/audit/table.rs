//! Which requests are recorded: every route, with every sender of `matrix.txt`.

use futures::{StreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use sukkal_domain::Token;

use super::{Audited, REFUSALS_MAX, request_id};
use crate::auth::matrix::{Benches, CONCURRENCY, ENVIRONMENT, EndedTokens, Row, read_table, uses_roles};
use crate::http::Answer;
use support::redis::RedisServer;

/// A request that was sent, with the project and the action that its line must have.
struct Sent<'r> {
    row: &'r Row,
    column: &'static str,
    project: String,
    answer: Answer,
}

impl Sent<'_> {
    /// Returns the outcome in the line of the request; `None` if it must not have a line.
    fn outcome(&self) -> Option<&'static str> {
        let says_so = self.answer.text.contains("The URL-Signature does not allow this request.");
        // A response to HEAD has no text.
        let is_not_signed = says_so || self.row.method == Method::HEAD;
        match self.answer.status {
            401 | 403 => Some("refused"),
            404 if is_not_signed => Some("refused"),
            // The policy was not asked.
            400 | 405 => None,
            200..=299 => self.row.is_audited.then_some("success"),
            _ => self.row.is_audited.then_some("failed"),
        }
    }

    fn check(&self, lines: &[Value]) {
        let row = self.row;
        let place = format!("{row} by {}: {}", self.column, self.answer.status);
        let own: Vec<&Value> = lines.iter().filter(|line| line["request_id"] == request_id(&self.answer)).collect();
        let Some(outcome) = self.outcome() else {
            assert!(own.is_empty(), "{place}: {own:?}");
            return;
        };
        let &[line] = &own[..] else { panic!("{place}: {own:?}") };
        assert_eq!(
            (&line["outcome"], &line["status"]),
            (&json!(outcome), &json!(self.answer.status)),
            "{place}: {line}"
        );
        assert_eq!((&line["method"], &line["other_project"]), (&json!(row.method.as_str()), &json!(false)), "{place}");
        let (peer, strategy) = match self.column {
            "stranger" => ("127.0.0.2", json!(null)),
            "signed" | "elsewhere" | "signed-late" => ("127.0.0.1", json!("signed_url")),
            "expired" | "revoked" => ("127.0.0.1", json!("tokens")),
            _ => ("127.0.0.1", json!("proxy")),
        };
        assert_eq!((&line["peer"], &line["strategy"]), (&json!(peer), &strategy), "{place}");
        // The others are refused before the policy is asked.
        let is_known = !["stranger", "elsewhere", "signed-late", "expired", "revoked"].contains(&self.column)
            && self.answer.status != 404
            || outcome == "failed";
        let queue = [("/v2/queues/{", "q"), ("/v2/topics/{", "~t")];
        let queue = queue.iter().find(|(path, _)| row.target.starts_with(path)).map(|(_, name)| *name);
        assert_eq!(line["project"], if is_known { json!(self.project) } else { json!(null) }, "{place}");
        assert_eq!(line["queue"], json!(queue.filter(|_| is_known)), "{place}");
        assert_eq!(line["action"], json!(row.rule.filter(|_| is_known)), "{place}");
    }
}

#[tokio::test]
async fn each_change_and_each_refusal_has_one_line_and_nothing_else_has_one() {
    let mut rows = read_table();
    // They need another policy, and their refusals are like those of members.
    for row in &mut rows {
        row.statuses.retain(|(column, _)| !uses_roles(column));
    }
    let invented = || Token::random().reveal().to_string();
    let ended = EndedTokens { expired: invented(), revoked: invented() };
    let _pools = RedisServer::shared();
    // The number of refusals that one server records in a period is limited.
    for rows in rows.chunks(REFUSALS_MAX / rows[0].statuses.len()) {
        let mut server = Audited::start("memory:", &ENVIRONMENT);
        let benches = &Benches::prepare(&server.sukkal, &ended).await;
        let cells = rows.iter().flat_map(|row| row.statuses.iter().map(move |cell| (row, cell)));
        let sent = stream::iter(cells).map(async |(row, &(column, expected))| {
            let (answer, project) = benches.send(column, row, expected).await;
            let project = if column == "other" { format!("other-{project}") } else { project };
            Sent { row, column, project, answer }
        });
        let sent: Vec<Sent<'_>> = sent.buffered(CONCURRENCY).collect().await;
        let lines = server.stop();
        for one in &sent {
            one.check(&lines);
        }
    }
}
