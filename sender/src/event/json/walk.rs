//! Walking over the text of a JSON value without parsing it.
//!
//! All of this is total: on text that is no JSON it ends early or yields less, and never panics or recurses.

use super::Json;

/// The blanks that JSON allows between its parts.
pub(super) const BLANKS: [char; 4] = [' ', '\n', '\r', '\t'];

/// Where the first bracket stands that opens a level beyond so many; nothing if none does.
pub(super) fn first_deeper_than(text: &str, levels_max: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, bracket) in brackets(text.as_bytes()) {
        match bracket {
            b'{' | b'[' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
        if depth > levels_max {
            return Some(at);
        }
    }
    None
}

/// The fields of an object: key and value.
#[derive(Clone, Debug)]
pub struct Fields<'a>(Parts<'a>);

impl<'a> Fields<'a> {
    pub(super) fn of(object: Json<'a>) -> Self {
        Self(Parts::inside(object, '{'))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Json<'a>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.0.next()?;
        Some((key, self.0.next()?))
    }
}

/// The elements of an array.
#[derive(Clone, Debug)]
pub struct Elements<'a>(Parts<'a>);

impl<'a> Elements<'a> {
    pub(super) fn of(array: Json<'a>) -> Self {
        Self(Parts::inside(array, '['))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        self.0.next()
    }
}

/// The values directly inside a container, one after another, whatever stands between them. In an object, keys and
/// values take turns.
#[derive(Clone, Debug)]
struct Parts<'a> {
    rest: &'a str,
}

impl<'a> Parts<'a> {
    fn inside(container: Json<'a>, opening: char) -> Self {
        Self { rest: container.0.strip_prefix(opening).unwrap_or("") }
    }

    fn next(&mut self) -> Option<Json<'a>> {
        let rest = self.rest.trim_start_matches([' ', '\n', '\r', '\t', ',', ':']);
        let (part, rest) = rest.split_at(end_of_value(rest.as_bytes()));
        self.rest = rest;
        if part.is_empty() { None } else { Some(Json(part)) }
    }
}

/// Where the value ends that these bytes begin with. A closing bracket begins none.
fn end_of_value(bytes: &[u8]) -> usize {
    match bytes.first() {
        None => 0,
        Some(b'"') => end_of_string(bytes, 0),
        Some(b'{' | b'[') => end_of_container(bytes),
        Some(_) => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
            bytes.iter().position(ends).unwrap_or(bytes.len())
        }
    }
}

fn end_of_container(bytes: &[u8]) -> usize {
    let mut depth = 0_usize;
    for (at, bracket) in brackets(bytes) {
        match bracket {
            b'{' | b'[' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
        if depth == 0 {
            return at + 1;
        }
    }
    bytes.len()
}

/// Every bracket that stands outside of strings, and where.
fn brackets(bytes: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => at = end_of_string(bytes, at),
                b'{' | b'[' | b'}' | b']' => {
                    at += 1;
                    return Some((at - 1, *byte));
                }
                _ => at += 1,
            }
        }
        None
    })
}

/// Just after the quote that closes the string which opens at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            // Whatever is escaped does not close the string.
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}
