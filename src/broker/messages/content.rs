//! The content of a post, by which a repetition of the post is recognized.

use super::{Delay, Draft, TenantDraft};
use sukkal_domain::msgpack;

/// Returns the content of a post with these messages. It does not depend on how the messages were
/// written: on white space and escapes, on the order of the keys of objects, or on the encoding.
#[must_use]
pub fn content_of(drafts: &[Draft]) -> Vec<u8> {
    let mut content = Vec::with_capacity(drafts.iter().map(|draft| 32 + draft.body.as_msgpack().len()).sum());
    for Draft { ttl_s, delay, tenant, body } in drafts {
        push(&mut content, ttl_s.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
        match delay {
            Delay::Unset => push(&mut content, None),
            Delay::Seconds(seconds) => push(&mut content, Some(&seconds.to_be_bytes())),
            Delay::Malformed => push(&mut content, Some(&[])),
        }
        match tenant {
            TenantDraft::Unset => push(&mut content, None),
            TenantDraft::Named(tenant) => push(&mut content, Some(tenant.as_str().as_bytes())),
            TenantDraft::Malformed => push(&mut content, Some(&[])),
        }
        msgpack::write_sorted(body.as_msgpack(), &mut content);
    }
    content
}

/// Appends a value, or that there is none.
fn push(content: &mut Vec<u8>, value: Option<&[u8]>) {
    content.push(u8::from(value.is_some()));
    if let Some(value) = value {
        content.extend((value.len() as u64).to_be_bytes());
        content.extend(value);
    }
}
