//! Adyen signs eight members of a notification. The signature is a member too, so the body is parsed before it is verified.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::headers::is_id;
use super::keys::Keys;
use super::signature::{BASE64, Tag, fitting_key};
use super::{Rejection, Verified, body_id};

const SIGNATURE: &str = "hmacSignature";
const ITEM: &[&str] = &["notificationItems", "", "NotificationRequestItem"];
/// Inside of the item, in the order in which they are signed; then the signature.
const MEMBERS: [&[&str]; 9] = [
    &["pspReference"],
    &["originalReference"],
    &["merchantAccountCode"],
    &["merchantReference"],
    &["amount", "value"],
    &["amount", "currency"],
    &["eventCode"],
    &["success"],
    &["additionalData", SIGNATURE],
];
const PSP_REFERENCE: usize = 0;
const MERCHANT_REFERENCE: usize = 3;
const EVENT_CODE: usize = 6;
const SUCCESS: usize = 7;
const OWN: usize = 8;

type Texts<'a> = [Option<Cow<'a, str>>; MEMBERS.len()];

pub(super) fn verify<'a>(body: &'a [u8], keys: &Keys) -> Result<Verified<'a>, Rejection> {
    let mut texts: Texts<'a> = Default::default();
    let text = str::from_utf8(body).map_err(|_| Rejection::Body)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let walk = Walk { path: Path { names: [""; DEPTH_MAX], depth: 0 }, texts: &mut texts };
    let whole = walk.deserialize(&mut json).and_then(|()| json.end());
    whole.map_err(|_| Rejection::Body)?;
    let text = |at: usize| texts[at].as_deref().unwrap_or_default();
    if text(OWN).is_empty() {
        return Err(Rejection::NoSignature { name: SIGNATURE });
    }
    let tag = Tag::from_base64(text(OWN));
    let tag = tag.ok_or(Rejection::Encoding { name: SIGNATURE, expected: BASE64 })?;
    // Adyen does not escape a colon, so that one text could be read as several. The merchant chooses this reference alone.
    if (0..OWN).any(|at| at != MERCHANT_REFERENCE && text(at).contains(':')) {
        return Err(Rejection::Body);
    }
    let mut parts: [&[u8]; 2 * OWN - 1] = [b":"; 2 * OWN - 1];
    for at in 0..OWN {
        parts[2 * at] = text(at).as_bytes();
    }
    let key = fitting_key(keys.macs(), &parts, std::iter::once(tag)).ok_or(Rejection::Signature)?;
    // One payment has several events, and an event that failed may succeed later.
    let id = [text(PSP_REFERENCE), text(EVENT_CODE), text(SUCCESS)].join(":");
    let id = if is_id(&id) { id } else { body_id::hashed(&parts.concat()) };
    Ok(Verified { id: id.into(), signed_at: None, key })
}

const DEPTH_MAX: usize = 5;

#[derive(Clone, Copy)]
struct Path {
    names: [&'static str; DEPTH_MAX],
    depth: usize,
}

enum Place {
    Above(&'static str),
    Member(usize),
    /// Some readers take it for one that matters.
    InAnotherCase,
    Beside,
}

impl Path {
    fn below(mut self, name: &'static str) -> Self {
        self.names[self.depth] = name;
        self.depth += 1;
        self
    }

    fn place(&self, name: &str) -> Place {
        let beside = |is_alike: bool| if is_alike { Place::InAnotherCase } else { Place::Beside };
        if let Some(next) = ITEM.get(self.depth) {
            return if *next == name { Place::Above(next) } else { beside(is_alike(next, name)) };
        }
        let inside = &self.names[ITEM.len()..self.depth];
        let first =
            |member: &&[&'static str]| member.strip_prefix(inside).and_then(|rest| rest.first().copied());
        match MEMBERS.iter().position(|member| first(member) == Some(name)) {
            None => beside(MEMBERS.iter().filter_map(first).any(|known| is_alike(known, name))),
            Some(at) if MEMBERS[at].len() == inside.len() + 1 => Place::Member(at),
            Some(at) => Place::Above(MEMBERS[at][inside.len()]),
        }
    }
}

/// By any way to ignore case: U+017F is an `s` to some readers.
fn is_alike(known: &str, name: &str) -> bool {
    fn folded(text: &str) -> impl Iterator<Item = char> {
        text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
    }
    folded(known).eq(folded(name))
}

/// Reads an object, or the array of one item. A member that matters is there once.
struct Walk<'t, 'a> {
    path: Path,
    texts: &'t mut Texts<'a>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if ITEM.get(self.path.depth) == Some(&"") {
            deserializer.deserialize_seq(self)
        } else {
            deserializer.deserialize_map(self)
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a notification with one item")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<(), S::Error> {
        let Self { path, texts } = self;
        let item = items.next_element_seed(Walk { path: path.below(""), texts })?;
        // No signature covers another one.
        match (item, items.next_element::<IgnoredAny>()?) {
            (Some(()), None) => Ok(()),
            _ => Err(S::Error::custom("not one item")),
        }
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let Self { path, texts } = self;
        let mut seen: [&str; MEMBERS.len()] = [""; MEMBERS.len()];
        let mut count = 0;
        while let Some(Text(name)) = map.next_key()? {
            let twice = || M::Error::custom("a member is there twice");
            match path.place(&name) {
                Place::InAnotherCase => return Err(M::Error::custom("a member is there in another case")),
                Place::Beside => {
                    map.next_value::<IgnoredAny>()?;
                }
                Place::Above(name) => {
                    if seen[..count].contains(&name) {
                        return Err(twice());
                    }
                    (seen[count], count) = (name, count + 1);
                    map.next_value_seed(Walk { path: path.below(name), texts: &mut *texts })?;
                }
                Place::Member(at) => {
                    let Text(value) = map.next_value()?;
                    if texts[at].replace(value).is_some() {
                        return Err(twice());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Null is empty.
struct Text<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AsText)
    }
}

struct AsText;

impl<'de> Visitor<'de> for AsText {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a whole number, a flag or null")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(text.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(text.to_owned().into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Text(number.to_string().into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Text(number.to_string().into()))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Text(if flag { "true" } else { "false" }.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Text("".into()))
    }
}
