//! Selects the fields that a subscriber receives. [`ShapingRules`] allow fields, and replace fields by pseudonyms.
//! Compiled into a [`Shaping`], they are applied once, at emit. Allowed data keeps its bytes.
//!
//! - A path with dots names a field: `stats.views`. Allowing a field allows everything inside it.
//! - For an array, a rule applies to each element.
//! - Data that no rule allows is dropped: plain values where a rule names something inside, also as array elements,
//!   and data that is not an object, which becomes `null`.
//! - Without an allow list, everything but the pseudonyms is allowed. Prefer a list: it also protects later fields.
//! - A pseudonym may be far longer than its value, so callers set a maximum length.
//!
//! Equal [`ShapeId`]s mean equal bytes, and one shared body.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use hookproof_words::text_form;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::json::{Json, JsonKind, Walk};
use crate::documented::documented;
use crate::event::public_id::PublicId;
use crate::excerpt::Excerpt;
use crate::sign::Mac;
use crate::sign::{Secret, Tag};

#[cfg(test)]
mod tests;

const _: () = assert!(
    ShapingRules::FIELDS_MAX * (ShapingRules::NEW_NAME_BYTES_MAX + Pseudonyms::BYTES)
        <= Shaping::GROWTH_BYTES_MAX,
    "one pseudonym for each rule must fit, with its new name"
);

#[derive(Clone, Debug)]
pub struct Shaping {
    root: Node,
    pseudonyms: Option<Pseudonyms>,
    id: ShapeId,
}

impl Shaping {
    /// Bytes that shaping may add to the longest event: at least one pseudonym for each rule.
    pub const GROWTH_BYTES_MAX: usize = 256 << 10;

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

    /// The depth limit bounds the recursion.
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

/// Stops one value beyond the limit at most.
struct Text {
    text: String,
    bytes_max: usize,
}

impl Text {
    const fn is_too_long(&self) -> bool {
        self.text.len() > self.bytes_max
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaped<'a>(Cow<'a, str>);

impl Shaped<'_> {
    #[must_use]
    pub fn json(&self) -> Json<'_> {
        Json::known(&self.0)
    }
}

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

// A partner can tell that two events concern the same person, but not which one, nor match pseudonyms with another
// partner.

text_form!(Region, "a region, such as \"DE\"");

/// HMAC-SHA256 with a key derived from the region's secret, for one subscriber.
#[derive(Clone, Debug)]
pub struct Pseudonyms {
    mac: Mac,
}

impl Pseudonyms {
    /// Digits and quotes.
    const BYTES: usize = 66;

    #[must_use]
    pub fn new(region: &Region, secret: &Secret, subscriber: &PublicId) -> Self {
        // Neither part contains NUL.
        let parts = [b"hookproof pseudonym\0", region.0.as_bytes(), b"\0", subscriber.as_str().as_bytes()];
        Self { mac: Mac::new(&secret.mac().tag(&parts).0) }
    }

    /// A JSON string of 64 hexadecimal digits. Strings are compared unescaped, other values by their text.
    fn write(&self, value: Json<'_>, out: &mut String) {
        let string = if value.kind() == JsonKind::String { value.string() } else { None };
        let tag = match &string {
            Some(string) => self.mac.tag(&[b"string\0", string.as_bytes()]),
            None => self.mac.tag(&[b"json\0", value.text().as_bytes()]),
        };
        out.push('"');
        out.extend(tag.hex());
        out.push('"');
    }

    fn fingerprint(&self) -> Tag {
        self.mac.tag(&[b"fingerprint\0"])
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(Box<str>);

impl Region {
    pub const BYTES_MAX: usize = 32;

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Region {
    type Err = RegionError;

    fn from_str(text: &str) -> Result<Self, RegionError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if text.is_empty() || text.len() > Self::BYTES_MAX || !text.bytes().all(allowed) {
            return Err(RegionError { given: Excerpt::of(text) });
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given} is no region; expected 1 to {} letters, digits, '_' and '-'", Region::BYTES_MAX)]
pub struct RegionError {
    given: Excerpt,
}

/// The fields of an event's data that a subscriber receives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapingRules {
    /// The paths of allowed fields. Absent: all. Empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// The replaced fields, which need not be in `allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pseudonyms: Vec<PseudonymRule>,
}

documented! {
    /// One field that is replaced by a pseudonym.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PseudonymRule {
        /// The path of the field.
        pub field: String,
        /// The name it takes, in the place where it was. A field of that name in the data is left out, so that nothing
        /// can pass for a pseudonym.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub new_name as "as": Option<String>,
    }
}

impl ShapingRules {
    pub const FIELDS_MAX: usize = 128;
    pub const PATH_BYTES_MAX: usize = 256;
    pub const PATH_NAMES_MAX: usize = 16;
    /// JSON escapes every byte, and adds quotes.
    const NEW_NAME_BYTES_MAX: usize = 6 * Self::PATH_BYTES_MAX + 2;

    fn compile(&self) -> Result<Node, ShapingError> {
        let count = self.allow.as_ref().map_or(0, Vec::len) + self.pseudonyms.len();
        if count > Self::FIELDS_MAX {
            return Err(ShapingError::TooMany { count });
        }
        let mut root = Node { kept: self.allow.is_none(), ..Node::default() };
        for path in self.allow.iter().flatten() {
            root.descend(path)?.kept = true;
        }
        for rule in &self.pseudonyms {
            rule.add_to(&mut root)?;
        }
        root.check()?;
        root.simplify();
        Ok(root)
    }
}

impl PseudonymRule {
    fn add_to(&self, root: &mut Node) -> Result<(), ShapingError> {
        check_path(&self.field)?;
        let (parent, name) = match self.field.rsplit_once('.') {
            Some((parent, name)) => (root.descend(parent)?, name),
            None => (root, self.field.as_str()),
        };
        let new_name = self.new_name.as_deref().filter(|new_name| *new_name != name);
        new_name.map(check_name).transpose()?;
        let node = parent.fields.entry(name.into()).or_default();
        if node.is_replaced() {
            return Err(ShapingError::ReplacedTwice { field: Excerpt::of(&self.field) });
        }
        let as_json = |name: &str| serde_json::Value::from(name).to_string().into();
        node.replaced = Some(Replaced { new_name: new_name.map(as_json) });
        let taken = new_name.unwrap_or(name);
        if !parent.taken.insert(taken.into()) {
            return Err(ShapingError::NameTaken { name: Excerpt::of(taken) });
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    /// Except as `fields` says.
    kept: bool,
    replaced: Option<Replaced>,
    fields: BTreeMap<Box<str>, Node>,
    taken: BTreeSet<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Replaced {
    /// As JSON with quotes.
    new_name: Option<Box<str>>,
}

/// For places without rules inside an allowed one.
static EVERYTHING: Node =
    Node { kept: true, replaced: None, fields: BTreeMap::new(), taken: BTreeSet::new() };

impl Node {
    fn everything() -> Self {
        EVERYTHING.clone()
    }

    fn lets_everything_through(&self) -> bool {
        self.kept && self.replaced.is_none() && self.fields.is_empty()
    }

    /// Whether any part of such a value is allowed. A container's existence always is.
    fn lets_through(&self, kind: JsonKind) -> bool {
        self.kept || self.replaced.is_some() || matches!(kind, JsonKind::Object | JsonKind::Array)
    }

    const fn is_replaced(&self) -> bool {
        self.replaced.is_some()
    }

    fn new_name(&self) -> Option<&str> {
        self.replaced.as_ref()?.new_name.as_deref()
    }

    /// A name that is not text matches no rule.
    fn field(&self, name: Option<&str>) -> Option<&Self> {
        let known = name.and_then(|name| self.fields.get(name));
        match known {
            Some(field) if field.is_replaced() => known,
            _ if name.is_some_and(|name| self.taken.contains(name)) => None,
            Some(_) => known,
            None if self.kept => Some(&EVERYTHING),
            None => None,
        }
    }

    fn descend(&mut self, path: &str) -> Result<&mut Self, ShapingError> {
        check_path(path)?;
        let names = path.split('.');
        Ok(names.fold(self, |node, name| node.fields.entry(name.into()).or_default()))
    }

    /// The path length bounds the recursion.
    fn check(&self) -> Result<(), ShapingError> {
        for (name, field) in &self.fields {
            if field.is_replaced() && !field.fields.is_empty() {
                return Err(ShapingError::InsideReplaced { name: Excerpt::of(name) });
            }
            if !field.is_replaced() && self.taken.contains(name) {
                return Err(ShapingError::NameTaken { name: Excerpt::of(name) });
            }
            field.check()?;
        }
        Ok(())
    }

    fn simplify(&mut self) {
        for field in self.fields.values_mut() {
            field.kept = (field.kept || self.kept) && !field.is_replaced();
            field.simplify();
        }
        let kept = self.kept;
        self.fields.retain(|_, field| !(kept && field.lets_everything_through()));
    }

    /// Unambiguous, since it includes each name's length.
    fn describe(&self, tell: &mut impl FnMut(&[u8])) {
        let mut text = |text: &str| {
            tell(&text.len().to_be_bytes());
            tell(text.as_bytes());
        };
        match &self.replaced {
            Some(Replaced { new_name: Some(new_name) }) => text(new_name),
            Some(Replaced { new_name: None }) => text("replaced"),
            None => text(if self.kept { "kept" } else { "listed" }),
        }
        tell(&self.fields.len().to_be_bytes());
        for (name, field) in &self.fields {
            tell(&name.len().to_be_bytes());
            tell(name.as_bytes());
            field.describe(tell);
        }
    }
}

fn check_path(path: &str) -> Result<(), ShapingError> {
    let problem = if path.len() > ShapingRules::PATH_BYTES_MAX {
        FieldProblem::TooLong
    } else if path.split('.').any(str::is_empty) {
        FieldProblem::EmptyName
    } else if path.split('.').count() > ShapingRules::PATH_NAMES_MAX {
        FieldProblem::TooDeep
    } else {
        return Ok(());
    };
    Err(ShapingError::Field { field: Excerpt::of(path), problem })
}

fn check_name(name: &str) -> Result<(), ShapingError> {
    let problem = match name.len() {
        0 => FieldProblem::EmptyName,
        bytes if bytes > ShapingRules::PATH_BYTES_MAX => FieldProblem::TooLong,
        _ => return Ok(()),
    };
    Err(ShapingError::Field { field: Excerpt::of(name), problem })
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapingError {
    #[error("the shaping rules name the field {field}: {problem}")]
    Field { field: Excerpt, problem: FieldProblem },
    #[error("the shaping rules name {count} fields; at most {} are accepted", ShapingRules::FIELDS_MAX)]
    TooMany { count: usize },
    #[error(
        "the shaping rules replace {name} by a pseudonym and name a field inside it; keep one of the two"
    )]
    InsideReplaced {
        /// The last name of its path.
        name: Excerpt,
    },
    #[error("the shaping rules replace {field} twice")]
    ReplacedTwice { field: Excerpt },
    /// A pseudonym's name belongs to another field.
    #[error("the shaping rules let two fields go out as {name}; name the pseudonym otherwise")]
    NameTaken { name: Excerpt },
    #[error("the shaping rules replace fields by pseudonyms, but the subscriber's region has no secret")]
    NoRegionSecret,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    #[error("a name in it is empty; expected names with dots between them, such as stats.views")]
    EmptyName,
    #[error("it is longer than {} bytes", ShapingRules::PATH_BYTES_MAX)]
    TooLong,
    #[error("it has more than {} names", ShapingRules::PATH_NAMES_MAX)]
    TooDeep,
}
