//! Selects the fields that a subscriber receives, so that partners get no personal data without a contract
//! for it.
//!
//! [`ShapingRules`] allow fields, and replace fields by pseudonyms. Compiled into a [`Shaping`], they are
//! applied once, at emit. Allowed data keeps its bytes; without rules, all data stays as it is.
//!
//! - A path with dots names a field: `stats.views`. Allowing a field allows everything inside it.
//! - For an array, a rule applies to each element.
//! - Data that no rule allows is dropped: plain values where a rule names something inside, also as array
//!   elements, and data that is not an object, which becomes `null`.
//! - Without an allow list, everything but the pseudonyms is allowed. Prefer a list: it also protects fields
//!   that are added later.
//! - A pseudonym may be far longer than its value, so callers set a maximum length.
//!
//! Equal [`ShapeId`]s mean equal bytes, and one shared body.

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

/// Compiled rules, with pseudonyms if used.
#[derive(Clone, Debug)]
pub struct Shaping {
    root: Node,
    pseudonyms: Option<Pseudonyms>,
    id: ShapeId,
}

impl Shaping {
    /// Bytes that shaping may add to the longest event: at least one pseudonym for each rule, with its new
    /// name.
    pub const GROWTH_BYTES_MAX: usize = 256 << 10;

    /// Leaves all data as it is.
    #[must_use]
    pub fn verbatim() -> Self {
        Self { root: Node::everything(), pseudonyms: None, id: ShapeId::VERBATIM }
    }

    /// Pseudonyms belong to one region and one subscriber; rules that need them are refused without.
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

    /// Equal ids produce equal bytes.
    #[must_use]
    pub const fn id(&self) -> ShapeId {
        self.id
    }

    /// `None` if the result exceeds `bytes_max`, which does not apply to verbatim data.
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

    /// The node allows the value. The JSON depth limit bounds the recursion.
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

/// Stops once it is too long, one value beyond the limit at most.
struct Text {
    text: String,
    bytes_max: usize,
}

impl Text {
    const fn is_too_long(&self) -> bool {
        self.text.len() > self.bytes_max
    }
}

/// Shaped data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaped<'a>(Cow<'a, str>);

impl Shaped<'_> {
    /// The data.
    #[must_use]
    pub fn json(&self) -> Json<'_> {
        Json::known(&self.0)
    }
}

/// Subscribers with equal ids share their bodies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub [u8; 16]);

impl ShapeId {
    /// For unchanged data.
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
