//! Finds the end of a chunked body (RFC 9112, section 7.1).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In a chunk's length; `None` before its first digit.
    Length(Option<u64>),
    /// After a length: in blanks, or in an extension.
    Blank(u64),
    Extension(u64),
    LengthEnd(u64),
    Data(u64),
    DataReturn,
    DataEnd,
    /// At the start of a line after the last chunk, or within it.
    TrailerBegin,
    Trailer,
    LastEnd,
    Over,
}

impl Chunks {
    pub(super) const fn new() -> Self {
        Self { at: At::Length(None) }
    }

    pub(super) fn are_over(self) -> bool {
        self.at == At::Over
    }

    /// Returns how many bytes belong to the body, and how many of these are data.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(usize, usize), &'static str> {
        let (mut used, mut data) = (0, 0);
        while let Some(byte) = bytes.get(used).copied().filter(|_| !self.are_over()) {
            if let At::Data(left) = self.at {
                let rest = bytes.len() - used;
                let here = usize::try_from(left).map_or(rest, |left| left.min(rest));
                used += here;
                data += here;
                let left = left - here as u64;
                self.at = if left == 0 { At::DataReturn } else { At::Data(left) };
            } else {
                used += 1;
                self.at = self.at.after(byte)?;
            }
        }
        Ok((used, data))
    }
}

impl At {
    fn after(self, byte: u8) -> Result<Self, &'static str> {
        match (self, byte) {
            (Self::Length(length), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                let longer = length.unwrap_or(0).checked_mul(16).and_then(|length| length.checked_add(digit));
                longer.map(|length| Self::Length(Some(length))).ok_or("a chunk is too long to be true")
            }
            (Self::Length(Some(length)) | Self::Blank(length), b' ' | b'\t') => Ok(Self::Blank(length)),
            (Self::Length(Some(length)) | Self::Blank(length), b';') => Ok(Self::Extension(length)),
            (Self::Length(Some(length)) | Self::Blank(length) | Self::Extension(length), b'\r') => {
                Ok(Self::LengthEnd(length))
            }
            (Self::Length(_) | Self::Blank(_), _) => Err("a chunk has no length"),
            (Self::Extension(_), b'\n') => Err("the line of a chunk's length is broken"),
            (Self::Extension(length), _) => Ok(Self::Extension(length)),
            (Self::LengthEnd(0), b'\n') => Ok(Self::TrailerBegin),
            (Self::LengthEnd(length), b'\n') => Ok(Self::Data(length)),
            (Self::LengthEnd(_), _) => Err("the line of a chunk's length is broken"),
            (Self::DataReturn, b'\r') => Ok(Self::DataEnd),
            (Self::DataEnd, b'\n') => Ok(Self::Length(None)),
            (Self::DataReturn | Self::DataEnd, _) => Err("a chunk is longer than its length"),
            (Self::TrailerBegin, b'\r') => Ok(Self::LastEnd),
            (Self::TrailerBegin | Self::Trailer, b'\n') => Ok(Self::TrailerBegin),
            (Self::TrailerBegin | Self::Trailer, _) => Ok(Self::Trailer),
            (Self::LastEnd, b'\n') => Ok(Self::Over),
            (Self::LastEnd, _) => Err("its end is broken"),
            // Unreachable: `take` handles both.
            (Self::Data(_) | Self::Over, _) => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{Random, Target};

    /// Bytes taken, bytes of data, and whether the body is over.
    type Taken = Result<(usize, usize, bool), &'static str>;

    fn take(pieces: &[&[u8]]) -> Taken {
        let (mut chunks, mut used, mut data) = (Chunks::new(), 0, 0);
        for piece in pieces {
            let (more, of_data) = chunks.take(piece)?;
            assert!(of_data <= more && more <= piece.len());
            assert!(more == piece.len() || chunks.are_over());
            (used, data) = (used + more, data + of_data);
        }
        Ok((used, data, chunks.are_over()))
    }

    fn outcome(input: &[u8], random: &mut Random) -> String {
        let whole = take(&[input]);
        assert_eq!(take(&random.pieces(input)), whole);
        let mut body = Vec::new();
        for piece in random.pieces(input) {
            let length = format!("{:0zeros$x} \t;x=\"\r\n", piece.len(), zeros = random.below(4));
            body.extend(length.replace('"', ["", "y"][random.below(2)]).bytes());
            body.extend(piece);
            body.extend(b"\r\n");
        }
        body.extend(b"0\r\na: b\r\n\r\n");
        let length = body.len();
        body.extend(b"HTTP/1.1 200 OK");
        assert_eq!(take(&random.pieces(&body)), Ok((length, input.len(), true)));
        whole.map_or_else(str::to_owned, |(.., is_over)| is_over.to_string())
    }

    fn target() -> Target<'static> {
        let corpus = ["2 ;x\r\nok\r\n00\r\na: b\r\n\r\n", "Aa\r\nabc", "0\r\n\r\n"];
        let words = &["\r\n", "0\r\n", "1\r\nx\r\n", ";", "ffffffffffffffff", "\t"];
        Target { quick: 10_000, corpus: corpus.map(Vec::from).into(), words, check: &outcome }
    }

    #[test]
    fn any_body_is_taken_alike_in_any_pieces() {
        target().try_some();
    }

    #[test]
    #[ignore = "takes HOOKPROOF_SECONDS"]
    fn any_body_is_taken_alike_in_any_pieces_at_length() {
        target().try_at_length();
    }
}
