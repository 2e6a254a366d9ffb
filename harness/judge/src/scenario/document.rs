//! A TOML document as a tree of values with their lines, and `--set`.

use toml::de::{DeTable, DeValue};

use super::Problem;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The line, from 1; none for a value of `--set`.
    pub(super) line: Option<usize>,
    pub(super) value: Value,
}

/// Numbers keep their notation, so that reading rounds nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Decimal(String),
    Flag(bool),
    Moment(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: Option<usize>,
    pub(super) node: Node,
}

impl Value {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a bare number",
            Self::Decimal(_) => "a bare number with decimals",
            Self::Flag(_) => "true or false",
            Self::Moment(_) => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

pub(super) fn parse(text: &str, file: &str) -> Result<Node, Problem> {
    let lines = Lines::of(text);
    match DeTable::parse(text) {
        Ok(table) => Ok(Node { line: Some(1), value: lines.table(table.get_ref()) }),
        Err(error) => Err(Problem {
            file: file.to_owned(),
            line: error.span().map(|span| lines.at(span.start)),
            key: String::new(),
            what: format!("invalid TOML: {}", error.message().lines().collect::<Vec<_>>().join("; ")),
        }),
    }
}

/// `drain`, `traffic.0.rate`, `subscriber.ingest.limit.rate`: a list is entered by index or by the `name` of its
/// element.
pub(super) fn set(root: &mut Node, assignment: &str) -> Result<(), String> {
    /// Deeper than any form; readers recurse into the tree.
    const PARTS_MAX: usize = 32;
    let (path, value) = assignment
        .split_once('=')
        .ok_or_else(|| format!("--set {assignment}: expected key=value, such as drain=10s"))?;
    let parts = path.split('.').count();
    if parts > PARTS_MAX {
        return Err(format!("--set: a key of {parts} parts; expected at most {PARTS_MAX}"));
    }
    let (path, value) = (path.trim(), literal(value.trim()));
    let mut node = root;
    for part in path.split('.') {
        node = step(node, part).map_err(|what| format!("--set {assignment}: {what}"))?;
    }
    *node = Node { line: None, value };
    Ok(())
}

fn step<'a>(node: &'a mut Node, part: &str) -> Result<&'a mut Node, String> {
    match &mut node.value {
        Value::Table(entries) => {
            let at = entries.iter().position(|entry| entry.key == part).unwrap_or_else(|| {
                let node = Node { line: None, value: Value::Table(Vec::new()) };
                entries.push(Entry { key: part.to_owned(), line: None, node });
                entries.len() - 1
            });
            Ok(&mut entries[at].node)
        }
        Value::List(items) => {
            let named = |item: &Node| matches!(item.get("name"), Some(Value::Text(name)) if name == part);
            let at = part.parse().ok().or_else(|| items.iter().position(named));
            let count = items.len();
            let found = at.and_then(|at: usize| items.get_mut(at));
            found.ok_or_else(|| format!("{part:?} is neither a name nor an index among the {count} items"))
        }
        other => Err(format!("{part:?} cannot be set inside {}", other.kind())),
    }
}

/// A value in TOML notation; anything else is text, so that `drain=10s` needs no quotes.
fn literal(text: &str) -> Value {
    let document = format!("v = {text}");
    match parse(&document, "") {
        Ok(Node { value: Value::Table(entries), .. }) if entries.len() == 1 => {
            strip(entries[0].node.value.clone())
        }
        _ => Value::Text(text.to_owned()),
    }
}

fn strip(value: Value) -> Value {
    let bare = |node: Node| Node { line: None, value: strip(node.value) };
    match value {
        Value::List(items) => Value::List(items.into_iter().map(bare).collect()),
        Value::Table(entries) => {
            let bare = |entry: Entry| Entry { line: None, node: bare(entry.node), key: entry.key };
            Value::Table(entries.into_iter().map(bare).collect())
        }
        other => other,
    }
}

impl Node {
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let Value::Table(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node.value)
    }

    pub(super) fn to_toml(&self) -> String {
        toml::to_string(&plain(&self.value)).unwrap_or_default()
    }
}

fn plain(value: &Value) -> toml::Value {
    match value {
        Value::Text(text) => toml::Value::String(text.clone()),
        Value::Integer(number) => toml::Value::Integer(*number),
        Value::Decimal(text) => {
            text.parse().map_or_else(|_| toml::Value::String(text.clone()), toml::Value::Float)
        }
        Value::Flag(flag) => toml::Value::Boolean(*flag),
        Value::Moment(text) => {
            text.parse().map_or_else(|_| toml::Value::String(text.clone()), toml::Value::Datetime)
        }
        Value::List(items) => toml::Value::Array(items.iter().map(|item| plain(&item.value)).collect()),
        Value::Table(entries) => {
            let entries = entries.iter().map(|entry| (entry.key.clone(), plain(&entry.node.value)));
            toml::Value::Table(entries.collect())
        }
    }
}

struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    fn at(&self, byte: usize) -> usize {
        self.0.partition_point(|end| *end < byte) + 1
    }

    fn table(&self, table: &DeTable<'_>) -> Value {
        let mut entries: Vec<(usize, Entry)> = table
            .iter()
            .map(|(key, value)| {
                let (start, line) = (key.span().start, self.at(key.span().start));
                let node =
                    Node { line: Some(self.at(value.span().start)), value: self.value(value.get_ref()) };
                (start, Entry { key: key.get_ref().to_string(), line: Some(line), node })
            })
            .collect();
        entries.sort_by_key(|(start, _)| *start);
        Value::Table(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    fn value(&self, value: &DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Value::Decimal(number.to_string()), Value::Integer),
            DeValue::Float(number) => Value::Decimal(number.as_str().to_owned()),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(moment) => Value::Moment(moment.to_string()),
            DeValue::Array(items) => Value::List(
                items
                    .iter()
                    .map(|item| Node {
                        line: Some(self.at(item.span().start)),
                        value: self.value(item.get_ref()),
                    })
                    .collect(),
            ),
            DeValue::Table(table) => self.table(table),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Node {
        parse(text, "a.toml").expect("TOML")
    }

    #[test]
    fn every_key_knows_its_line() {
        let Value::Table(entries) = read("a = 1\n\n[b]\nc = \"x\"\n").value else { panic!("a table") };
        assert_eq!(entries.iter().map(|entry| entry.line).collect::<Vec<_>>(), [Some(1), Some(3)]);
        let Value::Table(inner) = &entries[1].node.value else { panic!("a table") };
        assert_eq!(inner[0].line, Some(4));
    }

    #[test]
    fn text_that_is_not_toml_is_refused_with_its_line() {
        let problem = parse("a = 1\nb = \n", "a.toml").expect_err("no value");
        assert_eq!(problem.line, Some(2), "{problem}");
    }

    #[test]
    fn a_value_is_set_by_its_path_in_tables_and_lists() {
        let mut root = read("[[s]]\nname = \"x\"\nlimit = { rate = \"1/s\" }\n[[s]]\nname = \"y\"\n");
        set(&mut root, "s.x.limit.rate=9/s").expect("by name");
        set(&mut root, "s.1.count=3").expect("by number");
        set(&mut root, "drain=10s").expect("a new key");
        let expected = read(
            "drain = \"10s\"\n[[s]]\nname = \"x\"\nlimit = { rate = \"9/s\" }\n[[s]]\nname = \"y\"\ncount = 3\n",
        );
        assert_eq!(root.to_toml(), expected.to_toml());
    }

    #[test]
    fn a_path_that_leads_nowhere_is_refused() {
        let mut root = read("a = 1\n[[s]]\nname = \"x\"\n");
        for wrong in ["a.b=1", "s.z.count=1", "s.7.count=1", "drain"] {
            assert!(set(&mut root, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_document_survives_being_written_again() {
        let text = "a = 1.5\nb = [\"x\", true]\n[c]\nd = { e = 3 }\n";
        let again = read(text).to_toml();
        assert_eq!(read(&again).to_toml(), again);
    }
}
