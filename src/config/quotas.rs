//! `[quotas]`: the limits of projects, and the file with the limits of single projects.

use ahash::HashMap;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use sukkal_base::text;
use sukkal_domain::options::{Rule, options};
use sukkal_domain::queue_id::PROJECT_ID_CHARS_MAX;
use sukkal_domain::quotas::QUOTA_MAX;
use sukkal_domain::{Limits, ProjectId, Quota, QuotaConfig, QuotaLimits, QuotaOverrides, RateLimitStatus};

const QUOTA: Rule = Rule::Integer(0, QUOTA_MAX, "");
/// The path of a file with the quotas of projects, or an empty text.
const QUOTA_FILE: Rule = Rule::Other {
    parse: |text| text.into(),
    check: |value| {
        let path = value.as_str().ok_or("it must be the path of a file with the quotas of projects, or empty")?;
        read(path).map(drop)
    },
    is_shown: true,
};

options! {
    /// `[quotas]`: the limits of each project; 0 is no limit.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Quotas {
        //! Limits of what each project may use; 0 is no limit. docs/quotas.md explains them. An
        //! operator can set other limits for single projects, with `PUT /v2/quotas` or in a file.
        //! The limits of waiting requests and event streams are max_waits_per_project and
        //! max_streams_per_project in [transport].

        /// Maximum number of requests of a project in a second, in this process. A further request
        /// gets 503. Accepted: 0 to 1000000000000000. The default is 0.
        requests_per_second: u64 = 0 in QUOTA,
        /// Maximum number of bytes in a second that a project may send to this process in the
        /// bodies of requests that post messages. A further request gets 503. Accepted: 0 to
        /// 1000000000000000. The default is 0.
        posted_bytes_per_second: u64 = 0 in QUOTA,
        /// Maximum number of queues of a project. A request that would create another one gets 403.
        /// Accepted: 0 to 1000000000000000. The default is 0.
        queues: u64 = 0 in QUOTA,
        /// Maximum number of subscriptions in all queues of a project together. A request that
        /// would create another one gets 403. Accepted: 0 to 1000000000000000. The default is 0.
        subscriptions: u64 = 0 in QUOTA,
        /// Maximum number of messages in all queues of a project together. The number is counted
        /// once in a second, so it may be exceeded by what arrives meanwhile. A further post gets
        /// 403. Accepted: 0 to
        /// 1000000000000000. The default is 0.
        messages: u64 = 0 in QUOTA,
        /// Maximum number of messages in each queue. It is exact. A post that would exceed it gets
        /// 403. Accepted: 0 to 1000000000000000. The default is 0.
        messages_per_queue: u64 = 0 in QUOTA,
        /// Maximum number of bytes of the messages in all queues of a project together. It is
        /// counted like `messages`; docs/quotas.md says which bytes count. A further post gets 403.
        /// Accepted: 0 to
        /// 1000000000000000. The default is 0.
        bytes: u64 = 0 in QUOTA,
        /// Maximum number of bytes of the messages in each queue. It is exact. A post that would
        /// exceed it gets
        /// 403. Accepted: 0 to 1000000000000000. The default is 0.
        bytes_per_queue: u64 = 0 in QUOTA;

        /// Path of a file with the quotas of single projects, which replace those of this section.
        /// It is a TOML file with a table for each project, such as ["team-a"] with the line queues
        /// = 100. It is read when Sukkal starts. Accepted: the path of such a file, or empty. The
        /// default is empty.
        #[serde(rename = "projects_file", deserialize_with = "projects")]
        projects: HashMap<ProjectId, QuotaOverrides> = "" in QUOTA_FILE;

        /// Status of the response to a request that exceeds a rate. Published Zaqar clients take
        /// 429 for success. Accepted: 503 or 429. The default is 503.
        #[serde(deserialize_with = "rate_limit_status")]
        rate_limit_status: RateLimitStatus = 503 in Rule::OneOfNumbers(&[503, 429]);
    }
}

impl Quotas {
    /// Returns the quotas of projects. Those of waiting requests and event streams are options of
    /// `[transport]`.
    #[must_use]
    pub fn with(&self, transport: &Limits) -> QuotaConfig {
        let mut defaults = QuotaLimits::default();
        for quota in Quota::ALL {
            defaults[quota] = match quota {
                Quota::RequestsPerSecond => self.requests_per_second,
                Quota::PostedBytesPerSecond => self.posted_bytes_per_second,
                Quota::Queues => self.queues,
                Quota::Subscriptions => self.subscriptions,
                Quota::Messages => self.messages,
                Quota::MessagesPerQueue => self.messages_per_queue,
                Quota::Bytes => self.bytes,
                Quota::BytesPerQueue => self.bytes_per_queue,
                Quota::WaitingRequests => transport.max_waits_per_project.into(),
                Quota::EventStreams => transport.max_streams_per_project.into(),
            };
        }
        QuotaConfig { defaults, projects: self.projects.clone(), rate_limit_status: self.rate_limit_status }
    }
}

fn projects<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HashMap<ProjectId, QuotaOverrides>, D::Error> {
    read(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn rate_limit_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RateLimitStatus, D::Error> {
    let is_429 = u16::deserialize(deserializer)? == 429;
    Ok(if is_429 { RateLimitStatus::TooManyRequests } else { RateLimitStatus::Unavailable })
}

/// Reads the quotas of projects from this file; none without a path. The file has a table for each
/// project. The error says what is wrong with the file.
fn read(path: &str) -> Result<HashMap<ProjectId, QuotaOverrides>, String> {
    if path.is_empty() {
        return Ok(HashMap::default());
    }
    let text = text::read(path).map_err(|error| format!("the file cannot be read: {error}"))?;
    let tables: Table = text.parse().map_err(|error: toml::de::Error| {
        format!("the file is not valid TOML: {}", error.message().trim().replace('\n', " "))
    })?;
    tables.iter().map(|(project, quotas)| Ok((project_of(project)?, quotas_of(project, quotas)?))).collect()
}

fn project_of(text: &str) -> Result<ProjectId, String> {
    let is_valid = text.chars().count() <= PROJECT_ID_CHARS_MAX && !text.contains(char::is_control);
    ProjectId::new(text).filter(|_| is_valid).ok_or_else(|| {
        format!("the file has the project {text:?}; an id has 1 to {PROJECT_ID_CHARS_MAX} characters and no control characters")
    })
}

fn quotas_of(project: &str, value: &Value) -> Result<QuotaOverrides, String> {
    let names = || Quota::ALL.map(Quota::name).join(", ");
    let Value::Table(table) = value else {
        return Err(format!("the file has {project:?} outside of a table; write [{project:?}] above its quotas"));
    };
    let mut quotas = QuotaOverrides::default();
    for (name, limit) in table {
        let quota = Quota::named(name)
            .ok_or_else(|| format!("the file has the quota {name:?} for {project:?}; the quotas are {}", names()))?;
        let limit = limit.as_integer().and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit <= QUOTA_MAX);
        let wrong = || format!("the file has another {name} for {project:?} than an integer from 0 to {QUOTA_MAX}");
        quotas[quota] = Some(limit.ok_or_else(wrong)?);
    }
    Ok(quotas)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<HashMap<ProjectId, QuotaOverrides>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path().to_str().unwrap())
    }

    #[test]
    fn a_file_has_a_table_for_each_project() {
        let projects = read_text("[shop]\nqueues = 5\n[\"my team\"]\nrequests_per_second = 0").unwrap();

        assert_eq!(projects.len(), 2);
        assert_eq!(projects[&ProjectId::new("shop").unwrap()].set().collect::<Vec<_>>(), [(Quota::Queues, 5)]);
        assert_eq!(projects[&ProjectId::new("my team").unwrap()][Quota::RequestsPerSecond], Some(0));
        assert_eq!(read(""), Ok(HashMap::default()));
    }

    #[test]
    fn the_error_says_what_is_wrong_with_the_file() {
        for (text, expected) in [
            ("[shop", "the file is not valid TOML: "),
            ("queues = 5", "the file has \"queues\" outside of a table"),
            (
                "[shop]\nqueus = 5",
                "the file has the quota \"queus\" for \"shop\"; the quotas are requests_per_second, ",
            ),
            ("[shop]\nqueues = -1", "the file has another queues for \"shop\" than an integer from 0 to "),
            ("[shop]\nqueues = \"5\"", "the file has another queues for \"shop\" than an integer from 0 to "),
            ("[\"\"]\nqueues = 5", "the file has the project \"\"; "),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(read("/there/is/no/such/file").unwrap_err().starts_with("the file cannot be read: "));
    }
}
