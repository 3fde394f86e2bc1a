//! Checks what a client has sent for a new token.

use thiserror::Error;

use super::queue_id::PROJECT_ID_CHARS_MAX;
use super::role;
use super::{NewToken, ProjectId, Token, TokenGrant};

/// Maximum length of the name of a token, in characters.
const NAME_CHARS_MAX: usize = 100;
/// Maximum number of roles of a token.
const ROLES_MAX: usize = 16;
/// Maximum length of a role, in characters.
const ROLE_CHARS_MAX: usize = 64;
/// Maximum time to live of a token in seconds: ten years.
const TTL_S_MAX: i64 = 3660 * 24 * 3600;

/// What a client has sent for a new token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenDraft {
    /// Name of the token.
    pub name: String,
    /// Id of the project; `None` for all projects.
    pub project: Option<String>,
    /// The roles.
    pub roles: Vec<String>,
    /// Time to live in seconds; `None` if the token does not expire.
    pub ttl_s: Option<i64>,
}

/// Why a request for a token or its creation is wrong.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidToken {
    /// The name is empty, too long, or has control characters.
    #[error("name must have 1 to {NAME_CHARS_MAX} characters, and no control characters")]
    Name,
    /// The project is empty, too long, or has control characters.
    #[error("project_id must have 1 to {PROJECT_ID_CHARS_MAX} characters, and no control characters")]
    Project,
    /// There is no role, or there are too many of them.
    #[error("roles has {0} roles; it must have 1 to {ROLES_MAX}")]
    RoleCount(usize),
    /// A role is empty, too long, or has other characters.
    #[error("roles contains {0:?}; a role must have 1 to {ROLE_CHARS_MAX} characters of A-Z a-z 0-9 _ - . :")]
    Role(String),
    /// A role is not for tokens.
    #[error("roles contains {0:?}, which only requests with a pre-signed URL have")]
    SignedUrl(String),
    /// No rule of the policy names a role.
    #[error("roles contains {role:?}, which no rule of the policy names{}", hint(.nearest.as_deref()))]
    UnknownRole {
        /// The role.
        role: String,
        /// The most similar role that a rule names, if one is similar enough.
        nearest: Option<String>,
    },
    /// The time to live is outside its limits.
    #[error("ttl is {0}; it must be between 1 and {TTL_S_MAX} seconds")]
    Ttl(i64),
    /// A whole token was given where its id belongs. The text does not repeat it.
    #[error("the path has a token; it must have only the id of the token, which is the part between skt_ and _")]
    WholeToken,
}

impl TokenDraft {
    /// Returns a new token for this draft, and what is stored of it.
    pub fn issue(self) -> Result<(Token, NewToken), InvalidToken> {
        let Self { name, project, roles, ttl_s } = self;
        let is_text = |text: &str, max| (1..=max).contains(&text.chars().count()) && !text.contains(char::is_control);
        if !is_text(&name, NAME_CHARS_MAX) {
            return Err(InvalidToken::Name);
        }
        if project.as_ref().is_some_and(|project| !is_text(project, PROJECT_ID_CHARS_MAX)) {
            return Err(InvalidToken::Project);
        }
        if !(1..=ROLES_MAX).contains(&roles.len()) {
            return Err(InvalidToken::RoleCount(roles.len()));
        }
        if let Some(role) = roles.iter().find(|role| !is_role(role)) {
            return Err(InvalidToken::Role(role.chars().take(ROLE_CHARS_MAX).collect()));
        }
        if let Some(role) = roles.iter().find(|role| !role::is_role_of_credentials(role)) {
            return Err(InvalidToken::SignedUrl(role.clone()));
        }
        if let Some(ttl_s) = ttl_s.filter(|ttl_s| !(1..=TTL_S_MAX).contains(ttl_s)) {
            return Err(InvalidToken::Ttl(ttl_s));
        }
        let token = Token::random();
        let new = NewToken {
            id: token.id(),
            grant: TokenGrant { name, project: project.as_deref().and_then(ProjectId::new), roles },
            hash: token.hash(),
            ttl_s: ttl_s.and_then(|ttl_s| u64::try_from(ttl_s).ok()),
        };
        Ok((token, new))
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean {nearest:?}?")).unwrap_or_default()
}

fn is_role(text: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    (1..=ROLE_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> TokenDraft {
        TokenDraft { name: "n".to_owned(), project: None, roles: vec!["worker".to_owned()], ttl_s: None }
    }

    fn with_roles(roles: &[&str]) -> Result<(Token, NewToken), InvalidToken> {
        TokenDraft { roles: roles.iter().map(|&role| role.to_owned()).collect(), ..draft() }.issue()
    }

    #[test]
    fn a_draft_within_the_limits_is_issued_as_it_is() {
        let draft = TokenDraft {
            name: "é".repeat(NAME_CHARS_MAX),
            project: Some("p".repeat(PROJECT_ID_CHARS_MAX)),
            roles: vec!["a".repeat(ROLE_CHARS_MAX); ROLES_MAX],
            ttl_s: Some(TTL_S_MAX),
        };

        let (token, new) = draft.clone().issue().unwrap();

        assert_eq!((new.id, new.hash), (token.id(), token.hash()));
        assert_eq!((new.grant.name, new.grant.roles), (draft.name, draft.roles));
        assert_eq!(new.grant.project.unwrap().as_str(), draft.project.unwrap());
        assert_eq!(new.ttl_s, Some(316_224_000));
    }

    #[test]
    fn a_draft_outside_the_limits_is_refused() {
        for name in ["", "a\nb", &"n".repeat(NAME_CHARS_MAX + 1)] {
            let draft = TokenDraft { name: name.to_owned(), ..draft() };
            assert_eq!(draft.issue().unwrap_err(), InvalidToken::Name, "{name:?}");
        }
        for project in ["", "a\0b", &"p".repeat(PROJECT_ID_CHARS_MAX + 1)] {
            let draft = TokenDraft { project: Some(project.to_owned()), ..draft() };
            assert_eq!(draft.issue().unwrap_err(), InvalidToken::Project, "{project:?}");
        }
        for ttl_s in [0, -1, TTL_S_MAX + 1, i64::MAX] {
            let draft = TokenDraft { ttl_s: Some(ttl_s), ..draft() };
            assert_eq!(draft.issue().unwrap_err(), InvalidToken::Ttl(ttl_s));
        }
        for count in [0, ROLES_MAX + 1] {
            assert_eq!(with_roles(&vec!["r"; count]).unwrap_err(), InvalidToken::RoleCount(count));
        }
        for role in ["", "a b", "a,b", "é", &"r".repeat(ROLE_CHARS_MAX + 1)] {
            assert!(matches!(with_roles(&["r", role]), Err(InvalidToken::Role(_))), "{role:?}");
        }
        assert_eq!(with_roles(&["r", "Signed_URL"]).unwrap_err(), InvalidToken::SignedUrl("Signed_URL".to_owned()));
    }
}
