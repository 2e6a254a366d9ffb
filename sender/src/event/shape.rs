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

/// Rules made ready, with the pseudonyms of one subscriber where they are needed.
#[derive(Clone, Debug)]
pub struct Shaping {
    root: Node,
    pseudonyms: Option<Pseudonyms>,
    id: ShapeId,
}

impl Shaping {
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

    /// The data as the subscriber gets it.
    #[must_use]
    pub fn apply<'a>(&self, data: Json<'a>) -> Shaped<'a> {
        if self.id == ShapeId::VERBATIM {
            return Shaped(Cow::Borrowed(data.text()));
        }
        if !self.root.lets_through(data.kind()) {
            return Shaped(Cow::Borrowed(Json::NULL.text()));
        }
        let mut shaped = String::with_capacity(data.text().len());
        self.write(&self.root, &mut Walk::before(data), &mut shaped);
        Shaped(Cow::Owned(shaped))
    }

    /// Writes the next value as the node says, which does let it through. Recurses no deeper than JSON may be nested.
    fn write(&self, node: &Node, walk: &mut Walk<'_>, out: &mut String) {
        if node.lets_everything_through() {
            out.extend(walk.value().map(Json::text));
            return;
        }
        match walk.kind() {
            JsonKind::Array => self.write_elements(node, walk, out),
            JsonKind::Null => out.extend(walk.value().map(Json::text)),
            _ if node.is_replaced() => {
                if let (Some(value), Some(pseudonyms)) = (walk.value(), &self.pseudonyms) {
                    pseudonyms.write(value, out);
                }
            }
            JsonKind::Object => self.write_fields(node, walk, out),
            _ => out.extend(walk.value().map(Json::text)),
        }
    }

    fn write_elements(&self, node: &Node, walk: &mut Walk<'_>, out: &mut String) {
        let mut separator = "";
        walk.enter();
        out.push('[');
        while !walk.leave() {
            if node.lets_through(walk.kind()) {
                out.push_str(separator);
                self.write(node, walk, out);
                separator = ",";
            } else {
                walk.value();
            }
        }
        out.push(']');
    }

    fn write_fields(&self, node: &Node, walk: &mut Walk<'_>, out: &mut String) {
        let mut separator = "";
        walk.enter();
        out.push('{');
        while !walk.leave() {
            let Some(key) = walk.value() else { break };
            let name = key.string();
            let Some(field) = node.field(name.as_deref()).filter(|field| field.lets_through(walk.kind()))
            else {
                walk.value();
                continue;
            };
            out.push_str(separator);
            out.push_str(field.new_name().unwrap_or(key.text()));
            out.push(':');
            self.write(field, walk, out);
            separator = ",";
        }
        out.push('}');
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
