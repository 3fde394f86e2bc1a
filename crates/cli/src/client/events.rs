//! Parses server-sent events: <https://html.spec.whatwg.org/multipage/server-sent-events.html>.

use std::mem;

/// An event that has arrived completely.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Event {
    /// Empty for an event without a type.
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) data: String,
}

/// Maximum length of an event in bytes, above that of the largest message that services can be
/// configured to accept.
pub(super) const EVENT_BYTES_MAX: usize = 16 << 20;

/// The part of a stream that has arrived and was not yet returned.
#[derive(Debug, Default)]
pub(super) struct Events {
    arrived: Vec<u8>,
    /// How many bytes of `arrived` are parsed.
    parsed: usize,
    /// How many bytes of `arrived` are parsed or are known to contain no line break.
    searched: usize,
    next: Event,
}

impl Events {
    /// Adds bytes that have arrived.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.arrived.drain(..self.parsed);
        self.searched -= self.parsed;
        self.parsed = 0;
        self.arrived.extend_from_slice(bytes);
    }

    /// Whether the event that is arriving is longer than [`EVENT_BYTES_MAX`].
    pub(super) fn is_too_long(&self) -> bool {
        let fields = self.next.kind.len() + self.next.id.len() + self.next.data.len();
        fields + self.arrived.len() - self.parsed > EVENT_BYTES_MAX
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Option<Event> {
        while let Some(length) = self.arrived[self.searched..].iter().position(|byte| *byte == b'\n') {
            let end = self.searched + length;
            let line = String::from_utf8_lossy(&self.arrived[self.parsed..end]);
            (self.parsed, self.searched) = (end + 1, end + 1);
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                let event = mem::take(&mut self.next);
                if event != Event::default() {
                    return Some(event);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut self.next.kind),
                "id" => value.clone_into(&mut self.next.id),
                "data" if self.next.data.is_empty() => value.clone_into(&mut self.next.data),
                "data" => self.next.data.extend(["\n", value]),
                _ => {}
            }
        }
        self.searched = self.arrived.len();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_complete_at_an_empty_line_however_the_stream_is_cut() {
        let stream = b"retry: 1000\n\n:\n\nid: 1\ndata: {\"a\":1}\n\nevent: failure\r\ndata:x\r\ndata: y\r\n\r\nid: 2\ndata: cut";
        let expected = [
            Event { id: "1".to_owned(), data: "{\"a\":1}".to_owned(), ..Event::default() },
            Event { kind: "failure".to_owned(), data: "x\ny".to_owned(), ..Event::default() },
        ];
        for size in [1, 2, 7, stream.len()] {
            let mut events = Events::default();
            let mut found = Vec::new();
            for part in stream.chunks(size) {
                events.extend(part);
                found.extend(std::iter::from_fn(|| events.next()));
            }
            assert_eq!(found, expected, "in parts of {size} bytes");
        }
    }

    #[test]
    fn an_event_is_too_long_with_one_long_line_or_many_short_ones() {
        for (start, part) in [("data:", "x"), ("", "data:x\n")] {
            let mut events = Events::default();
            let part = part.repeat(1 << 16);
            let mut arrived = 0;
            events.extend(start.as_bytes());
            while !events.is_too_long() {
                assert!(arrived < 4 * EVENT_BYTES_MAX, "{start}{}", &part[..8]);
                events.extend(part.as_bytes());
                arrived += part.len();
                assert_eq!(events.next(), None);
            }
            assert!(arrived >= EVENT_BYTES_MAX, "{arrived}");
        }
    }

    #[test]
    fn any_number_of_events_may_arrive() {
        let mut events = Events::default();
        let part = format!("data:{}\n\n", "x".repeat(1 << 20));
        for _ in 0..=EVENT_BYTES_MAX >> 20 {
            events.extend(part.as_bytes());
            assert_eq!(events.next().map(|event| event.data.len()), Some(1 << 20));
            assert!(!events.is_too_long());
        }
    }
}
