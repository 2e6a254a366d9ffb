//! Access to a request's headers, independent of their type.

use super::rejection::Rejection;

/// The longest id of a delivery in bytes.
const ID_BYTES_MAX: usize = 256;

/// Headers with lookup by name, which ignores case.
pub trait Headers {
    /// The raw values of a name. A repeated header has several.
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]>;
}

impl Headers for http::HeaderMap {
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.get_all(name).iter().map(http::HeaderValue::as_bytes)
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let named = self.iter().filter(move |(known, _)| known.as_ref().eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_ref())
    }
}

/// The value of a required header as text: visible ASCII, with inner spaces. Refuses repeated headers.
pub(super) fn only<'a, H: Headers + ?Sized>(
    headers: &'a H,
    name: &'static str,
) -> Result<&'a str, Rejection> {
    value(headers, name, name)
}

/// The same of a name from the request, which a rejection does not show.
pub(super) fn value<'a, H: Headers + ?Sized>(
    headers: &'a H,
    given: &str,
    name: &'static str,
) -> Result<&'a str, Rejection> {
    let mut values = headers.values(given);
    let value = values.next().ok_or(Rejection::Missing { name })?;
    if values.next().is_some() {
        // A proxy may have used the other value.
        return Err(Rejection::Twice { name });
    }
    if value.is_empty() {
        return Err(Rejection::Empty { name });
    }
    let visible = value.iter().all(|byte| *byte == b' ' || byte.is_ascii_graphic());
    let text = visible.then(|| str::from_utf8(value).ok()).flatten();
    text.ok_or(Rejection::NotAscii { name })
}

pub(super) fn id<'a, H: Headers + ?Sized>(headers: &'a H, name: &'static str) -> Result<&'a str, Rejection> {
    let id = only(headers, name)?;
    if is_id(id) { Ok(id) } else { Err(Rejection::Id { name }) }
}

/// Whether a text may be an id: short, visible, without blanks.
pub(super) fn is_id(text: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
