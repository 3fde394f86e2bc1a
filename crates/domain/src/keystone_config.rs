//! The options of Keystone: `[keystone]`.

use serde::Deserialize;

use super::Secret;
use crate::options::{Rule, options};

options! {
    /// The options of Keystone, the identity service of `OpenStack`.
    #[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
    pub struct KeystoneConfig {
        //! Tokens of Keystone, the identity service of OpenStack. Sukkal asks Keystone about each
        //! token, and again after 5 minutes. If Keystone cannot be reached, requests with tokens
        //! that are not remembered get 503.

        /// URL of Keystone for Sukkal, with or without /v3. Accepted: a URL such as
        /// "https://keystone.example.com:5000/v3", or empty. An http URL of another machine causes
        /// a warning. The default is empty: no token is accepted.
        pub auth_url: String = "" in Rule::OPTIONAL_WEB_URL,
        /// URL of Keystone for clients, which a 401 response shows in WWW-Authenticate. Accepted: a
        /// URL, or empty. The default is empty: it is auth_url.
        pub www_authenticate_uri: String = "" in Rule::OPTIONAL_WEB_URL,
        /// Name of the service user, which validates tokens. Accepted: any text. The default is
        /// empty.
        pub username: String = "" in Rule::TEXT,
        /// Password of the service user. Set it as SUKKAL_KEYSTONE__PASSWORD to keep it out of
        /// files. Accepted: any text. The default is empty.
        pub password: Secret = "" in Rule::PASSWORD,
        /// Domain of the service user. Accepted: a name. The default is "Default".
        pub user_domain_name: String = "Default" in Rule::NAME,
        /// Project of the service user, in which it must have a role that may validate tokens, such
        /// as "service" or "admin". Accepted: a name. The default is "service".
        pub project_name: String = "service" in Rule::NAME,
        /// Domain of that project. Accepted: a name. The default is "Default".
        pub project_domain_name: String = "Default" in Rule::NAME,
        /// Roles of services that call on behalf of users. If the token in X-Service-Token has one
        /// of them, the token of the user may have expired. Accepted: a list of names. In the
        /// environment, they are separated by commas. The default is ["service"].
        pub service_token_roles: Vec<String> = ["service"] in Rule::NAMES;
    }
}
