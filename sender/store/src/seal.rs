//! Encryption at rest. HKDF-SHA-256 makes a key for each value, from the operator's key and 24 random bytes, and
//! AES-256-GCM seals the value with it. So the number of values under one operator's key has no practical bound.
//!
//! The associated data names the row and the column, so a value that was moved to another row does not open.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::error::Unspecified;
use ring::hkdf;
use ring::rand::{SecureRandom as _, SystemRandom};

use hookproof_words::ids::size;

use crate::StoreError;
use crate::command::{Body, Details, KeptAnswer, SealedTable};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::lane::Secret;
use crate::read::{Attempted, LiveSecret, Subscriber};
use crate::reply::{Reply, Resealed};

const KEY_BYTES: usize = 32;
const KEYS_MAX: usize = 16;

/// Begins a sealed value. No JSON begins so. A key's id and the random bytes follow, then the ciphertext with its tag.
const MARK: [u8; 2] = [0, 1];
const ID_BYTES: usize = 4;
const RANDOM_BYTES: usize = 24;
const HEAD_BYTES: usize = MARK.len() + ID_BYTES + RANDOM_BYTES;

/// Begins a sealed value in a column of texts. Base64 follows.
const TEXT_MARK: &str = "sealed:";

const EITHER_PADDING: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The operator's keys. The first seals, and all open. Without keys nothing is sealed.
#[derive(Clone, Default)]
pub struct Keyring(Option<Arc<[Key]>>);

struct Key {
    id: [u8; ID_BYTES],
    secret: hkdf::Prk,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(
        "it has no key; expected 32 bytes in base64 or hexadecimal, such as from `openssl rand -base64 32`"
    )]
    None,
    #[error(
        "key {number} has {found} characters and cannot be read; expected 32 bytes in base64 (44 characters) or \
         hexadecimal (64), such as from `openssl rand -base64 32`"
    )]
    Form { number: usize, found: usize },
    #[error("key {0} is there twice; expected each key once")]
    Twice(usize),
    #[error("it has {0} keys; expected at most {KEYS_MAX}")]
    Many(usize),
}

impl Key {
    fn new(bytes: &[u8]) -> Result<Self, Unspecified> {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, b"hookproof store 1").extract(bytes);
        let mut long = [0; 32];
        secret.expand(&[b"id"], hkdf::HKDF_SHA256)?.fill(&mut long)?;
        let [a, b, c, d, ..] = long;
        Ok(Self { id: [a, b, c, d], secret })
    }

    fn of_value(&self, random: &[u8]) -> Result<LessSafeKey, Unspecified> {
        let info = [b"value".as_slice(), random];
        Ok(LessSafeKey::new(UnboundKey::from(self.secret.expand(&info, &AES_256_GCM)?)))
    }

    fn seal(&self, field: Field, plain: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mut random = [0; RANDOM_BYTES];
        SystemRandom::new().fill(&mut random)?;
        let key = self.of_value(&random)?;
        let mut sealed = Vec::with_capacity(HEAD_BYTES + plain.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(&MARK);
        sealed.extend_from_slice(&self.id);
        sealed.extend_from_slice(&random);
        sealed.extend_from_slice(plain);
        let aad = Aad::from(field.associated());
        let tag = key.seal_in_place_separate_tag(once(), aad, &mut sealed[HEAD_BYTES..])?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    fn open(&self, field: Field, random: &[u8], ciphertext: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mut bytes = ciphertext.to_vec();
        let aad = Aad::from(field.associated());
        let length = self.of_value(random)?.open_in_place(once(), aad, &mut bytes)?.len();
        bytes.truncate(length);
        Ok(bytes)
    }
}

/// Each value has a key of its own, which seals once.
fn once() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

impl Keyring {
    /// Reads a key from each line, or between commas. Lines that begin with `#` are comments.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let words = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|word| !word.is_empty());
        let mut keys: Vec<Key> = Vec::new();
        for (place, word) in words.enumerate() {
            let number = place + 1;
            let form = KeyError::Form { number, found: word.chars().count() };
            let bytes =
                bytes_of(word).filter(|bytes| bytes.len() == KEY_BYTES).ok_or_else(|| form.clone())?;
            let key = Key::new(&bytes).map_err(|Unspecified| form)?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(KeyError::Twice(number));
            }
            keys.push(key);
        }
        match keys.len() {
            0 => Err(KeyError::None),
            count if count > KEYS_MAX => Err(KeyError::Many(count)),
            _ => Ok(Self(Some(keys.into()))),
        }
    }

    /// The name of the key that seals. It tells nothing about the key.
    #[must_use]
    pub fn first(&self) -> Option<String> {
        self.keys().first().map(|key| hex(&key.id))
    }

    fn keys(&self) -> &[Key] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The text that a store keeps, so that a process with other keys is refused.
    pub(crate) fn proof(&self) -> Result<Option<String>, SealError> {
        let seal = Seal { keys: self.clone(), takes_plain: false };
        self.0.as_ref().map(|_| seal.close_text(Field::Proof, "hookproof").map(Cow::into_owned)).transpose()
    }

    /// `proof`: that of the store, and whether it may have plain values from before its encryption.
    pub(crate) fn unlock(
        &self,
        database: &dyn fmt::Display,
        proof: Option<(String, bool)>,
    ) -> Result<Seal, StoreError> {
        let refuse = |detail| Err(StoreError::Key { path: PathBuf::from(database.to_string()), detail });
        match (&self.0, proof) {
            (None, None) => Ok(Seal::default()),
            (None, Some((proof, _))) => refuse(format!(
                "it is encrypted with the key {}, and no key is given; expected that key in \
                 --encryption-key-file or HOOKPROOF_ENCRYPTION_KEYS",
                key_of_text(&proof)
            )),
            (Some(_), None) => refuse(
                "it is not encrypted, and a key is given; encrypt it with `hookproof sender encrypt`, or give no key"
                    .to_owned(),
            ),
            (Some(_), Some((proof, takes_plain))) => {
                let seal = Seal { keys: self.clone(), takes_plain: false };
                match seal.open_text(Field::Proof, &proof) {
                    Ok(_) => Ok(Seal { takes_plain, ..seal }),
                    Err(SealError::UnknownKey { found, .. }) => refuse(format!(
                        "it is encrypted with the key {found}; expected that key among those given, which are {self}"
                    )),
                    Err(error) => refuse(error.to_string()),
                }
            }
        }
    }
}

/// The names of the keys.
impl fmt::Display for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.keys().iter().map(|key| hex(&key.id)).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({self})")
    }
}

fn bytes_of(word: &str) -> Option<Vec<u8>> {
    if word.len() == 2 * KEY_BYTES {
        return unhex(word);
    }
    EITHER_PADDING.decode(word).ok()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from(if four < 10 { b'0' + four } else { b'a' + four - 10 });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    Some(digits?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn key_of_text(text: &str) -> String {
    let bytes = text.strip_prefix(TEXT_MARK).and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    bytes.get(MARK.len()..MARK.len() + ID_BYTES).map_or_else(|| "unknown".to_owned(), hex)
}

/// A column of a row that is sealed. A secret has no number of its own before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Proof,
    EventBody(u64),
    FurtherBody(u64),
    Settings(LaneId),
    Secret(LaneId, StoreTime),
    AnswerHead(DeliveryId, StoreTime),
    AnswerBody(DeliveryId, StoreTime),
    Changed(u64),
}

impl Field {
    fn associated(self) -> [u8; 17] {
        let (column, row, at) = match self {
            Self::Proof => (0, 0, 0),
            Self::EventBody(event) => (1, event, 0),
            Self::FurtherBody(body) => (2, body, 0),
            Self::Settings(lane) => (3, lane.0, 0),
            Self::Secret(lane, created) => (4, lane.0, created.0),
            Self::AnswerHead(delivery, at) => (5, delivery.0, at.0),
            Self::AnswerBody(delivery, at) => (6, delivery.0, at.0),
            Self::Changed(number) => (7, number, 0),
        };
        let mut bytes = [0; 17];
        bytes[0] = column;
        bytes[1..9].copy_from_slice(&row.to_be_bytes());
        bytes[9..].copy_from_slice(&at.to_be_bytes());
        bytes
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proof => f.write_str("the proof of its key"),
            Self::EventBody(event) => write!(f, "the body of event {event}"),
            Self::FurtherBody(body) => write!(f, "body {body}"),
            Self::Settings(lane) => write!(f, "the settings of subscriber {}", lane.0),
            Self::Secret(lane, _) => write!(f, "a secret of subscriber {}", lane.0),
            Self::AnswerHead(delivery, _) | Self::AnswerBody(delivery, _) => {
                write!(f, "an answer to delivery {}", delivery.0)
            }
            Self::Changed(number) => write!(f, "change {number}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealError {
    #[error("{field} is sealed, and this process has no key; restart it with the key")]
    NoKey { field: Field },
    #[error("{field} is sealed with the key {found}; expected that key among those given, which are {known}")]
    UnknownKey { field: Field, found: String, known: String },
    #[error("{0} does not open: it was altered, or moved here from another row")]
    Altered(Field),
    #[error("{0} is not sealed, although this database is encrypted")]
    Plain(Field),
    #[error("the operating system gives no random bytes")]
    Random,
}

impl SealError {
    /// Whether other rows may open.
    pub(crate) const fn is_about_the_row(&self) -> bool {
        matches!(self, Self::Altered(_) | Self::Plain(_))
    }
}

impl From<SealError> for StoreError {
    fn from(error: SealError) -> Self {
        Self::Broken { doing: "open a sealed value", detail: error.to_string() }
    }
}

type Sealed<T> = Result<T, SealError>;

/// The keys for one store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seal {
    keys: Keyring,
    /// Some values are from before the encryption, and plain.
    takes_plain: bool,
}

impl Seal {
    /// For a store whose proof cannot be read.
    pub(crate) fn unproven(keys: &Keyring) -> Self {
        Self { keys: keys.clone(), takes_plain: true }
    }

    pub(crate) fn proof(&self) -> Sealed<Option<String>> {
        self.keys.proof()
    }

    pub(crate) fn close<'a>(&self, field: Field, plain: &'a [u8]) -> Sealed<Cow<'a, [u8]>> {
        let Some(key) = self.keys.keys().first() else { return Ok(Cow::Borrowed(plain)) };
        key.seal(field, plain).map(Cow::Owned).map_err(|Unspecified| SealError::Random)
    }

    pub(crate) fn close_text<'a>(&self, field: Field, plain: &'a str) -> Sealed<Cow<'a, str>> {
        Ok(match self.close(field, plain.as_bytes())? {
            Cow::Borrowed(_) => Cow::Borrowed(plain),
            Cow::Owned(sealed) => Cow::Owned(format!("{TEXT_MARK}{}", STANDARD.encode(sealed))),
        })
    }

    pub(crate) fn close_body(&self, field: Field, body: &Body) -> Sealed<Body> {
        Ok(match self.close(field, &body.bytes)? {
            Cow::Borrowed(_) => body.clone(),
            Cow::Owned(sealed) => Body { bytes: sealed.into() },
        })
    }

    pub(crate) fn close_answer<'a>(
        &self,
        (delivery, at): (DeliveryId, StoreTime),
        answer: &'a KeptAnswer,
    ) -> Sealed<Cow<'a, KeptAnswer>> {
        let head = match self.close_text(Field::AnswerHead(delivery, at), &answer.head)? {
            Cow::Borrowed(_) => return Ok(Cow::Borrowed(answer)),
            Cow::Owned(head) => head,
        };
        let body = self.close(Field::AnswerBody(delivery, at), &answer.body)?.into_owned();
        Ok(Cow::Owned(KeptAnswer { head, body, cut: answer.cut }))
    }

    pub(crate) fn close_details(&self, of: (DeliveryId, StoreTime), details: &Details) -> Sealed<Details> {
        let mut details = details.clone();
        if let Some(answer) = &details.answer
            && let Cow::Owned(sealed) = self.close_answer(of, answer)?
        {
            details.answer = Some(Arc::new(sealed));
        }
        Ok(details)
    }

    fn unseal(&self, field: Field, stored: &[u8]) -> Sealed<Vec<u8>> {
        let sealed = stored.strip_prefix(&MARK).ok_or(SealError::Plain(field))?;
        let altered = SealError::Altered(field);
        let Some((id, rest)) = sealed.split_at_checked(ID_BYTES) else { return Err(altered) };
        let Some(key) = self.keys.keys().iter().find(|key| key.id == *id) else {
            return Err(SealError::UnknownKey { field, found: hex(id), known: self.keys.to_string() });
        };
        let Some((random, ciphertext)) = rest.split_at_checked(RANDOM_BYTES) else { return Err(altered) };
        key.open(field, random, ciphertext).map_err(|Unspecified| altered)
    }

    /// `None` for a value that is plain, and may be.
    fn opened(&self, field: Field, stored: &[u8], is_sealed: bool) -> Sealed<Option<Vec<u8>>> {
        match (&self.keys.0, is_sealed) {
            (None, false) => Ok(None),
            (None, true) => Err(SealError::NoKey { field }),
            (Some(_), false) if self.takes_plain => Ok(None),
            (Some(_), _) => self.unseal(field, stored).map(Some),
        }
    }

    fn open_text(&self, field: Field, stored: &str) -> Sealed<Option<String>> {
        let sealed = stored.strip_prefix(TEXT_MARK);
        let bytes =
            sealed.map(|text| STANDARD.decode(text).map_err(|_| SealError::Altered(field))).transpose();
        // A plain store may hold any text.
        let bytes = if self.keys.0.is_none() { bytes.unwrap_or_default() } else { bytes? };
        let is_sealed = bytes.as_ref().is_some_and(|bytes| bytes.starts_with(&MARK));
        let opened = self.opened(field, &bytes.unwrap_or_default(), is_sealed)?;
        opened.map(|text| String::from_utf8(text).map_err(|_| SealError::Altered(field))).transpose()
    }

    /// The text, or the reason why it does not open.
    pub(crate) fn read_text(&self, field: Field, stored: String) -> String {
        match self.open_text(field, &stored) {
            Ok(opened) => opened.unwrap_or(stored),
            Err(error) => error.to_string(),
        }
    }

    pub(crate) fn open_body(&self, field: Field, stored: Body) -> Sealed<Body> {
        let opened = self.opened(field, &stored.bytes, stored.bytes.starts_with(&MARK))?;
        Ok(opened.map_or(stored, |bytes| Body { bytes: bytes.into() }))
    }

    /// Settings that do not open are replaced by the reason, so that this subscriber is broken and no other.
    pub(crate) fn open_subscriber(&self, stored: Subscriber) -> Result<Subscriber, StoreError> {
        let settings = match self.open_text(Field::Settings(stored.lane), &stored.settings) {
            Ok(None) => return Ok(stored),
            Ok(Some(settings)) => settings,
            Err(error) if error.is_about_the_row() => {
                tracing::error!(subscriber = &*stored.name, %error, "the settings of a subscriber cannot be read");
                error.to_string()
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Subscriber { settings: settings.into(), ..stored })
    }

    /// As [`Self::open_subscriber`]; the reason is no secret.
    pub(crate) fn open_secret(&self, lane: LaneId, stored: LiveSecret) -> Result<LiveSecret, StoreError> {
        let secret = match self.open_text(Field::Secret(lane, stored.created), stored.secret.reveal()) {
            Ok(None) => return Ok(stored),
            Ok(Some(secret)) => secret,
            Err(error) if error.is_about_the_row() => {
                tracing::error!(%error, "a secret cannot be read");
                error.to_string()
            }
            Err(error) => return Err(error.into()),
        };
        Ok(LiveSecret { secret: Secret::new(secret), ..stored })
    }

    fn open_answer(
        &self,
        (delivery, at): (DeliveryId, StoreTime),
        stored: &KeptAnswer,
    ) -> Sealed<Option<KeptAnswer>> {
        // The body is another's, and may begin like a sealed value.
        let Some(head) = self.open_text(Field::AnswerHead(delivery, at), &stored.head)? else {
            return Ok(None);
        };
        let body = self.unseal(Field::AnswerBody(delivery, at), &stored.body)?;
        Ok(Some(KeptAnswer { head, body, cut: stored.cut }))
    }

    pub(crate) fn open_attempted(&self, mut stored: Attempted) -> Result<Attempted, StoreError> {
        let attempt = &mut stored.attempt;
        let Some(answer) = &attempt.details.answer else { return Ok(stored) };
        match self.open_answer((stored.delivery, attempt.at), answer) {
            Ok(None) => {}
            Ok(Some(opened)) => attempt.details.answer = Some(Arc::new(opened)),
            Err(error) if error.is_about_the_row() => {
                tracing::error!(%error, "an answer cannot be read");
                attempt.details.answer = None;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(stored)
    }
}

/// A stored value as [`crate::command::Reseal`] reads and writes it.
#[derive(Debug)]
pub(crate) enum Stored {
    Bytes(Vec<u8>),
    Text(String),
    Answer(KeptAnswer),
}

/// One step of [`crate::command::Reseal`].
pub(crate) struct Step<'a> {
    seal: &'a Seal,
    table: SealedTable,
    rows_left: u32,
    bytes: usize,
    last: u64,
    damaged: u64,
    pub(crate) changed: Vec<(u64, Stored)>,
}

impl<'a> Step<'a> {
    const BYTES_MAX: usize = 4 << 20;

    pub(crate) const fn new(seal: &'a Seal, table: SealedTable, max: u32) -> Self {
        Self { seal, table, rows_left: max, bytes: 0, last: 0, damaged: 0, changed: Vec::new() }
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.rows_left == 0 || self.bytes >= Self::BYTES_MAX
    }

    /// Rows come in ascending order.
    pub(crate) fn add(&mut self, row: u64, field: Field, stored: &Stored) -> Sealed<()> {
        self.rows_left = self.rows_left.saturating_sub(1);
        self.last = row;
        match self.seal.resealed(field, stored) {
            Ok(None) => {}
            Ok(Some(sealed)) => {
                self.bytes += sealed.bytes();
                self.changed.push((row, sealed));
            }
            Err(error) if error.is_about_the_row() => {
                tracing::error!(%error, "a value stays as it is");
                self.damaged += 1;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(crate) fn reply(&self) -> Reply {
        let next = if self.is_full() {
            Some((self.table, self.last))
        } else {
            self.table.next().map(|next| (next, 0))
        };
        let values = size(self.changed.len());
        Reply::Resealed(Resealed { values, damaged: self.damaged, next })
    }
}

impl Stored {
    const fn bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Text(text) => text.len(),
            Self::Answer(answer) => answer.head.len() + answer.body.len(),
        }
    }
}

impl Seal {
    fn is_of_first(&self, sealed: &[u8]) -> bool {
        let id = sealed.strip_prefix(&MARK).and_then(|rest| rest.get(..ID_BYTES));
        self.keys.keys().first().is_some_and(|key| id == Some(&key.id))
    }

    fn is_text_of_first(&self, sealed: &str) -> bool {
        let sealed = sealed.strip_prefix(TEXT_MARK).and_then(|text| STANDARD.decode(text).ok());
        sealed.is_some_and(|sealed| self.is_of_first(&sealed))
    }

    /// `None` if the first key has sealed it already. A process without a key may have written plain values after all; a
    /// body that is neither sealed nor JSON was altered.
    fn resealed(&self, field: Field, stored: &Stored) -> Sealed<Option<Stored>> {
        if let Stored::Bytes(bytes) = stored
            && !bytes.starts_with(&MARK)
            && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_err()
        {
            return Err(SealError::Altered(field));
        }
        if !self.takes_plain {
            return Self { takes_plain: true, ..self.clone() }.resealed(field, stored);
        }
        Ok(match stored {
            Stored::Bytes(bytes) if self.is_of_first(bytes) => None,
            Stored::Bytes(bytes) => {
                let plain = self.opened(field, bytes, bytes.starts_with(&MARK))?;
                let plain = plain.as_deref().unwrap_or(bytes);
                Some(Stored::Bytes(self.close(field, plain)?.into_owned()))
            }
            Stored::Text(text) if self.is_text_of_first(text) => None,
            Stored::Text(text) => {
                let plain = self.open_text(field, text)?;
                Some(Stored::Text(self.close_text(field, plain.as_deref().unwrap_or(text))?.into_owned()))
            }
            Stored::Answer(answer) if self.is_text_of_first(&answer.head) => None,
            Stored::Answer(answer) => {
                let (Field::AnswerHead(delivery, at) | Field::AnswerBody(delivery, at)) = field else {
                    return Err(SealError::Altered(field));
                };
                let plain = self.open_answer((delivery, at), answer)?;
                let plain = plain.as_ref().unwrap_or(answer);
                Some(Stored::Answer(self.close_answer((delivery, at), plain)?.into_owned()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const NEW: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHiA=";

    fn seal(keys: &str) -> Seal {
        Seal { keys: Keyring::parse(keys).unwrap(), takes_plain: false }
    }

    fn fields() -> impl Strategy<Value = Field> {
        (0..7_u8, any::<u64>(), any::<u64>()).prop_map(|(column, row, at)| match column {
            0 => Field::Proof,
            1 => Field::EventBody(row),
            2 => Field::FurtherBody(row),
            3 => Field::Settings(LaneId(row)),
            4 => Field::Secret(LaneId(row), StoreTime(at)),
            5 => Field::AnswerHead(DeliveryId(row), StoreTime(at)),
            _ => Field::AnswerBody(DeliveryId(row), StoreTime(at)),
        })
    }

    proptest! {
        #[test]
        fn a_sealed_value_opens_in_its_place_alone_and_unaltered(
            plain: Vec<u8>, field in fields(), other in fields(), place: prop::sample::Index, bit in 0..8_u8
        ) {
            let seal = seal(OLD);
            let body = Body { bytes: plain.clone().into() };
            let sealed = seal.close_body(field, &body).unwrap();
            prop_assert_eq!(seal.open_body(field, sealed.clone()).unwrap(), body);
            prop_assert!(plain.len() < 8 || !sealed.bytes.windows(plain.len()).any(|part| part == plain));
            if other != field {
                prop_assert_eq!(seal.open_body(other, sealed.clone()), Err(SealError::Altered(other)));
            }
            let mut altered = sealed.bytes.to_vec();
            altered[place.index(sealed.bytes.len())] ^= 1 << bit;
            let altered = Body { bytes: altered.into() };
            prop_assert!(seal.open_body(field, altered).is_err());
            let cut = place.index(sealed.bytes.len());
            let cut = Body { bytes: sealed.bytes[..cut].into() };
            prop_assert!(seal.open_body(field, cut).is_err());
        }

        #[test]
        fn a_sealed_text_opens_to_the_same_text(plain: String, field in fields()) {
            let seal = seal(OLD);
            let sealed = seal.close_text(field, &plain).unwrap();
            prop_assert_eq!(seal.open_text(field, &sealed), Ok(Some(plain.clone())));
            let unlike = seal.close_text(field, "").unwrap();
            prop_assert_ne!(sealed, unlike, "each value has random bytes of its own");
        }
    }

    #[test]
    fn all_keys_open_and_the_first_seals() {
        let (old, both, new) = (seal(OLD), seal(&format!("# keys\n{NEW}\n\n {OLD} \n")), seal(NEW));
        let field = Field::EventBody(7);
        let body = Body { bytes: b"{}".as_slice().into() };
        let by_old = old.close_body(field, &body).unwrap();
        assert_eq!(both.open_body(field, by_old.clone()), Ok(body.clone()));
        let refused = new.open_body(field, by_old.clone()).unwrap_err();
        assert!(!refused.is_about_the_row(), "other keys do not make a dead letter");
        let stored = Stored::Bytes(by_old.bytes.to_vec());
        let Some(Stored::Bytes(by_new)) = both.resealed(field, &stored).unwrap() else {
            panic!("it is of the old one")
        };
        assert_eq!(new.open_body(field, Body { bytes: by_new.clone().into() }), Ok(body));
        assert!(both.resealed(field, &Stored::Bytes(by_new)).unwrap().is_none());
        let late = new.resealed(field, &Stored::Bytes(b"{}".to_vec())).unwrap();
        assert!(matches!(late, Some(Stored::Bytes(sealed)) if new.is_of_first(&sealed)));
        let altered = new.resealed(field, &Stored::Bytes(vec![b'x'; 40])).unwrap_err();
        assert_eq!(altered, SealError::Altered(field), "it is no JSON");
    }

    #[test]
    fn plain_values_are_taken_until_all_are_sealed() {
        let (strict, field) = (seal(OLD), Field::Settings(LaneId(1)));
        let lenient = Seal { takes_plain: true, ..strict.clone() };
        assert_eq!(lenient.open_text(field, "{}"), Ok(None));
        assert_eq!(strict.open_text(field, "{}"), Err(SealError::Plain(field)));
        let sealed = strict.close_text(field, "{}").unwrap();
        assert_eq!(Seal::default().open_text(field, &sealed), Err(SealError::NoKey { field }));
        let answer = KeptAnswer { head: String::new(), body: [&MARK[..], b"x"].concat(), cut: false };
        assert_eq!(lenient.open_answer((DeliveryId(1), StoreTime(1)), &answer), Ok(None));
    }

    #[test]
    fn a_key_that_cannot_be_used_is_refused_without_being_shown() {
        for (text, words) in [
            ("", "no key"),
            ("abc", "key 1 has 3 characters"),
            (&format!("{OLD},{OLD}"), "key 2 is there twice"),
            (&format!("{OLD}\n{}", &OLD[1..]), "key 2 has 63 characters"),
            (&OLD.replace('0', "x"), "key 1 has 64 characters"),
        ] {
            let told = Keyring::parse(text).unwrap_err().to_string();
            assert!(told.contains(words) && !told.contains("1e1f"), "{told}");
        }
        assert!(Keyring::parse(NEW.trim_end_matches('=')).is_ok());
    }
}
