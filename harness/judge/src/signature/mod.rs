//! Webhook signatures, written for the judge alone.
//!
//! If the judge shared a signer with the sender or a verifier with the receiver, one mistake would hide on both sides. So
//! this module is written from the profiles' public definitions, on another crypto library (`ring`) than theirs. Its
//! verifier also says *which* key signed. It reads no clock: time is an argument.

pub mod digest;
mod key;
mod own;
mod profile;
mod scheme;
mod secret;
mod sign;
mod verify;

pub use key::{Algorithm, Key, KeyError, KeyForm};
pub use own::{Encoding, OwnScheme, Part, Stamp, Unit};
pub use profile::{Profile, UnknownProfile};
pub use scheme::Scheme;
pub use secret::{Secret, SecretError};
pub use sign::{Signing, encode, sign};
pub use verify::{Seen, Wrong, verify};
