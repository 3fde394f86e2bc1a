//! The claims of a token (RFC 7519): which of them must be there, and the identity that they prove
//! if the signature is valid.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use crate::auth::Identity;
use sukkal_domain::queue_id::PROJECT_ID_CHARS_MAX;
use sukkal_domain::{JwtConfig, ProjectId};

/// What the claims of a token prove if its signature is valid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proof {
    pub(super) identity: Identity,
    /// The time in the claim `exp`.
    pub(super) expires_at: SystemTime,
}

/// Checks the claims. Returns why they are not accepted.
pub(super) fn check(claims: Map<String, Value>, config: &JwtConfig, now: SystemTime) -> Result<Proof, String> {
    let leeway = Duration::from_secs(config.leeway_s);
    if claims.get("iss").and_then(Value::as_str) != Some(&config.issuer) {
        return Err("the claim iss of the token must be the configured issuer".to_owned());
    }
    let is_for_us = |name: &Value| name.as_str().is_some_and(|name| config.audience.iter().any(|own| own == name));
    let is_accepted = match claims.get("aud") {
        Some(Value::Array(names)) => names.iter().any(is_for_us),
        Some(name) => is_for_us(name),
        None => false,
    };
    if !is_accepted {
        return Err("the claim aud of the token must have a configured audience".to_owned());
    }
    let expires_at = time(&claims, "exp")?.ok_or("the token must have the claim exp")?;
    // The credential is accepted until then, so event streams last as long.
    let accepted_until = expires_at.checked_add(leeway).ok_or("the claim exp of the token is too large")?;
    if now >= accepted_until {
        return Err("the token has expired; request a new one".to_owned());
    }
    if time(&claims, "nbf")?.is_some_and(|start| start > now + leeway) {
        return Err("the token is not valid yet (claim nbf)".to_owned());
    }
    let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
    let subject = subject.ok_or("the token must have the claim sub")?.to_owned();

    let claims = Value::Object(claims);
    let project = project(&claims, &config.project_claim)?;
    let roles = roles(&claims, &config.roles_claim)?;
    let identity = Identity { subject, project: Some(project), roles, expires_at: Some(accepted_until) };
    Ok(Proof { identity, expires_at })
}

fn project(claims: &Value, name: &str) -> Result<ProjectId, String> {
    let text = claim(claims, name).and_then(Value::as_str);
    let is_legal = |text: &&str| text.chars().count() <= PROJECT_ID_CHARS_MAX && !text.contains(char::is_control);
    text.filter(is_legal).and_then(ProjectId::new).ok_or_else(|| {
        format!(
            "the claim {name} of the token must be the id of a project, with at most {PROJECT_ID_CHARS_MAX} characters"
        )
    })
}

/// Returns the roles in a list or in a text with spaces between them. A token without the claim has
/// none.
fn roles(claims: &Value, name: &str) -> Result<Vec<String>, String> {
    let roles = match claim(claims, name) {
        None => Some(Vec::new()),
        Some(Value::String(text)) => Some(text.split_whitespace().map(str::to_owned).collect()),
        Some(Value::Array(items)) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    };
    roles.ok_or_else(|| {
        format!("the claim {name} of the token must be a list of roles, or a text with spaces between them")
    })
}

/// Returns the claim with this name. A name may have dots itself, or lead into objects, such as
/// `realm_access.roles`. The claim with the whole name has precedence.
fn claim<'c>(claims: &'c Value, name: &str) -> Option<&'c Value> {
    claims.get(name).or_else(|| {
        let inner = |(dot, _): (usize, &str)| claim(claims.get(&name[..dot])?, &name[dot + 1..]);
        name.match_indices('.').find_map(inner)
    })
}

/// Returns the time in a claim, which is in seconds since 1970. An earlier time counts as 1970.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<SystemTime>, String> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
    let time = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(seconds));
    time.map(Some).ok_or_else(|| format!("the claim {name} of the token must be a time in seconds since 1970"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use sukkal_domain::JwtAlgorithm;

    const NOW_S: u64 = 1_700_000_000;

    fn config(project_claim: &str, roles_claim: &str) -> JwtConfig {
        JwtConfig {
            issuer: "https://idp.example.com/".to_owned(),
            jwks: String::new(),
            audience: vec!["queues".to_owned(), "messages".to_owned()],
            algorithms: vec![JwtAlgorithm::Rs256],
            project_claim: project_claim.to_owned(),
            roles_claim: roles_claim.to_owned(),
            leeway_s: 60,
        }
    }

    fn check_at_now(claims: Value, config: &JwtConfig) -> Result<Proof, String> {
        let Value::Object(claims) = claims else { panic!("claims are an object") };
        check(claims, config, UNIX_EPOCH + Duration::from_secs(NOW_S))
    }

    /// Valid claims with one of them changed; `null` removes it.
    fn claims_with(name: &str, value: Value) -> Value {
        let mut claims = json!({
            "iss": "https://idp.example.com/", "aud": "queues", "sub": "user-7", "exp": NOW_S + 100,
            "project_id": "shop", "roles": ["reader"],
        });
        let object = claims.as_object_mut().unwrap();
        if value.is_null() {
            object.remove(name);
        } else {
            object.insert(name.to_owned(), value);
        }
        claims
    }

    #[test]
    fn valid_claims_prove_an_identity() {
        let proof = check_at_now(claims_with("", json!(0)), &config("project_id", "roles")).unwrap();

        let (exp, until) =
            (UNIX_EPOCH + Duration::from_secs(NOW_S + 100), UNIX_EPOCH + Duration::from_secs(NOW_S + 160));
        let (project, roles) = (ProjectId::new("shop"), vec!["reader".to_owned()]);
        let identity = Identity { subject: "user-7".to_owned(), project, roles, expires_at: Some(until) };
        assert_eq!(proof, Proof { identity, expires_at: exp });
    }

    #[test]
    fn each_claim_has_its_rule() {
        let long = "p".repeat(PROJECT_ID_CHARS_MAX + 1);
        for (name, value, is_accepted) in [
            ("iss", json!(null), false),
            ("iss", json!("https://idp.example.com"), false),
            ("iss", json!(["https://idp.example.com/"]), false),
            ("aud", json!(null), false),
            ("aud", json!("other"), false),
            ("aud", json!([]), false),
            ("aud", json!(["other", "messages"]), true),
            ("aud", json!([1, "queues"]), true),
            ("aud", json!({ "queues": 1 }), false),
            ("sub", json!(null), false),
            ("sub", json!(""), false),
            ("sub", json!(7), false),
            ("exp", json!(null), false),
            ("exp", json!(NOW_S - 59), true),
            ("exp", json!(NOW_S - 60), false),
            ("exp", json!(0), false),
            ("exp", json!(-1e300), false),
            ("exp", json!(1e300), false),
            ("exp", json!(i64::MAX), false),
            ("exp", json!((NOW_S + 100).to_string()), false),
            ("exp", json!(1_700_000_000.5), true),
            ("nbf", json!(NOW_S + 60), true),
            ("nbf", json!(NOW_S + 61), false),
            ("nbf", json!("soon"), false),
            ("project_id", json!(null), false),
            ("project_id", json!(""), false),
            ("project_id", json!(["shop"]), false),
            ("project_id", json!("a\nb"), false),
            ("project_id", json!(long), false),
            ("roles", json!(null), true),
            ("roles", json!("reader worker"), true),
            ("roles", json!([]), true),
            ("roles", json!(["reader", 1]), false),
            ("roles", json!(1), false),
        ] {
            let shown = format!("{name} = {value}");
            let outcome = check_at_now(claims_with(name, value), &config("project_id", "roles"));

            assert_eq!(outcome.is_ok(), is_accepted, "{shown}");
            assert!(outcome.err().is_none_or(|text| !text.contains("user-7")), "{shown}");
        }
    }

    #[test]
    fn names_of_claims_have_dots_or_lead_into_objects() {
        for (name, value) in [
            ("realm_access.roles", json!({ "realm_access": { "roles": "a b" } })),
            ("resource_access.my.client.roles", json!({ "resource_access": { "my.client": { "roles": ["a", "b"] } } })),
            ("https://example.com/roles", json!({ "https://example.com/roles": ["a", "b"] })),
            ("x.y", json!({ "x.y": ["a", "b"], "x": { "y": ["c"] } })),
        ] {
            assert_eq!(roles(&value, name).unwrap(), ["a", "b"], "{name}");
        }
        for value in [json!({ "realm_access": [] }), json!({ "realm_access": { "Roles": ["a"] } }), json!({})] {
            assert_eq!(roles(&value, "realm_access.roles").unwrap(), [""; 0], "{value}");
        }
    }
}
