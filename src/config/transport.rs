//! `[transport]`: limits and defaults of the API, the encryption of messages, and clients.

use serde::{Deserialize, Deserializer};

use super::cors;
use sukkal_domain::options::{Rule, options};
use sukkal_domain::queue_id::PROJECT_ID_CHARS_MAX;
use sukkal_domain::{ClientIdRule, Limits, ProjectId, Secret, WebOrigins};

const CHARACTERS: Rule = Rule::Integer(0, 10_000, "characters");
const OPTIONAL_PROJECT: Rule =
    Rule::Text(is_project, "the id of a project, with at most 256 characters and no control characters, or empty");

const PUBLIC_PATH: Rule = Rule::Text(is_public_path, "a path such as /mq, which does not end with a slash, or empty");

options! {
    /// `[transport]`, as in Zaqar.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Transport {
        //! A default must not exceed its maximum. If you set only the maximum, to a value below the
        //! default, the default is reduced to the maximum. This also applies to the lengths of a
        //! Client-ID.

        /// Limits and defaults.
        #[serde(flatten)]
        pub limits: Limits;

        /// Passphrase that encrypts the messages of queues with `_enable_encrypt_messages` in the
        /// store. All processes that share a store need the same passphrase. Accepted: any text.
        /// The default is empty: then no queue can enable encryption. The key is derived from the
        /// passphrase without stretching, so generate it with `openssl rand -base64 32`. A
        /// passphrase of fewer than 32 bytes is logged as a warning. Set it as
        /// SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY to keep it out of files. Messages that were
        /// encrypted with another passphrase can be read only if it is one of
        /// message_decryption_keys.
        pub message_encryption_key: Secret = "" in Rule::Secret,
        /// Further passphrases, which only decrypt messages. They are for a change of
        /// message_encryption_key. Accepted: a list of texts. In the environment, they are
        /// separated by commas, and white space beside a comma is part of a passphrase. List one
        /// that has a comma in a file. The default is []. First add the new passphrase here in all
        /// processes. Then exchange it with message_encryption_key in all processes. Then run
        /// `sukkal rekey`, which encrypts the stored messages with the new passphrase, and remove
        /// the old one.
        pub message_decryption_keys: Vec<Secret> = [] in Rule::Secrets;

        /// Format of the header Client-ID. Accepted: "strict" for UUIDs only, or "off" for any text
        /// whose length is within the two limits below. The default is "strict".
        client_id_uuid_safe: ClientIdCheck = "strict" in Rule::OneOf(&["strict", "off"]),
        /// Minimum length of a Client-ID in characters, if client_id_uuid_safe is "off". Accepted:
        /// 0 to 10000, and at most max_length_client_id. The default is 10.
        min_length_client_id: usize = 10 in CHARACTERS,
        /// Maximum length of a Client-ID in characters, if client_id_uuid_safe is "off". Accepted:
        /// 0 to
        /// 10000. The default is 36.
        max_length_client_id: usize = 36 in CHARACTERS,
        /// Whether a request must have a Client-ID. Accepted: "required", or "optional": then a
        /// request without a Client-ID gets a random one of its own. Lists therefore include all
        /// messages, as if other clients had posted them. A post with an Idempotency-Key still
        /// needs a Client-ID. The default is "required".
        client_id: ClientIdNeed = "required" in Rule::OneOf(&["required", "optional"]);

        /// Project of requests that have no header X-Project-ID, X-Tenant-ID or X-Tenant, for use
        /// on your own machine. It applies only without strategies in [auth] or with the strategy
        /// "none". Accepted: the id of a project, with at most 256 characters, or empty. The
        /// default is empty: each request must name its project. Requests with an `Origin` other
        /// than that of Sukkal get neither this project nor a random Client-ID, unless cors_origins
        /// includes the origin. Neither do requests whose header `Host` is not localhost, an IP
        /// address, a name in `bind` of a listener or a host in cors_origins.
        #[serde(deserialize_with = "optional_project")]
        pub default_project: Option<ProjectId> = "" in OPTIONAL_PROJECT;

        /// Origins of the web pages that may use the API from a browser (CORS). Accepted: a list of
        /// origins, such as ["https://app.example.com", "http://localhost:3000"], or "*" for all
        /// origins. Spell an origin as the browser does in its header `Origin`: the scheme and host
        /// in lower case, and the port unless it is the default one. In the environment, the
        /// origins are separated by commas. The default is empty: only pages from the address of
        /// Sukkal itself can use the API. CORS does not replace authentication: pages of an allowed
        /// origin can do what their user can do.
        #[serde(deserialize_with = "cors::read")]
        pub cors_origins: Option<WebOrigins> = [] in cors::ORIGINS;

        /// Path at which a proxy publishes the API, if that is not the root of the proxy. Sukkal
        /// puts it before the link in the list of versions, which openstacksdk follows. Other paths
        /// in responses do not contain it, because clients add the prefix of their URL to these.
        /// The proxy must remove the prefix from requests. Accepted: a path such as "/mq", with
        /// letters, digits and - . _ ~ in its segments, or empty. The default is empty: the API is
        /// at the root.
        pub public_path: String = "" in PUBLIC_PATH;
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum ClientIdCheck {
    Strict,
    Off,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum ClientIdNeed {
    Required,
    Optional,
}

impl Transport {
    /// The rule for valid client ids.
    #[must_use]
    pub fn client_id(&self) -> ClientIdRule {
        match self.client_id_uuid_safe {
            ClientIdCheck::Strict => ClientIdRule::Uuid,
            ClientIdCheck::Off => ClientIdRule::Text(self.min_length_client_id..=self.max_length_client_id),
        }
    }

    /// Whether a request may have no client id.
    #[must_use]
    pub fn client_id_is_optional(&self) -> bool {
        self.client_id == ClientIdNeed::Optional
    }
}

/// Returns whether a text is the id of a project, or empty.
fn is_project(text: &str) -> bool {
    const { assert!(PROJECT_ID_CHARS_MAX == 256, "the description of the rule has the number") }
    text.chars().count() <= PROJECT_ID_CHARS_MAX && !text.contains(char::is_control)
}

/// Returns whether a text is a path without a slash at its end, or empty.
fn is_public_path(text: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_segment = |text: &str| !["", ".", ".."].contains(&text) && text.bytes().all(is_legal);
    text.is_empty() || text.strip_prefix('/').is_some_and(|path| path.split('/').all(is_segment))
}

fn optional_project<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ProjectId>, D::Error> {
    String::deserialize(deserializer).map(|text| ProjectId::new(&text))
}
