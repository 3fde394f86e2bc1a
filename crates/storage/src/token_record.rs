//! The stored form of tokens.
//!
//! All numbers are big-endian:
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
use super::records::Indexed;
use sukkal_domain::{NewToken, ProjectId, TokenGrant, TokenHash, TokenId, TokenRecord};

const HASH_BYTES: usize = 32;

/// Returns the record of a token that is created at this time (µs).
pub(super) fn encode(new: &NewToken, now_us: u64) -> Vec<u8> {
    let end_us = new.ttl_s.map_or(0, |ttl_s| now_us.saturating_add(ttl_s.saturating_mul(1_000_000)));
    let project = new.grant.project.as_ref().map_or("", ProjectId::as_str);
    let mut record = Vec::with_capacity(256);
    record.put_u64(now_us);
    record.put_u64(end_us);
    record.put_u16(u16::try_from(project.len()).expect("ids of projects are short"));
    record.put_slice(project.as_bytes());
    record.put_slice(new.hash.as_bytes());
    record.extend(rmp_serde::to_vec(&(&new.grant.name, &new.grant.roles)).expect("texts are encodable"));
    record
}

/// Returns the token with this record at a time (µs), or `None` if it has expired. The key is its
/// id.
pub(super) fn decode(key: &[u8], record: &[u8], now_us: u64) -> Result<Option<TokenRecord>, Error> {
    let id = read_id(key)?;
    read(id, record, now_us).map_err(|error| error.of(format_args!("token {id}")))
}

/// Returns the name of a token for messages. Fails if its record cannot be read.
pub(super) fn check(key: &[u8], record: &[u8]) -> Result<String, Error> {
    decode(key, record, 0)?;
    Ok(format!("token {}", read_id(key)?))
}

/// Returns what the indexes have of a token.
pub(super) fn indexed(record: &[u8]) -> Result<Indexed, Error> {
    split(record).map(|(_, indexed, _)| indexed)
}

/// Returns the time of creation (µs), what the indexes have of the token, and the rest of the
/// record.
fn split(mut record: &[u8]) -> Result<(u64, Indexed, &[u8]), Error> {
    let record = &mut record;
    let (created_us, end_us) = (record.try_get_u64(), record.try_get_u64());
    let length = record.try_get_u16().map_or(usize::MAX, usize::from);
    let (Ok(created_us), Ok(end_us), Some((project, rest))) = (created_us, end_us, record.split_at_checked(length))
    else {
        return Err(corrupt("its start is incomplete"));
    };
    let project = str::from_utf8(project).map_err(|_| corrupt("its project is not UTF-8"))?;
    Ok((created_us, Indexed { project: ProjectId::new(project), end_us }, rest))
}

fn read(id: TokenId, record: &[u8], now_us: u64) -> Result<Option<TokenRecord>, Error> {
    let (created_us, Indexed { project, end_us }, rest) = split(record)?;
    if (1..=now_us).contains(&end_us) {
        return Ok(None);
    }
    let (hash, texts) = rest.split_first_chunk::<HASH_BYTES>().ok_or_else(|| corrupt("it has no hash"))?;
    let (name, roles) = rmp_serde::from_slice(texts).map_err(|_| corrupt("its name or its roles are damaged"))?;
    let end_us = Some(end_us).filter(|end_us| *end_us > 0);
    Ok(Some(TokenRecord {
        id,
        grant: TokenGrant { name, project, roles },
        hash: TokenHash::from_bytes(*hash),
        created_s: created_us / 1_000_000,
        expires_s: end_us.map(|end_us| end_us / 1_000_000),
        life_left: end_us.map(|end_us| Duration::from_micros(end_us - now_us)),
    }))
}

fn read_id(key: &[u8]) -> Result<TokenId, Error> {
    let invalid = |_| Error::Corrupt(format!("the id of a token has {} bytes", key.len()));
    key.try_into().map(TokenId::from_bytes).map_err(invalid)
}

fn corrupt(reason: &str) -> Error {
    Error::Corrupt(format!("the record of a token is damaged: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sukkal_domain::Token;

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

            let record = encode(&new, 5_000_000);

            let read = decode(new.id.as_bytes(), &record, 6_500_000).unwrap().unwrap();
            assert_eq!((read.id, &read.grant, read.hash, read.created_s), (new.id, &grant, new.hash, 5));
            assert_eq!(read.expires_s, ttl_s.map(|ttl_s| 5 + ttl_s));
            assert_eq!(read.life_left, ttl_s.map(|_| Duration::from_millis(58_500)));
            assert_eq!(decode(new.id.as_bytes(), &record, 65_000_000).unwrap().is_none(), ttl_s.is_some());
            for length in 0..record.len() {
                assert!(decode(new.id.as_bytes(), &record[..length], 0).is_err(), "{length} bytes");
            }
        }
    }
}
