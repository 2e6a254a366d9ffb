//! Webhook signatures and raw HTTP, written for the judge alone.
//!
//! The judge must be a stranger to what it judges: were it to share a signer with the sender or a verifier with the
//! receiver, one mistake would hide on both sides. So everything here is written a second time, from the profiles'
//! public definitions, on another crypto library (`ring`) than theirs. Two more reasons to have its own: a verifier
//! that judges must say *which* key signed, and a client that attacks must send what no client library would.
//!
//! Nothing here reads a clock but `clock`, and nothing but `exchange` opens a socket.

pub mod answer;
pub mod clock;
pub mod digest;
pub mod exchange;
mod key;
mod own;
mod profile;
pub mod request;
mod scheme;
mod secret;
mod sign;
pub mod target;
mod verify;

pub use key::{Algorithm, Key, KeyError, KeyForm};
pub use own::{Encoding, OwnScheme, Part, Stamp, Unit};
pub use profile::{Profile, UnknownProfile};
pub use scheme::Scheme;
pub use secret::{Secret, SecretError};
pub use sign::{Signing, encode, sign};
pub use verify::{Seen, Wrong, verify};
