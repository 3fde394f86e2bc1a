//! The headers that have one value, over HTTP and in the frames of WebSockets.

/// The headers that the service reads and that have one value, as error messages spell them.
///
/// A repeated one is refused. A proxy may append its own value to that of its client, and the proxy
/// and Sukkal could then see different clients, keys or contents. `Host` has an error of its own.
const SINGLE_HEADERS: [&str; 17] = [
    "Authorization",
    "Client-ID",
    "Content-Type",
    "Idempotency-Key",
    "Last-Event-ID",
    "Origin",
    "URL-Expires",
    "URL-Methods",
    "URL-Paths",
    "URL-Signature",
    "X-Auth-Token",
    "X-Project-ID",
    "X-Roles",
    "X-Service-Token",
    "X-Tenant",
    "X-Tenant-Id",
    "X-User-Id",
];

/// The headers of frames that have a meaning. The case of their names counts.
pub const OF_FRAMES: [&str; 14] = [
    "Authorization",
    "Client-ID",
    "Durability",
    "Idempotency-Key",
    "traceparent",
    "tracestate",
    "URL-Signature",
    "URL-Expires",
    "URL-Methods",
    "URL-Paths",
    "X-Auth-Token",
    "X-Project-ID",
    "X-Roles",
    "X-Service-Token",
];

/// Returns a header with one value whose name is repeated, in any case.
pub fn repeated<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> Option<&'static str> {
    let mut seen = [false; SINGLE_HEADERS.len()];
    names.into_iter().find_map(|name| {
        let index = SINGLE_HEADERS.iter().position(|single| single.as_bytes().eq_ignore_ascii_case(name))?;
        std::mem::replace(&mut seen[index], true).then_some(SINGLE_HEADERS[index])
    })
}
