//! Bounded lines, so that one without an end cannot fill the memory.

use std::io::{self, BufRead};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// Its rest was skipped.
    TooLong(usize),
}

pub(super) fn next_line(input: &mut dyn BufRead, bytes_max: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut length = 0;
    loop {
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = piece.iter().position(|byte| *byte == b'\n');
        let (taken, used) = match end {
            Some(end) => (&piece[..end], end + 1),
            None => (piece, piece.len()),
        };
        length += taken.len();
        if length <= bytes_max {
            line.extend_from_slice(taken);
        }
        input.consume(used);
        if end.is_some() || used == 0 {
            let is_over = used == 0 && length == 0;
            let line = if length <= bytes_max { Line::Whole(line) } else { Line::TooLong(length) };
            return Ok((!is_over).then_some(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one_and_long_ones_are_passed_over() {
        let mut input = io::BufReader::with_capacity(3, &b"ab\n\nabcdef\nxyz"[..]);
        let whole = |text: &[u8]| Some(Line::Whole(text.to_vec()));
        let expected = [whole(b"ab"), whole(b""), Some(Line::TooLong(6)), whole(b"xyz"), None, None];
        for expected in expected {
            assert_eq!(next_line(&mut input, 4).unwrap(), expected);
        }
    }
}
