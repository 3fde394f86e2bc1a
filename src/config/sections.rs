//! Sections with few options.

use std::path::PathBuf;

use serde::Deserialize;

use super::bind::{self, Bind};
use super::values;
use sukkal_domain::options::{Rule, options};
use sukkal_domain::{MonitoredQueues, Secret};

options! {
    /// `[signed_url]`, as in Zaqar.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct SignedUrl {
        /// Secret key that signs pre-signed URLs (POST .../share). All processes of a deployment
        /// need the same key. Accepted: any text. The default is empty: requests for pre-signed
        /// URLs get 400, and no pre-signed URL is valid. Generate the key with `openssl rand
        /// -base64 32`. A key of fewer than 32 bytes is logged as a warning. Changing the key
        /// invalidates all URLs signed with the old one, unless that is the accepted_secret_key.
        pub secret_key: Secret = "" in Rule::Secret,
        /// Second secret key, for a change of the key: URLs signed with it are valid, but no new
        /// URL is signed with it. Accepted: any text. The default is empty. First set it to the new
        /// key in all processes. Then exchange the two keys. When all URLs that were signed with
        /// the old key have expired, remove that key.
        pub accepted_secret_key: Secret = "" in Rule::Secret;
    }

    /// `[pooling]`: pools of stores.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Pooling {
        //! Pools are further stores in Redis that keep queues. docs/pools.md explains them. With
        //! pools, the option `store` names the management store, which has the list of pools. All
        //! processes of a deployment need the same values.

        /// Creates new queues in pools. Do not disable it while queues are in pools, because they
        /// cannot be used then. The routes /v2/pools and /v2/flavors, which manage pools, also need
        /// admin_mode. Accepted: true or false. The default is false.
        pub enabled: bool = false in Rule::Boolean,
        /// Creates queues for which there is no pool in the management store. Without it, such
        /// queues cannot be created. Accepted: true or false. The default is false.
        pub virtual_pool: bool = false in Rule::Boolean;
    }

    /// `[redis]`: TLS to Redis.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Redis {
        //! TLS to Redis, if `store` or the URI of a pool begins with rediss. The files are in PEM
        //! format. They are read again for each new connection, so certificates can be replaced
        //! without a restart. The certificate of a server must be valid for its host in the URI. In
        //! a cluster and behind Sentinels, it must also be valid for the addresses or names that
        //! the cluster and the Sentinels announce.

        /// File with the certificates of the authorities that are trusted. Accepted: a path, or
        /// empty. The default is empty: the authorities that the operating system trusts, or those
        /// in the file that the environment variable SSL_CERT_FILE names.
        #[serde(deserialize_with = "values::optional_file")]
        pub ca_file: Option<PathBuf> = "" in Rule::OPTIONAL_FILE,
        /// File with the client certificate, followed by those that link it to its authority. Redis
        /// needs it unless its option `tls-auth-clients` is `no` or `optional`. Accepted: a path,
        /// or empty, and then key_file must be empty too. The default is empty.
        #[serde(deserialize_with = "values::optional_file")]
        pub certificate_file: Option<PathBuf> = "" in Rule::OPTIONAL_FILE,
        /// File with the private key of the client certificate, without a passphrase. Accepted: a
        /// path, or empty. The default is empty.
        #[serde(deserialize_with = "values::optional_file")]
        pub key_file: Option<PathBuf> = "" in Rule::OPTIONAL_FILE;
    }

    /// `[embedded]`: the embedded store.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Embedded {
        //! There is no option for the size of the file. The file is less than twice as large as the
        //! data that was in use at one time, and at most 4 GiB larger. With messages of 1 KB, it is
        //! less than 6 times as large as the messages. `sukkal compact` makes the file smaller
        //! after a backlog.

        /// Time at which acknowledged changes are synced to disk (fsync). Accepted values:
        ///   "group"      before they are acknowledged; concurrent requests share one fsync
        ///   "interval"   within a second: a crash of the process or machine loses at most the last second
        ///   "off"        within a minute, or when the process stops: a crash loses at most the last minute
        /// After a crash, the file is consistent. It contains all changes that were acknowledged up
        /// to some time, and no later ones. The default is "group". Choose another value only if
        /// that loss is acceptable, because it makes changes faster.
        pub fsync: Fsync = "group" in Rule::OneOf(&["group", "interval", "off"]);
    }

    /// `[janitor]`: background maintenance.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Janitor {
        /// Pause between two rounds of maintenance, in seconds. A round reclaims expired messages
        /// of queues that no client uses. With Redis, only one process at a time runs maintenance,
        /// and it visits only queues in which changes are due. Accepted: 1 to 31622400. The default
        /// is 10.
        #[serde(rename = "pause")]
        pub pause_s: u64 = 10 in Rule::DURATION,
        /// Pause between two walks over all queues, in seconds. A walk repairs the effects of
        /// crashes and failovers. The option applies only to Redis. Accepted: 1 to 31622400. The
        /// default is 3600.
        #[serde(rename = "walk")]
        pub walk_s: u64 = 3600 in Rule::DURATION;
    }

    /// `[operations]`: monitoring.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Operations {
        /// Address of a separate listener for /healthz, /readyz and /metrics. It responds even if
        /// all connections of the API are in use. The API serves these paths too. Accepted: the
        /// same values as for `bind` above, or empty. The default is empty: there is no separate
        /// listener.
        #[serde(deserialize_with = "bind::optional")]
        pub bind: Option<Bind> = "" in bind::OPTIONAL_ADDRESS;
    }

    /// `[metrics]`: what the metrics include.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Metrics {
        /// Queues whose size, age and dead letters /metrics shows, with the labels `project` and
        /// `queue`. Each is written as "PROJECT/QUEUE", for example ["shop/orders", "shop/mails"].
        /// A topic is "PROJECT/~TOPIC", and "PROJECT/*" stands for all queues of a project. At most
        /// 500 queues are shown. They are read when the metrics are requested, at most every 10
        /// seconds. In the environment, the queues are separated by commas. Accepted: at most 500
        /// queues, which need not exist. The default is [].
        #[serde(deserialize_with = "values::queues")]
        pub queues: Vec<MonitoredQueues> = [] in values::QUEUES;
    }

    /// `[telemetry]`: traces.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Telemetry {
        /// URL of an OpenTelemetry collector that receives traces of requests, by OTLP over HTTP
        /// with protobuf. Sukkal sends them to the path /v1/traces below this URL. It does not use
        /// TLS, so run the collector on the same machine. If the collector cannot be reached,
        /// traces are dropped, and requests are not affected. The environment variables
        /// OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and
        /// OTEL_EXPORTER_OTLP_HEADERS of OpenTelemetry have their usual effects.
        /// OTEL_EXPORTER_OTLP_ENDPOINT has none, and is logged as a warning if this option is
        /// empty. Accepted: a URL such as "http://127.0.0.1:4318", or empty. The default is empty:
        /// nothing is traced.
        #[serde(deserialize_with = "values::optional_text")]
        pub otlp_endpoint: Option<String> = "" in values::OPTIONAL_HTTP_URL;
    }

    /// `[audit]`: the audit log.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Audit {
        //! The audit log: one JSON object for each change of queues, subscriptions, tasks, tokens
        //! and quotas, for each request that acts on another project, and for each refused request.
        //! It contains no bodies and no secrets. See docs/security.md.

        /// File to which the lines are appended. Only the user that runs Sukkal can read a new
        /// file. When the file has been renamed or deleted, the next line begins a new one. Sukkal
        /// does not start if the file cannot be opened. Accepted: the path of a file, "stderr",
        /// "stdout", or empty. The default is empty: there is no audit log.
        #[serde(deserialize_with = "values::optional_text")]
        pub file: Option<String> = "" in Rule::OPTIONAL_FILE;
    }

    /// `[log]`: the log.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Log {
        /// Filter for log messages. Accepted: error, warn, info, debug (which logs each request) or
        /// trace. Levels by module are accepted too, such as "info,sukkal::api=debug" (the syntax
        /// of the Rust crate tracing-subscriber). The default is
        /// "info,fred=error,h2=error,rustls=error"; fred is the Redis client, and h2 and rustls
        /// warn about each client that breaks a rule.
        pub filter: String = "info,fred=error,h2=error,rustls=error" in values::FILTER,
        /// Format of log messages. Accepted: "text", "json", or "auto" for text on a terminal and
        /// JSON otherwise. The default is "auto".
        pub format: LogFormat = "auto" in Rule::OneOf(&["auto", "text", "json"]);
    }
}

/// When acknowledged writes are on disk.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// Before they are acknowledged.
    Group,
    /// Within a second.
    Interval,
    /// Within a minute, or when the process stops.
    Off,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Lines of text.
    Text,
    /// One JSON object for each line.
    Json,
}
