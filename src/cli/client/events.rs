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

/// The part of a stream that has arrived and was not yet parsed.
#[derive(Debug, Default)]
pub(super) struct Events {
    unparsed: Vec<u8>,
    /// How many bytes of `unparsed` are known to contain no line break.
    searched: usize,
    next: Event,
}

impl Events {
    /// Adds bytes that have arrived.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.unparsed.extend_from_slice(bytes);
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Option<Event> {
        while let Some(end) = self.unparsed[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unparsed.drain(..=self.searched + end).collect();
            self.searched = 0;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
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
                "data" => self.next.data = format!("{}\n{value}", self.next.data),
                _ => {}
            }
        }
        self.searched = self.unparsed.len();
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
}
