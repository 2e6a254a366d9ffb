//! Is this request what the sender signed? One function, [`verify`], from bytes to an answer.
//!
//! Pure and total: the time is an argument, and no header and no body makes it panic. Where it compares secrets it
//! takes the same time whatever they are. It allocates nothing, but where a profile has no header for the id (the end of
//! the search in the body is one small box) and where an Ed25519 signature has to be checked.
//!
//! Strict where public libraries are lax, because what two parties read differently is what an attacker looks for:
//! base64 without junk and with its padding, hex in lower case, timestamps in their one canonical form, no header
//! twice, nothing but visible ASCII. The body is bytes: it is never parsed before its signature is known to fit.
//!
//! Reading order: [`profile`], [`keys`], [`rejection`], then a file for each profile.

mod body_id;
mod github;
mod headers;
pub mod keys;
pub mod profile;
pub mod rejection;
mod signature;
mod standard;
mod stripe;
mod timestamp;
mod vvv;

use std::borrow::Cow;

pub use headers::Headers;
pub use keys::{KeyError, Keys, Secret};
pub use profile::{Profile, UnknownProfile};
pub use rejection::Rejection;
pub use timestamp::UnixSeconds;

/// A request whose signature fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<'a> {
    /// By which a repeated delivery is told from a new one. See [`Profile::id_is_signed`] on who vouches for it.
    pub id: Cow<'a, str>,
    /// When it was signed, where the profile says so.
    pub signed_at: Option<UnixSeconds>,
    /// The place of the key that fits, in the order in which they were given: tells when a rotation is over.
    pub key: usize,
}

/// Whether the body, with these headers, was signed by one of the keys, and recently enough.
///
/// # Errors
/// The first rule that the request breaks. None of them tells what the signature should have been.
pub fn verify<'a, H: Headers + ?Sized>(
    now: UnixSeconds,
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    match keys.profile() {
        Profile::StandardWebhooks => standard::verify(now, headers, body, keys),
        Profile::VvvTimestamped => vvv::verify_timestamped(now, headers, body, keys),
        Profile::VvvFrozen => vvv::verify_frozen(headers, body, keys),
        Profile::Stripe => stripe::verify(now, headers, body, keys),
        Profile::Github => github::verify(headers, body, keys),
    }
}
