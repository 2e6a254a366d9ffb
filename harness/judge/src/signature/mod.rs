//! Webhook signatures, implemented for the judge alone.
//!
//! If the judge shared a signer with the sender or a verifier with the receiver, one mistake would hide on
//! both sides. So this module follows the profiles' public definitions, and uses another crypto library
//! (`ring`). Its verifier also reports *which* key signed. It reads no clock: time is an argument.

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
