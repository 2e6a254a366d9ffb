//! Starts of requests on an HTTP/2 connection (RFC 9113 §4.1). The library accepts a request long before it writes it.

const PREFACE_BYTES: u64 = 24;
const HEAD_BYTES: usize = 9;
/// The frame type that starts a request; this client sends no trailers.
const HEADERS: u8 = 1;

#[derive(Clone, Debug)]
pub(super) struct Frames {
    skip: u64,
    head: [u8; HEAD_BYTES],
    filled: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self { skip: PREFACE_BYTES, head: [0; HEAD_BYTES], filled: 0 }
    }
}

impl Frames {
    /// Calls `begins` for each stream that starts. Stops at the first error.
    pub(super) fn advance<E>(
        &mut self,
        mut bytes: &[u8],
        mut begins: impl FnMut(u32) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
            bytes = &bytes[skipped..];
            self.skip -= skipped as u64;
            let taken = (HEAD_BYTES - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == HEAD_BYTES {
                let [a, b, c, kind, _, stream @ ..] = self.head;
                self.filled = 0;
                self.skip = u64::from(u32::from_be_bytes([0, a, b, c]));
                if kind == HEADERS {
                    begins(u32::from_be_bytes(stream) & 0x7fff_ffff)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{Random, Target};

    fn frame(kind: u8, stream: u32, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, 0];
        frame.extend(stream.to_be_bytes());
        frame.extend(std::iter::repeat_n(HEADERS, payload));
        frame
    }

    fn requests(mut frames: &[u8]) -> Vec<u32> {
        let mut found = Vec::new();
        while let Some((&[a, b, c, kind, _, d, e, f, g], rest)) = frames.split_first_chunk() {
            if kind == HEADERS {
                found.push(u32::from_be_bytes([d & 0x7f, e, f, g]));
            }
            let length = (usize::from(a) << 16) | (usize::from(b) << 8) | usize::from(c);
            frames = rest.get(length..).unwrap_or_default();
        }
        found
    }

    fn outcome(bytes: &[u8], random: &mut Random) -> String {
        let (mut place, mut found) = (Frames::default(), Vec::new());
        for piece in random.pieces(bytes) {
            let Ok(()) = place.advance(piece, |stream| {
                found.push(stream);
                Ok::<_, std::convert::Infallible>(())
            });
        }
        assert_eq!(found, requests(bytes.get(24..).unwrap_or_default()));
        found.len().to_string()
    }

    fn target() -> Target<'static> {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let frames =
            [frame(4, 0, 18), frame(1, 1, 40), frame(0, 1, 16_384), frame(9, 3, 0), frame(1, 3, 300)];
        let corpus = vec![[preface.clone(), frames.concat()].concat(), [preface, frame(1, 5, 0)].concat()];
        let words = &["\0\0\0\u{1}\u{4}\0\0\0\u{7}", "\0\0\u{1}\u{1}\0\0\0\0\u{9}", "\0\0\0"];
        Target { quick: 20_000, corpus, words, check: &outcome }
    }

    #[test]
    fn requests_are_found_however_their_bytes_are_cut() {
        target().try_some();
    }

    #[test]
    #[ignore = "takes HOOKPROOF_SECONDS"]
    fn requests_are_found_however_their_bytes_are_cut_at_length() {
        target().try_at_length();
    }
}
