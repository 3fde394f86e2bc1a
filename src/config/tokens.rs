//! `[tokens]`: tokens that the service issues.

use serde::Deserialize;

use super::Error;
use super::values::optional_text;
use sukkal_domain::options::{Rule, options};
use sukkal_domain::{AuthStrategy, Secret, Token};

const OPTIONAL_TOKEN: Rule = Rule::HiddenText(
    |text| text.is_empty() || Token::parse(text).is_some(),
    "a token that `sukkal token generate` has printed, or empty",
);

options! {
    /// `[tokens]`: tokens that the service issues.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Tokens {
        //! Tokens are API keys that Sukkal itself issues: skt_ID_SECRET. `sukkal token create`
        //! creates one, and clients send it as `Authorization: Bearer`.

        /// Token of an admin, who creates the first tokens. It is valid without being stored, also
        /// while the store is unavailable, as long as this option is set. All processes of a
        /// deployment need the same one. Accepted: a token that `sukkal token generate` has
        /// printed, or empty. Set it as SUKKAL_TOKENS__ADMIN_TOKEN to keep it out of files. The
        /// default is empty.
        pub admin_token: Secret = "" in OPTIONAL_TOKEN,
        /// Name of a file with that token, which is read when Sukkal starts. Accepted: the name of
        /// a file, or empty. Only one of the two options may be set. The default is empty.
        #[serde(deserialize_with = "optional_text")]
        pub admin_token_file: Option<String> = "" in Rule::OPTIONAL_FILE;
    }
}

impl Tokens {
    /// Refuses two tokens of the admin. Returns a warning if one has no effect.
    pub(super) fn check(&self, strategies: &[AuthStrategy]) -> Result<Option<String>, Error> {
        let are_credentials = strategies.contains(&AuthStrategy::Tokens);
        match (self.admin_token.reveal(), &self.admin_token_file) {
            (Some(_), Some(_)) => {
                let reason = "tokens.admin_token and tokens.admin_token_file are both set; set one of them";
                Err(Error::Invalid(reason.to_owned()))
            }
            (None, None) => Ok(None),
            _ if are_credentials => Ok(None),
            _ => Ok(Some("the token in [tokens] has no effect without \"tokens\" in auth.strategies".to_owned())),
        }
    }
}
