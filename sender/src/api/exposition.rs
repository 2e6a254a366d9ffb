//! Figures in the text form that Prometheus reads (version 0.0.4): a family's help, its type, then its samples.

use std::fmt::Write;

/// What a figure may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Only grows, until the database is another.
    Counter,
    /// Rises and falls.
    Gauge,
    /// How many were no larger than each of some bounds, a sum and a count.
    Histogram,
}

/// The text, as far as it is written.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// What the answer's content type has to be.
    pub(super) const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins a family. Its samples follow at once.
    pub(super) fn family<'a>(&'a mut self, name: &'static str, kind: Type, help: &str) -> Family<'a> {
        debug_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        Family { text: self, name }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

/// A family whose samples are being written.
pub(super) struct Family<'a> {
    text: &'a mut Exposition,
    name: &'static str,
}

impl Family<'_> {
    /// One sample.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) {
        self.with_suffix("", labels, value);
    }

    /// One sample whose name goes on: `_bucket`, `_sum`, `_count`.
    pub(super) fn with_suffix(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Into<Value>) {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let (name, value) = (self.name, value.into().0);
        self.text.line(format_args!("{name}{suffix}{labels} {value}"));
    }
}

/// A figure as it is written.
pub(super) struct Value(String);

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self(value.to_string())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self(u64::from(value).to_string())
    }
}

impl Value {
    /// A number of millionths, exactly.
    pub(super) fn millionths(count: u64) -> Self {
        Self(format!("{}.{:06}", count / 1_000_000, count % 1_000_000))
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_as_prometheus_reads_them() {
        let mut text = Exposition::default();
        let mut family = text.family("a_total", Type::Counter, "Things.");
        family.sample(&[("name", "a \"b\"\\\n"), ("x", "y")], 7_u64);
        family.sample(&[], true);
        let mut family = text.family("b_seconds", Type::Histogram, "Whiles.");
        family.with_suffix("_sum", &[], Value::millionths(1_000_001));
        assert_eq!(
            text.finish(),
            "# HELP a_total Things.\n# TYPE a_total counter\na_total{name=\"a \\\"b\\\"\\\\\\n\",x=\"y\"} 7\na_total 1\n\
             # HELP b_seconds Whiles.\n# TYPE b_seconds histogram\nb_seconds_sum 1.000001\n"
        );
    }
}
