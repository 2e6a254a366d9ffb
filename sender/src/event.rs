//! Events on their way in: what an emitter may offer, whom it concerns, and which bytes it becomes.
//!
//! ```text
//!  bytes ──► Offer::parse ──► EventPatterns::matches ──► Shaping::apply ──► Body::build ──► stored, sent as they are
//!            limits, JSON        per subscriber            once per shape      once per shape
//! ```
//!
//! - [`json`]: JSON that is checked and then left alone. Data is carried from the emitter to the endpoint byte for
//!   byte: numbers, escapes, the order of keys and even doubled keys stay as they came.
//! - [`offer`]: one event as an emitter offers it, and a batch of them; [`refusal`]: why it is not accepted.
//! - [`limits`]: how large and how deep an event may be.
//! - [`event_type`], [`key`], [`public_id`]: its words; [`pattern`]: which types a subscriber wants.
//! - [`shape`]: which of its data a subscriber gets to see; [`coalesce`]: which events it gets the newest of.
//! - [`body`]: the exact bytes that every attempt sends; [`timestamp`]: how time is written in them.
//!
//! All of it is pure: the time and random bytes are arguments. Nothing that a stranger sends makes it panic, recurse
//! or allocate more than a small multiple of what was sent; where pseudonyms take the place of shorter text, of the longest event.

pub mod body;
pub mod coalesce;
pub mod event_type;
pub mod json;
pub mod key;
pub mod limits;
pub mod offer;
pub mod pattern;
pub mod public_id;
pub mod refusal;
pub mod shape;
pub mod timestamp;

pub use body::Body;
pub use coalesce::{Coalescing, CoalescingKey, CoalescingRule};
pub use event_type::{EventType, EventTypeError};
pub use json::Json;
pub use key::{EventKey, EventKeyError};
pub use limits::{Depth, Limits};
pub use offer::{Batch, Offer};
pub use pattern::{EventPatterns, Pattern, PatternError};
pub use public_id::{Kind, PublicId, PublicIdError};
pub use refusal::Refusal;
pub use shape::{Pseudonyms, Region, ShapeId, Shaped, Shaping, ShapingRules};
