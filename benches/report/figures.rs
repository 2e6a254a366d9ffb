#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) bench: &'static str,
    value: Place,
    pub(crate) unit: &'static str,
    /// The ratio to its ceiling, and the text behind the number.
    ratio: Option<(Place, &'static str)>,
    /// True if a machine may be unable to measure it.
    optional: bool,
}

/// Each mark is on a line at or below that of the mark before; the number is the nth behind the last mark, from 0.
#[derive(Clone, Copy, Debug)]
struct Place {
    marks: &'static [&'static str],
    number: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) value: String,
    pub(crate) ratio: String,
}

const fn at(marks: &'static [&'static str], number: usize) -> Place {
    Place { marks, number }
}

const fn plain(name: &'static str, bench: &'static str, value: Place, unit: &'static str) -> Figure {
    Figure { name, bench, value, unit, ratio: None, optional: false }
}

const fn with_ratio(figure: Figure, place: Place, of: &'static str) -> Figure {
    Figure { ratio: Some((place, of)), ..figure }
}

const fn optional(figure: Figure) -> Figure {
    Figure { optional: true, ..figure }
}

const SENT: &str = "sender: emitted, signed, delivered, recorded";
const FILE: &str = "durability power-loss";
const PROCESS: &str = "durability process";
const SERVER: &str = "on PostgreSQL,";
const PACED: &str = "emit to first attempt at 1000/s";
const CLIENT: &str = "of a bare client";
/// The unit is the word behind the number: Criterion chooses it.
const PRINTED: &str = "as printed";

/// Every figure of the report, in its order.
pub(crate) static FIGURES: [Figure; 20] = [
    with_ratio(
        plain("deliveries, durable against a power cut", "end_to_end", at(&[FILE, SENT], 0), "/s"),
        at(&[FILE, "  ratio"], 0),
        CLIENT,
    ),
    with_ratio(
        plain(
            "deliveries, durable against the end of the process",
            "end_to_end",
            at(&[PROCESS, SENT], 0),
            "/s",
        ),
        at(&[PROCESS, "  ratio"], 0),
        CLIENT,
    ),
    with_ratio(
        optional(plain("deliveries on PostgreSQL", "end_to_end", at(&[SERVER, SENT], 0), "/s")),
        at(&[SERVER, "  ratio"], 0),
        CLIENT,
    ),
    plain("durable emits alone", "end_to_end", at(&[FILE, "durable emits alone"], 0), "/s"),
    plain("emit to first attempt at 1,000/s, p50", "end_to_end", at(&[FILE, PACED, "p50"], 0), "ms"),
    plain("emit to first attempt at 1,000/s, p99", "end_to_end", at(&[FILE, PACED, "p99"], 0), "ms"),
    plain("rows written per delivery", "end_to_end", at(&[FILE, "rows written per delivery"], 0), ""),
    plain("deliveries per commit", "end_to_end", at(&[FILE, "deliveries per commit"], 0), ""),
    with_ratio(
        plain("attempts over HTTP, transport alone", "transport", at(&["\nhookproof"], 0), "/s"),
        at(&["\nhookproof"], 1),
        "% of bare hyper",
    ),
    plain("processor time of such an attempt", "transport", at(&["\nhookproof"], 4), "µs"),
    plain(
        "engine, 1,000 lanes, never limited",
        "engine",
        at(&["1,000 lanes, never limited", "thrpt:"], 1),
        PRINTED,
    ),
    plain(
        "engine, 100,000 lanes at their limit",
        "engine",
        at(&["100,000 lanes at their limit", "thrpt:"], 1),
        PRINTED,
    ),
    plain("memory of an idle lane", "engine_memory", at(&["settings:"], 0), "bytes"),
    plain(
        "receiver that verifies ÷ bare hyper, processor time",
        "receiver_rate",
        at(&["verifying ÷ bare:"], 0),
        "%",
    ),
    plain(
        "receiver with its inbox ÷ bare hyper, by the clock",
        "receiver_rate",
        at(&["inbox ÷ bare:"], 1),
        "%",
    ),
    plain(
        "endpoints that record ÷ bare hyper, by the clock",
        "endpoint_rate",
        at(&["recording ÷ bare:"], 0),
        "%",
    ),
    plain(
        "endpoints that also verify ÷ bare hyper, by the clock",
        "endpoint_rate",
        at(&["verifying ÷ bare:"], 0),
        "%",
    ),
    plain(
        "all checks on 1,000,000 arrivals",
        "checks",
        at(&["all checks on 1,000,000 arrivals", "time:"], 1),
        PRINTED,
    ),
    plain("memory of an arrival while all checks judge it", "checks", at(&["memory:"], 0), "bytes"),
    plain("memory of an arrival in the trace alone", "checks", at(&["memory:"], 1), "bytes"),
];

impl Figure {
    pub(crate) fn read(&self, output: &str) -> Result<Row, String> {
        let missing = || format!("{} does not print `{}`", self.bench, self.name);
        let Some(value) = self.value.number_in(output) else {
            let row = Row { value: "not measured".to_owned(), ratio: String::new() };
            return if self.optional { Ok(row) } else { Err(missing()) };
        };
        let ratio = match self.ratio {
            None => String::new(),
            Some((place, of)) => format!("{} {of}", place.number_in(output).ok_or_else(missing)?.0),
        };
        let (number, printed) = value;
        let unit = match if self.unit == PRINTED { printed } else { self.unit } {
            "Melem/s" => "million/s",
            unit => unit,
        };
        let number = rounded(number);
        let space = if unit.is_empty() || unit.starts_with('/') { "" } else { " " };
        Ok(Row { value: format!("{number}{space}{unit}"), ratio })
    }
}

impl Place {
    fn number_in(self, output: &str) -> Option<(&str, &str)> {
        let rest = self.marks.iter().try_fold(output, |rest, mark| Some(rest.split_once(mark)?.1))?;
        let line = rest.lines().next()?;
        let mut words = line.split([' ', '[', ']', ',']).filter(|word| !word.is_empty()).peekable();
        let mut found = None;
        for _ in 0..=self.number {
            let number = words.find_map(number)?;
            found = Some((number, words.peek().copied().unwrap_or_default()));
        }
        found
    }
}

/// With at most three digits that matter, and commas between thousands.
fn rounded(number: &str) -> String {
    let value: f64 = number.parse().unwrap_or(f64::NAN);
    if value < 999.5 {
        let whole = number.split('.').next().map_or(0, str::len);
        let decimals = number.len().saturating_sub(whole + 1).min(3_usize.saturating_sub(whole));
        return format!("{value:.decimals$}");
    }
    let rounded = format!("{value:.2e}").parse().unwrap_or(value);
    let mut text = format!("{rounded:.0}");
    let mut at = text.len();
    while at > 3 {
        at -= 3;
        text.insert(at, ',');
    }
    text
}

/// A word without its unit, if it is a number.
fn number(word: &str) -> Option<&str> {
    let bare = word.strip_suffix("/s").unwrap_or(word).trim_end_matches('%');
    bare.parse::<f64>().is_ok_and(f64::is_finite).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_TO_END: &str = "
durability power-loss, 300000 events of 300 bytes
  ceiling: bare client                                 204500/s
  sender: emitted, signed, delivered, recorded          73000/s
  ratio                                                  0.36   (wanted: 0.5)
  rows written per delivery                              4.01
  emit to first attempt at 1000/s                  p50 0.41 ms, p95 0.67 ms, p99 1.20 ms (10000 samples)
durability process, 300000 events of 300 bytes
  sender: emitted, signed, delivered, recorded          73700/s
  ratio                                                  0.37   (wanted: 0.5)
";

    #[track_caller]
    fn check(name: &str, output: &str, value: &str, ratio: &str) {
        let figure = FIGURES.iter().find(|figure| figure.name == name).expect("a figure of this name");
        assert_eq!(
            figure.read(output),
            Ok(Row { value: value.to_owned(), ratio: ratio.to_owned() }),
            "{name}"
        );
    }

    #[test]
    fn each_figure_is_read_in_its_own_part() {
        check("deliveries, durable against a power cut", END_TO_END, "73,000/s", "0.36 of a bare client");
        check(
            "deliveries, durable against the end of the process",
            END_TO_END,
            "73,700/s",
            "0.37 of a bare client",
        );
        check("emit to first attempt at 1,000/s, p99", END_TO_END, "1.20 ms", "");
        check("rows written per delivery", END_TO_END, "4.01", "");
        let memory = "memory: 477 bytes an arrival, 318 of them the trace\n";
        check("memory of an arrival in the trace alone", memory, "318 bytes", "");
        let time = "all checks on 1,000,000 arrivals\n                        time:   [1.1 s 1.2 s 1.3 s]\n";
        check("all checks on 1,000,000 arrivals", time, "1.2 s", "");
        let engine = "engine attempts/1,000 lanes, never limited\n  thrpt:  [12.1 Melem/s 12.6 Melem/s 13.0 Melem/s]\n";
        check("engine, 1,000 lanes, never limited", engine, "12.6 million/s", "");
        let transport = "client  requests/s  of bare\nbare hyper  33500  100%  1  2  4.3\nhookproof   40000  119%  1  2  3.6\n";
        check("attempts over HTTP, transport alone", transport, "40,000/s", "119 % of bare hyper");
        check("processor time of such an attempt", transport, "3.6 µs", "");
        let rate = "durable inbox ÷ bare: 64 % by processor time, 35 % by the clock (medians of 9)\n";
        check("receiver with its inbox ÷ bare hyper, by the clock", rate, "35 %", "");
    }

    #[test]
    fn a_number_has_at_most_three_digits_that_matter() {
        for (number, expected) in [
            ("364.52", "365"),
            ("2.4928", "2.49"),
            ("0.34", "0.34"),
            ("51893", "51,900"),
            ("1234567", "1,230,000"),
            ("999.6", "1,000"),
        ] {
            assert_eq!(rounded(number), expected);
        }
    }

    #[test]
    fn a_figure_that_is_not_printed_is_an_error_unless_it_is_optional() {
        let read = |name: &str| {
            FIGURES.iter().find(|figure| figure.name == name).map(|figure| figure.read(END_TO_END))
        };
        assert!(matches!(read("durable emits alone"), Some(Err(_))));
        let row = Row { value: "not measured".to_owned(), ratio: String::new() };
        assert_eq!(read("deliveries on PostgreSQL"), Some(Ok(row)));
    }
}
