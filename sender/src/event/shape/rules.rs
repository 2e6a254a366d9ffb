//! Shaping rules, and their compiled tree.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::documented::documented;
use crate::event::json::JsonKind;
use crate::excerpt::Excerpt;

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
    /// The most fields in rules.
    pub const FIELDS_MAX: usize = 128;
    /// The longest path in bytes.
    pub const PATH_BYTES_MAX: usize = 256;
    /// The most names in a path.
    pub const PATH_NAMES_MAX: usize = 16;
    /// As JSON in bytes: every byte escaped, plus quotes.
    pub(super) const NEW_NAME_BYTES_MAX: usize = 6 * Self::PATH_BYTES_MAX + 2;

    pub(super) fn compile(&self) -> Result<Node, ShapingError> {
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
pub(super) struct Node {
    /// Except as `fields` says.
    kept: bool,
    replaced: Option<Replaced>,
    fields: BTreeMap<Box<str>, Node>,
    /// Pseudonyms' names at this level.
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
    pub(super) fn everything() -> Self {
        EVERYTHING.clone()
    }

    pub(super) fn lets_everything_through(&self) -> bool {
        self.kept && self.replaced.is_none() && self.fields.is_empty()
    }

    /// Whether any part of such a value is allowed. A container's existence always is.
    pub(super) fn lets_through(&self, kind: JsonKind) -> bool {
        self.kept || self.replaced.is_some() || matches!(kind, JsonKind::Object | JsonKind::Array)
    }

    pub(super) const fn is_replaced(&self) -> bool {
        self.replaced.is_some()
    }

    pub(super) fn new_name(&self) -> Option<&str> {
        self.replaced.as_ref()?.new_name.as_deref()
    }

    /// `None` if the field is dropped. A name that is not text matches no rule.
    pub(super) fn field(&self, name: Option<&str>) -> Option<&Self> {
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

    /// Drops entries that an allowed parent implies.
    fn simplify(&mut self) {
        for field in self.fields.values_mut() {
            field.kept = (field.kept || self.kept) && !field.is_replaced();
            field.simplify();
        }
        let kept = self.kept;
        self.fields.retain(|_, field| !(kept && field.lets_everything_through()));
    }

    /// Unambiguous, since it includes each name's length.
    pub(super) fn describe(&self, tell: &mut impl FnMut(&[u8])) {
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

/// The rules are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapingError {
    /// An invalid path or new name.
    #[error("the shaping rules name the field {field}: {problem}")]
    Field {
        /// The path or name.
        field: Excerpt,
        /// The cause.
        problem: FieldProblem,
    },
    /// Too many fields.
    #[error("the shaping rules name {count} fields; at most {} are accepted", ShapingRules::FIELDS_MAX)]
    TooMany {
        /// Their number.
        count: usize,
    },
    /// A rule inside a replaced field.
    #[error(
        "the shaping rules replace {name} by a pseudonym and name a field inside it; keep one of the two"
    )]
    InsideReplaced {
        /// The last name of its path.
        name: Excerpt,
    },
    /// Two pseudonyms for one field.
    #[error("the shaping rules replace {field} twice")]
    ReplacedTwice {
        /// Its path.
        field: Excerpt,
    },
    /// A pseudonym's name belongs to another field.
    #[error("the shaping rules let two fields go out as {name}; name the pseudonym otherwise")]
    NameTaken {
        /// The name.
        name: Excerpt,
    },
    /// Pseudonyms without a region secret.
    #[error("the shaping rules replace fields by pseudonyms, but the subscriber's region has no secret")]
    NoRegionSecret,
}

/// Why a path is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// An empty name before, between or after dots.
    #[error("a name in it is empty; expected names with dots between them, such as stats.views")]
    EmptyName,
    /// Too long.
    #[error("it is longer than {} bytes", ShapingRules::PATH_BYTES_MAX)]
    TooLong,
    /// Too many names.
    #[error("it has more than {} names", ShapingRules::PATH_NAMES_MAX)]
    TooDeep,
}
