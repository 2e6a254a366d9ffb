//! Finds where requests begin among the bytes of an HTTP/2 connection (RFC 9113 §4.1). That is the one way to know which
//! requests have left: the library takes a request long before it writes it.

/// What a client sends first.
const PREFACE_BYTES: u64 = 24;
const HEAD_BYTES: usize = 9;
/// The type of the frame that begins a request. This client sends no trailers, so each is the beginning of one.
const HEADERS: u8 = 1;

/// Where a client's bytes stand.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    /// Bytes until the next frame's head.
    skip: u64,
    head: [u8; HEAD_BYTES],
    /// How much of the head there is.
    filled: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self { skip: PREFACE_BYTES, head: [0; HEAD_BYTES], filled: 0 }
    }
}

impl Frames {
    /// Moves over the bytes, and says each stream on which they begin a request. Ends at the first error.
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
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, stream: u32, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, 0];
        frame.extend(stream.to_be_bytes());
        // A payload may look like anything, the head of a request among others.
        frame.extend(std::iter::repeat_n(HEADERS, payload));
        frame
    }

    proptest! {
        #[test]
        fn requests_are_found_however_their_bytes_are_cut(
            frames in prop::collection::vec((0..10_u8, 1..1_000_u32, prop_oneof![0..40_usize, Just(16_384)]), 0..20),
            cut in 1..50_usize,
        ) {
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            frames.iter().for_each(|(kind, stream, payload)| bytes.extend(frame(*kind, *stream, *payload)));
            let expected: Vec<u32> =
                frames.iter().filter(|(kind, ..)| *kind == HEADERS).map(|(_, stream, _)| *stream).collect();
            let (mut place, mut found) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(cut) {
                let Ok(()) = place.advance(piece, |stream| {
                    found.push(stream);
                    Ok::<_, std::convert::Infallible>(())
                });
            }
            prop_assert_eq!(found, expected);
        }
    }
}
