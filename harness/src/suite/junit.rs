//! The report as JUnit XML: one test case for each case, so that CI shows them by name.

use super::report::{Report, Row};
use super::run::Stopped;
use crate::catalogue::Verdict;

impl Report {
    /// The file.
    #[must_use]
    pub fn junit(&self) -> String {
        let counts = self.counts();
        let skipped = counts.not_applicable + counts.known + counts.warn;
        let seconds: f64 = self.rows.iter().map(|row| row.seconds).sum();
        let cases: String = self.rows.iter().map(case).collect();
        let stale: String = self.stale.iter().map(|id| stale(id)).collect();
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"hookproof receiver {}\" \
             tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">\n{cases}{stale}\
             </testsuite>\n</testsuites>\n",
            escaped(&self.target),
            self.rows.len() + self.stale.len(),
            counts.fail + self.stale.len(),
            counts.inconclusive + counts.harness_error,
        )
    }
}

fn case(row: &Row) -> String {
    let (text, came) = (escaped(&row.expected), escaped(&row.came));
    let inside = match row.verdict {
        _ if row.is_excused() => {
            format!(
                "<skipped message=\"failed as expected: {}\"/>",
                escaped(row.known.as_deref().unwrap_or(""))
            )
        }
        Verdict::Pass => String::new(),
        Verdict::Fail => format!("<failure message=\"{came}\">expected: {text}</failure>"),
        Verdict::Warn => format!("<skipped message=\"warn: {came}\"/>"),
        Verdict::NotApplicable => format!("<skipped message=\"not applicable: {came}\"/>"),
        Verdict::Inconclusive | Verdict::HarnessError => {
            format!("<error message=\"{}: {came}\">expected: {text}</error>", row.verdict)
        }
    };
    format!(
        "<testcase classname=\"receiver.{}\" name=\"{}\" time=\"{:.3}\">{inside}</testcase>\n",
        row.section, row.id, row.seconds
    )
}

fn stale(id: &str) -> String {
    format!(
        "<testcase classname=\"receiver.known\" name=\"{id}\"><failure message=\"expected to fail, and did \
         not\"/></testcase>\n"
    )
}

impl Stopped {
    /// The file of a run that judged nothing: without one, CI would show the last run's, or none.
    #[must_use]
    pub fn junit(&self) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"hookproof receiver\" tests=\"1\" \
             failures=\"0\" errors=\"1\">\n<testcase classname=\"receiver\" name=\"reached\"><error message=\"{}\"/>\
             </testcase>\n</testsuite>\n</testsuites>\n",
            escaped(&self.to_string()),
        )
    }
}

/// Text inside an attribute or an element. What XML can't hold is left out.
pub(super) fn escaped(text: &str) -> String {
    let allowed = text.chars().filter(|c| match c {
        '\n' | '\t' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        other => !other.is_control(),
    });
    let mut out = String::with_capacity(text.len());
    for c in allowed {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_left_out() {
        assert_eq!(escaped("a\u{fffe}b\u{ffff}c\u{1b}[31md\n<\"&>é"), "abc[31md\n&lt;&quot;&amp;&gt;é");
    }
}
