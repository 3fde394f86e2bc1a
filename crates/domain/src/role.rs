//! The role that the service itself gives.

/// The role of a request with a pre-signed URL. The request has no other role, and no other request
/// has this one.
pub const SIGNED_URL: &str = "signed_url";

/// Returns whether a credential may have this role. Upper and lower case are equal, as in policies.
#[must_use]
pub fn is_role_of_credentials(role: &str) -> bool {
    !role.eq_ignore_ascii_case(SIGNED_URL)
}
