//! [`verify`] says whether a sender signed a request. It is pure and total: the time is an argument, and no input
//! makes it panic. It compares secrets in constant time, and allocates only for an id without a header, for
//! Twilio's forms, to check public signatures, for Adyen's members, and for the text of an HTTP Message Signature.
//!
//! Stricter than public libraries, because attackers use input that two parsers read differently: canonical base64
//! with padding, lower-case hex, canonical timestamps, no repeated header, only visible ASCII. No body is parsed
//! before its signature is verified, but Twilio's forms, of up to 1,000 `&`, and Adyen's JSON, whose signature is in it.

#![warn(missing_docs)]

mod adyen;
mod body_id;
pub mod handshake;
mod headers;
mod jwt;
pub mod keys;
mod message;
mod paypal;
pub mod profile;
#[cfg(test)]
mod published;
pub mod rejection;
mod rsa;
mod scheme;
mod schemed;
mod signature;
mod standard;
mod timestamp;
mod twilio;
mod url;
mod vvv;

use std::borrow::Cow;

pub use headers::Headers;
pub use keys::{KeyError, Keys, Permission, Secret};
pub use profile::{Profile, UnknownProfile};
pub use rejection::Rejection;
pub use timestamp::UnixSeconds;

/// A request with a valid signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<'a> {
    /// Identifies repeats. [`Profile::id_is_signed`] says whether the signature covers it.
    pub id: Cow<'a, str>,
    /// When it was signed, if the profile signs a time.
    pub signed_at: Option<UnixSeconds>,
    /// The matching key's index, which shows when a rotation is complete.
    pub key: usize,
}

/// Verifies that one of the keys signed the body and headers recently enough.
///
/// # Errors
/// The first broken rule. No error reveals the expected signature.
pub fn verify<'a, H: Headers + ?Sized>(
    now: UnixSeconds,
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    match keys.profile().scheme() {
        Some(scheme) => scheme.verify(now, headers, body, keys),
        None if keys.profile() == Profile::Adyen => adyen::verify(body, keys),
        None if keys.profile() == Profile::VvvFrozen => vvv::verify(headers, body, keys),
        None if keys.profile() == Profile::Twilio => twilio::verify(headers, body, keys),
        None if keys.profile() == Profile::Paypal => paypal::verify(headers, body, keys),
        None if keys.profile() == Profile::Plaid => jwt::verify(now, headers, body, keys),
        None if keys.profile() == Profile::Rfc9421 => message::verify(now, headers, body, keys),
        None => standard::verify(now, headers, body, keys),
    }
}
