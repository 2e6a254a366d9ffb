//! What of an event's data a subscriber gets to see, so that a partner receives no personal data that it has no
//! contract for.
//!
//! [`ShapingRules`] are what an operator writes: fields that are let through, and fields that are replaced by a
//! pseudonym. Compiled into a [`Shaping`] they are applied to the data once, at emit. What is let through keeps its
//! bytes; no rules at all leave the data as it came.
//!
//! - A field is named by its path from the top, with dots: `stats.views`. To let a field through is to let through all
//!   that is in it.
//! - A rule that meets an array holds for each of its elements.
//! - What no rule lets through is left out: a plain value where a rule names something inside it, an element of an
//!   array likewise, data that is no object at all (which becomes `null`).
//! - Where the list of fields is absent, everything is let through but for the pseudonyms. Prefer the list: it is safe
//!   against fields that nobody thought of.
//! - A pseudonym is longer than most of what it stands for: a list of short ones becomes 33 times as long. So whoever applies
//!   a shaping says how long the data may become.
//!
//! Two subscribers whose rules must yield the same bytes have the same [`ShapeId`] and share one body.

mod pseudonym;
mod rules;

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest, Sha256};

pub use pseudonym::{Pseudonyms, Region, RegionError};
pub use rules::{FieldProblem, PseudonymRule, ShapingError, ShapingRules};

use super::json::{Json, JsonKind, Walk};
use rules::Node;

const _: () = assert!(
    ShapingRules::FIELDS_MAX * (ShapingRules::NEW_NAME_BYTES_MAX + Pseudonyms::BYTES)
        <= Shaping::GROWTH_BYTES_MAX,
    "one pseudonym for each rule must fit, with its new name"
);

/// Rules made ready, with the pseudonyms of one subscriber where they are needed.
#[derive(Clone, Debug)]
pub struct Shaping {
    root: Node,
    pseudonyms: Option<Pseudonyms>,
    id: ShapeId,
}

impl Shaping {
    /// By how much the data that a shaping makes may be longer than the longest event. One pseudonym for each rule, with its
    /// new name, always fits.
    pub const GROWTH_BYTES_MAX: usize = 256 << 10;

    /// Leaves all data as it came.
    #[must_use]
    pub fn verbatim() -> Self {
        Self { root: Node::everything(), pseudonyms: None, id: ShapeId::VERBATIM }
    }

    /// Makes rules ready. Pseudonyms belong to one region and one subscriber; rules that need them are refused
    /// without.
    pub fn new(rules: &ShapingRules, pseudonyms: Option<Pseudonyms>) -> Result<Self, ShapingError> {
        let root = rules.compile()?;
        if root.lets_everything_through() {
            return Ok(Self::verbatim());
        }
        let needed = !rules.pseudonyms.is_empty();
        if needed && pseudonyms.is_none() {
            return Err(ShapingError::NoRegionSecret);
        }
        let pseudonyms = pseudonyms.filter(|_| needed);
        let id = ShapeId::of(&root, pseudonyms.as_ref());
        Ok(Self { root, pseudonyms, id })
    }

    /// Which bodies it makes: the same id, the same bytes.
    #[must_use]
    pub const fn id(&self) -> ShapeId {
        self.id
    }

    /// The data as the subscriber gets it; nothing if that is longer than `bytes_max`. Data that is left as it came has no
    /// bound but that of what was offered.
    #[must_use]
    pub fn apply<'a>(&self, data: Json<'a>, bytes_max: usize) -> Option<Shaped<'a>> {
        if self.id == ShapeId::VERBATIM {
            return Some(Shaped(Cow::Borrowed(data.text())));
        }
        if !self.root.lets_through(data.kind()) {
            return Some(Shaped(Cow::Borrowed(Json::NULL.text())));
        }
        let text = String::with_capacity(data.text().len().min(bytes_max));
        let mut shaped = Text { text, bytes_max };
        self.write(&self.root, &mut Walk::before(data), &mut shaped);
        (!shaped.is_too_long()).then_some(Shaped(Cow::Owned(shaped.text)))
    }

    /// Writes the next value as the node says, which does let it through. Recurses no deeper than JSON may be nested.
    fn write(&self, node: &Node, walk: &mut Walk<'_>, out: &mut Text) {
        if node.lets_everything_through() {
            out.text.extend(walk.value().map(Json::text));
            return;
        }
        match walk.kind() {
            JsonKind::Array => self.write_elements(node, walk, out),
            JsonKind::Null => out.text.extend(walk.value().map(Json::text)),
            _ if node.is_replaced() => {
                if let (Some(value), Some(pseudonyms)) = (walk.value(), &self.pseudonyms) {
                    pseudonyms.write(value, &mut out.text);
                }
            }
            JsonKind::Object => self.write_fields(node, walk, out),
            _ => out.text.extend(walk.value().map(Json::text)),
        }
    }

    fn write_elements(&self, node: &Node, walk: &mut Walk<'_>, out: &mut Text) {
        let mut separator = "";
        walk.enter();
        out.text.push('[');
        while !out.is_too_long() && !walk.leave() {
            if node.lets_through(walk.kind()) {
                out.text.push_str(separator);
                self.write(node, walk, out);
                separator = ",";
            } else {
                walk.value();
            }
        }
        out.text.push(']');
    }

    fn write_fields(&self, node: &Node, walk: &mut Walk<'_>, out: &mut Text) {
        let mut separator = "";
        walk.enter();
        out.text.push('{');
        while !out.is_too_long() && !walk.leave() {
            let Some(key) = walk.value() else { break };
            let name = key.string();
            let Some(field) = node.field(name.as_deref()).filter(|field| field.lets_through(walk.kind()))
            else {
                walk.value();
                continue;
            };
            out.text.push_str(separator);
            out.text.push_str(field.new_name().unwrap_or(key.text()));
            out.text.push(':');
            self.write(field, walk, out);
            separator = ",";
        }
        out.text.push('}');
    }
}

/// Shaped data that is being written. Once it is too long nothing more is read: it is longer by one value at most.
struct Text {
    text: String,
    bytes_max: usize,
}

impl Text {
    const fn is_too_long(&self) -> bool {
        self.text.len() > self.bytes_max
    }
}

/// Data as one shape has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaped<'a>(Cow<'a, str>);

impl Shaped<'_> {
    /// The data.
    #[must_use]
    pub fn json(&self) -> Json<'_> {
        Json::known(&self.0)
    }
}

/// Names the bytes that a shaping makes of any data: subscribers with the same one share their bodies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub [u8; 16]);

impl ShapeId {
    /// Of data left as it came.
    pub const VERBATIM: Self = Self([0; 16]);

    fn of(root: &Node, pseudonyms: Option<&Pseudonyms>) -> Self {
        let mut hash = Sha256::new();
        root.describe(&mut |part| hash.update(part));
        if let Some(pseudonyms) = pseudonyms {
            hash.update(pseudonyms.fingerprint().0);
        }
        let digest = hash.finalize();
        Self(std::array::from_fn(|at| digest[at]))
    }
}

impl fmt::Debug for ShapeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests;
