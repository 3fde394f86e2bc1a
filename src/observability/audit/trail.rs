//! What is known about a request while it is handled, from which its record is made.

use std::net::IpAddr;

use parking_lot::Mutex;

use super::AuditLog;
use super::record::{self, Outcome, Record};
use crate::auth::{Client, ClientCertificate};
use sukkal_domain::{ProjectId, QueueId};

/// The first status of client errors, after which nothing was changed, and of server errors.
const CLIENT_ERROR: u16 = 400;
const SERVER_ERROR: u16 = 500;

/// What is known about a request before it is handled.
#[derive(Debug)]
pub struct Origin {
    /// The id of the request, which the client knows too.
    pub request_id: String,
    /// The address that the connection comes from.
    pub peer: Option<IpAddr>,
    /// The certificate of the client.
    pub certificate: Option<ClientCertificate>,
    /// The HTTP method, or a word for all unknown methods.
    pub method: &'static str,
    /// The path of the URL.
    pub path: String,
}

/// The response to a request.
#[derive(Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Whether the request was refused because of its sender, and not because it was wrong.
    pub is_refusal: bool,
    /// The path of what the request has created.
    pub location: Option<String>,
}

/// A request that is being handled. If its client disconnects, and the last part of its work has
/// ended, it is dropped without a response.
pub struct Trail {
    log: AuditLog,
    origin: Origin,
    facts: Mutex<Facts>,
}

/// What becomes known while the request is handled.
#[derive(Default)]
struct Facts {
    strategy: Option<&'static str>,
    client: Option<Client>,
    own_project: Option<ProjectId>,
    queue: Option<QueueId>,
    action: Option<&'static str>,
    /// Whether the policy has allowed an action that is recorded.
    is_change: bool,
    has_ended: bool,
}

impl Trail {
    /// Begins the trail of a request.
    #[must_use]
    pub fn new(log: AuditLog, origin: Origin) -> Self {
        Self { log, origin, facts: Mutex::default() }
    }

    /// Notes the strategy that finds out who sends the request.
    pub fn note_strategy(&self, strategy: &'static str) {
        self.facts.lock().strategy = Some(strategy);
    }

    /// Notes the client, which works on the project of `client` and this queue. `own_project` is
    /// the project of its credential or its headers.
    pub fn note_client(&self, client: &Client, own_project: &ProjectId, queue: Option<&QueueId>) {
        let mut facts = self.facts.lock();
        facts.client = Some(client.clone());
        facts.own_project = Some(own_project.clone());
        facts.queue = queue.cloned();
    }

    /// Notes the decision of the policy about an action with this rule. `is_change` says whether
    /// the action is recorded when it is allowed.
    pub fn note_action(&self, rule: &'static str, is_change: bool, is_allowed: bool) {
        let mut facts = self.facts.lock();
        if !facts.is_change || is_change || !is_allowed {
            facts.action = Some(rule);
        }
        facts.is_change |= is_change && is_allowed;
    }

    /// Records the outcome of the request, if the request is to be recorded. The record of a change
    /// is written before this returns, unless that takes too long.
    pub async fn end(&self, response: Response) {
        let outcome = match response.status {
            _ if response.is_refusal => Outcome::Refused,
            ..CLIENT_ERROR => Outcome::Success,
            CLIENT_ERROR.. => Outcome::Failed,
        };
        let changes_nothing = (CLIENT_ERROR..SERVER_ERROR).contains(&response.status) || response.is_refusal;
        let change = {
            let mut facts = self.facts.lock();
            facts.has_ended = true;
            if !response.is_refusal && !facts.is_recorded() {
                return;
            }
            let line = || record::line(&self.record(&facts, outcome, Some(&response)));
            if changes_nothing {
                self.log.write_refusal(facts.own_project.as_ref(), line);
                return;
            }
            line()
        };
        self.log.write_change(change).await;
    }

    fn record(&self, facts: &Facts, outcome: Outcome, response: Option<&Response>) -> Record {
        let Origin { request_id, peer, certificate, method, path } = &self.origin;
        let client = facts.client.as_ref();
        let location =
            response.and_then(|response| response.location.as_deref()).filter(|_| outcome == Outcome::Success);
        Record {
            time: record::now(),
            request_id: request_id.clone(),
            strategy: facts.strategy,
            subject: client
                .and_then(|client| client.identity.as_ref())
                .map(|identity| record::value(&identity.subject)),
            roles: client.map(|client| record::roles(&client.roles)).unwrap_or_default(),
            client_id: client.map(|client| record::value(client.id.as_str())),
            own_project: facts.own_project.as_ref().map(|project| record::value(project.as_str())),
            client_certificate: certificate.as_ref().map(|certificate| record::value(&certificate.subject)),
            peer: *peer,
            action: facts.action,
            method,
            path: record::path(path),
            project: client.map(|client| record::value(client.project.as_str())),
            queue: facts.queue.as_ref().map(|queue| record::value(queue.name().as_str())),
            other_project: facts.is_other_project(),
            location: location.map(record::path),
            outcome,
            status: response.map(|response| response.status),
        }
    }
}

impl Facts {
    fn is_other_project(&self) -> bool {
        let project = self.client.as_ref().map(|client| &client.project);
        project != self.own_project.as_ref()
    }

    /// Returns whether the request is recorded if it is not refused.
    fn is_recorded(&self) -> bool {
        self.is_change || self.is_other_project()
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        let facts = self.facts.lock();
        if !facts.has_ended && facts.is_recorded() {
            self.log.write_change_later(record::line(&self.record(&facts, Outcome::Unknown, None)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, mpsc};

    use serde_json::Value;

    use super::*;
    use crate::observability::audit::losses::Losses;

    fn log() -> (AuditLog, mpsc::Receiver<String>) {
        let (sender, lines) = mpsc::channel();
        let write = move |line: &str| sender.send(line.to_owned()).map_err(io::Error::other);
        (AuditLog::start(Arc::new(Losses::new(Arc::default())), write).unwrap(), lines)
    }

    fn trail(log: &AuditLog) -> Trail {
        let origin = Origin {
            request_id: "req-1".to_owned(),
            peer: None,
            certificate: Some(ClientCertificate { subject: "CN=worker".into() }),
            method: "DELETE",
            path: "/v2/queues/q".to_owned(),
        };
        let trail = Trail::new(log.clone(), origin);
        let project = ProjectId::new("p").unwrap();
        trail.note_client(&Client::of_test("p", &[]), &project, None);
        trail
    }

    #[tokio::test]
    async fn a_change_whose_client_has_disconnected_is_recorded_without_an_outcome() {
        let (log, lines) = log();
        let changing = trail(&log);
        changing.note_action("queues:delete", true, true);
        let reading = trail(&log);
        reading.note_action("queues:get", false, true);

        drop((changing, reading));
        log.finish().await;

        let lines: Vec<Value> = lines.try_iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line["action"], &line["outcome"]), (&"queues:delete".into(), &"unknown".into()));
        assert_eq!((&line["status"], &line["client_certificate"]), (&Value::Null, &"CN=worker".into()));
    }

    #[tokio::test]
    async fn the_action_is_the_change_or_the_one_that_was_refused() {
        let (log, lines) = log();
        for (actions, status, expected) in [
            (&[("list", false, true), ("stats", false, false)][..], 403, "stats"),
            (&[("change", true, true), ("read", false, true)], 200, "change"),
            (&[("change", true, true), ("other", false, false)], 403, "other"),
        ] {
            let trail = trail(&log);
            for &(rule, is_change, is_allowed) in actions {
                trail.note_action(rule, is_change, is_allowed);
            }
            trail.end(Response { status, is_refusal: status == 403, location: None }).await;
            log.finish().await;
            let line: Value = serde_json::from_str(&lines.recv().unwrap()).unwrap();
            assert_eq!((&line["action"], &line["status"]), (&expected.into(), &status.into()));
        }
    }
}
