//! Events, from an offer to the bytes that are sent.
//!
//! ```text
//!  bytes ──► Offer::parse ──► EventPatterns::matches ──► Shaping::apply ──► Body::build ──► stored, sent as they are
//!            limits, JSON        per subscriber            once per shape      once per shape
//! ```
//!
//! - [`json`]: checks JSON and keeps its bytes. Data reaches the endpoint byte for byte: numbers, escapes, the order
//!   of keys and repeated keys stay.
//! - [`shape`]: the fields that a subscriber receives; [`coalesce`]: events replaced by newer ones.
//!
//! Pure: times and random bytes are arguments. No input makes it panic, recurse without bound or allocate more than a
//! small multiple of its size, or with pseudonyms, of the longest event.

pub mod coalesce;
pub mod json;
pub mod key;
pub mod offer;
pub mod refusal;
pub mod shape;
pub mod timestamp;

pub use coalesce::{Coalescing, CoalescingKey, CoalescingRule};
pub use event_type::{EventPatterns, EventType, EventTypeError, Pattern, PatternError};
pub use hookproof_words::{event_type, public_id};
pub use json::{Depth, Json};
pub use key::{EventKey, EventKeyError};
pub use offer::{Batch, Body, Limits, Offer};
pub use public_id::{Kind, PublicId, PublicIdError};
pub use refusal::Refusal;
pub use shape::{Pseudonyms, Region, ShapeId, Shaped, Shaping, ShapingRules};
