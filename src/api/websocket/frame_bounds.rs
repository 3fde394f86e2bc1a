//! Finds the ends of frames in the bytes of a client (RFC 6455, section 5.2).

use std::io::Cursor;

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;

/// The bit of the first byte that says that the frame is a control frame, such as a ping.
const IS_CONTROL: u8 = 8;

/// Where the last byte was in its frame.
#[derive(Debug, Default)]
pub(super) struct FrameBounds {
    /// The bytes of the frame before its contents, until all of them have arrived.
    head: Vec<u8>,
    /// Number of bytes of its contents that have not arrived; `None` if the number is not known.
    left: Option<usize>,
    /// Number of bytes of the frame that have arrived.
    arrived: usize,
}

/// Bytes of one frame.
#[derive(Debug)]
pub(super) struct Part {
    /// Number of bytes.
    pub(super) bytes: usize,
    /// Size of the frame in bytes, if it is a control frame and ends here; otherwise 0.
    pub(super) control_bytes: usize,
}

impl FrameBounds {
    /// Returns which of the bytes that follow belong to the current frame.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Part {
        let mut count = 0;
        while self.left.is_none() && count < bytes.len() {
            self.head.push(bytes[count]);
            count += 1;
            self.left = match FrameHeader::parse(&mut Cursor::new(&self.head)) {
                Ok(header) => header.map(|(_, payload)| usize::try_from(payload).unwrap_or(usize::MAX)),
                // The WebSocket fails at this frame, so all that follows belongs to it.
                Err(_invalid) => Some(usize::MAX),
            };
        }
        if let Some(left) = &mut self.left {
            let arrived = (*left).min(bytes.len() - count);
            count += arrived;
            *left -= arrived;
        }
        self.arrived += count;
        let mut part = Part { bytes: count, control_bytes: 0 };
        if self.left == Some(0) {
            let ended = std::mem::take(self);
            if ended.head[0] & IS_CONTROL != 0 {
                part.control_bytes = ended.arrived;
            }
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK_BYTES: usize = 4;

    #[test]
    fn frames_end_where_their_length_says_however_the_bytes_arrive() {
        let unmasked = |payload: usize, length: &[u8]| [length, &vec![7; payload]].concat();
        let masked = |payload: usize, length: &[u8]| unmasked(payload + MASK_BYTES, length);
        let frames = [
            unmasked(0, &[0x8a, 0]),
            masked(0, &[0x89, 0x80]),
            masked(125, &[0x81, 0x80 | 0x7d]),
            masked(126, &[0x81, 0x80 | 0x7e, 0, 126]),
            masked(70_000, &[0x82, 0x80 | 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]),
        ];
        let all = frames.concat();
        for size in [1, 3, 1000, all.len()] {
            let (mut bounds, mut parts) = (FrameBounds::default(), vec![0; frames.len()]);
            let (mut frame, mut control_bytes) = (0, 0);
            for mut chunk in all.chunks(size) {
                while !chunk.is_empty() {
                    let part = bounds.advance(chunk);
                    parts[frame] += part.bytes;
                    control_bytes += part.control_bytes;
                    if parts[frame] == frames[frame].len() {
                        frame += 1;
                    }
                    chunk = &chunk[part.bytes..];
                }
            }
            assert_eq!(parts, frames.iter().map(Vec::len).collect::<Vec<_>>(), "{size}");
            assert_eq!(control_bytes, frames[0].len() + frames[1].len(), "{size}");
        }
    }
}
