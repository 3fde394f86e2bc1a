//! Reads the reply of a Redis server to `CLUSTER SLOTS`: a list of slot ranges, each with the
//! servers that have it, the primary first.

use std::collections::HashMap;
use std::net::IpAddr;

use fred::types::Value;
use fred::types::config::Server as Address;

use crate::redis::slot_tags::SLOTS;

/// A range of slots and the server that has them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) address: Address,
}

/// Reads the reply of the server at `asked_host`.
///
/// Returns `None` if the reply cannot be read, or if it has no slots, like that of a server that
/// has left its cluster.
pub(super) fn read_ranges(reply: Value, asked_host: &str) -> Option<Vec<SlotRange>> {
    let ranges: Option<Vec<SlotRange>> =
        reply.into_array().into_iter().map(|range| read_range(range, asked_host)).collect();
    ranges.filter(|ranges| !ranges.is_empty())
}

fn read_range(range: Value, asked_host: &str) -> Option<SlotRange> {
    let mut parts = range.into_array().into_iter();
    let mut slot = || u16::try_from(parts.next()?.as_u64()?).ok();
    let (first, last) = (slot()?, slot()?);
    let address = read_address(parts.next()?.into_array(), asked_host)?;
    (first <= last && last < SLOTS).then_some(SlotRange { first, last, address })
}

/// Reads a server: host, port, id, and since Redis 7 metadata. If the host is missing, it is that
/// of the server that was asked. A host name is preferred to an IP address, because certificates
/// contain names.
fn read_address(server: Vec<Value>, asked_host: &str) -> Option<Address> {
    let mut parts = server.into_iter();
    let host = parts.next()?.into_string().filter(|host| !host.is_empty() && host != "?");
    let port = u16::try_from(parts.next()?.as_u64()?).ok()?;
    let metadata: HashMap<String, String> =
        parts.nth(1).and_then(|metadata| metadata.convert().ok()).unwrap_or_default();
    let name = metadata.get("hostname").filter(|name| !name.is_empty()).cloned();
    let host = match host {
        Some(host) if host.parse::<IpAddr>().is_err() => host,
        host => name.or(host).unwrap_or_else(|| asked_host.to_owned()),
    };
    Some(Address::new(host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(parts: Vec<Value>) -> Value {
        Value::Array(parts)
    }

    fn range(first: i64, last: i64, host: Value, metadata: Vec<Value>) -> Value {
        let server = list(vec![host, 7_000.into(), "id".into(), list(metadata)]);
        list(vec![first.into(), last.into(), server, list(vec!["replica".into(), 7_001.into(), "other".into()])])
    }

    fn host_of(host: Value, metadata: Vec<Value>) -> String {
        read_ranges(list(vec![range(0, 1, host, metadata)]), "asked").unwrap()[0].address.host.to_string()
    }

    #[test]
    fn each_range_has_its_primary() {
        let reply = list(vec![range(0, 8_191, "h1".into(), Vec::new()), range(8_192, 16_383, "h2".into(), Vec::new())]);

        let read: Vec<_> =
            read_ranges(reply, "asked").unwrap().into_iter().map(|r| (r.first, r.last, r.address)).collect();

        assert_eq!(read, [(0, 8_191, Address::new("h1", 7_000)), (8_192, 16_383, Address::new("h2", 7_000))]);
    }

    #[test]
    fn a_host_name_is_preferred_to_an_address() {
        let name = || vec!["hostname".into(), "redis-1.example".into()];

        assert_eq!(host_of("10.0.0.1".into(), Vec::new()), "10.0.0.1");
        assert_eq!(host_of("10.0.0.1".into(), name()), "redis-1.example");
        assert_eq!(host_of("node-1".into(), name()), "node-1");
        assert_eq!(host_of(Value::Null, name()), "redis-1.example");
        assert_eq!(host_of(Value::Null, Vec::new()), "asked");
        assert_eq!(host_of("?".into(), Vec::new()), "asked");
    }

    #[test]
    fn an_unusable_reply_is_none() {
        for reply in [
            list(Vec::new()),
            Value::Null,
            list(vec![range(5, 4, "h".into(), Vec::new())]),
            list(vec![range(0, 16_384, "h".into(), Vec::new())]),
            list(vec![list(vec![0.into(), 1.into()])]),
        ] {
            assert_eq!(read_ranges(reply, "asked"), None);
        }
    }
}
