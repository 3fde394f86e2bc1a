//! The stored form of tokens.
//!
//! Scripts read and write its start. All numbers are big-endian:
//!
//! | bytes | contents |
//! |---|---|
//! | 8 | time of creation (µs) |
//! | 8 | time of expiry (µs), 0 if the token does not expire |
//! | 2 | length of the project; 0 if the token is for all projects |
//! | | the project |
//! | 32 | hash of the secret |
//! | | name and roles, in `MessagePack` |

use std::time::Duration;

use bytes::{Buf, BufMut};

use super::error::Error;
use crate::domain::{NewToken, ProjectId, TokenGrant, TokenHash, TokenId, TokenRecord};

const HASH_BYTES: usize = 32;

/// The part of a record that scripts write, or that is found in a stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenHead {
    pub(super) created_us: u64,
    /// 0 if the token does not expire.
    pub(super) ends_us: u64,
    pub(super) project: Option<ProjectId>,
}

impl TokenHead {
    /// Returns the head of a token that is created at this time (µs).
    pub(super) fn of(new: &NewToken, now_us: u64) -> Self {
        let ends_us = new.ttl_s.map_or(0, |ttl_s| now_us.saturating_add(ttl_s.saturating_mul(1_000_000)));
        Self { created_us: now_us, ends_us, project: new.grant.project.clone() }
    }

    /// Returns whether the token has expired at this time (µs).
    pub(super) fn has_ended(&self, now_us: u64) -> bool {
        self.ends_us > 0 && self.ends_us <= now_us
    }

    /// Returns the head and the rest of a record.
    pub(super) fn decode(mut record: &[u8]) -> Result<(Self, &[u8]), Error> {
        let record = &mut record;
        let (created_us, ends_us) = (record.try_get_u64(), record.try_get_u64());
        let length = record.try_get_u16().map_or(usize::MAX, usize::from);
        let (Ok(created_us), Ok(ends_us), Some((project, rest))) =
            (created_us, ends_us, record.split_at_checked(length))
        else {
            return Err(corrupt("its start is incomplete"));
        };
        let project = str::from_utf8(project).map_err(|_| corrupt("its project is not UTF-8"))?;
        Ok((Self { created_us, ends_us, project: ProjectId::new(project) }, rest))
    }
}

/// Returns the whole record.
pub(super) fn encode(head: &TokenHead, new: &NewToken) -> Vec<u8> {
    let project = head.project.as_ref().map_or("", ProjectId::as_str);
    let mut record = Vec::with_capacity(256);
    record.put_u64(head.created_us);
    record.put_u64(head.ends_us);
    record.put_u16(u16::try_from(project.len()).expect("ids of projects are short"));
    record.put_slice(project.as_bytes());
    record.extend(encode_rest(new));
    record
}

/// Returns the part of a record that follows its start.
pub(super) fn encode_rest(new: &NewToken) -> Vec<u8> {
    let mut rest = new.hash.as_bytes().to_vec();
    rest.extend(rmp_serde::to_vec(&(&new.grant.name, &new.grant.roles)).expect("texts are encodable"));
    rest
}

/// Returns the token with this record at a time (µs), or `None` if it has expired.
pub(super) fn decode(id: TokenId, record: &[u8], now_us: u64) -> Result<Option<TokenRecord>, Error> {
    read(id, record, now_us).map_err(|error| error.of(format_args!("token {id}")))
}

fn read(id: TokenId, record: &[u8], now_us: u64) -> Result<Option<TokenRecord>, Error> {
    let (head, rest) = TokenHead::decode(record)?;
    if head.has_ended(now_us) {
        return Ok(None);
    }
    let (hash, texts) = rest.split_first_chunk::<HASH_BYTES>().ok_or_else(|| corrupt("it has no hash"))?;
    let (name, roles) = rmp_serde::from_slice(texts).map_err(|_| corrupt("its name or its roles are damaged"))?;
    let ends_us = Some(head.ends_us).filter(|ends_us| *ends_us > 0);
    Ok(Some(TokenRecord {
        id,
        grant: TokenGrant { name, project: head.project, roles },
        hash: TokenHash::from_bytes(*hash),
        created_s: head.created_us / 1_000_000,
        expires_s: ends_us.map(|ends_us| ends_us / 1_000_000),
        life_left: ends_us.map(|ends_us| Duration::from_micros(ends_us - now_us)),
    }))
}

fn corrupt(reason: &str) -> Error {
    Error::Corrupt(format!("the record of a token is damaged: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Token;

    #[test]
    fn a_token_is_returned_as_it_was_stored_until_it_expires() {
        for (project, ttl_s) in [(Some("p"), Some(60)), (None, None), (Some("ä\0/{}"), None)] {
            let token = Token::random();
            let grant = TokenGrant {
                name: "a name".to_owned(),
                project: project.and_then(ProjectId::new),
                roles: vec!["worker".to_owned(), "reader".to_owned()],
            };
            let new = NewToken { id: token.id(), grant: grant.clone(), hash: token.hash(), ttl_s };

            let record = encode(&TokenHead::of(&new, 5_000_000), &new);

            let read = decode(new.id, &record, 6_500_000).unwrap().unwrap();
            assert_eq!((read.id, &read.grant, read.hash, read.created_s), (new.id, &grant, new.hash, 5));
            assert_eq!(read.expires_s, ttl_s.map(|ttl_s| 5 + ttl_s));
            assert_eq!(read.life_left, ttl_s.map(|_| Duration::from_millis(58_500)));
            assert_eq!(decode(new.id, &record, 65_000_000).unwrap().is_none(), ttl_s.is_some());
            for length in 0..record.len() {
                assert!(decode(new.id, &record[..length], 0).is_err(), "{length} bytes");
            }
        }
    }
}
