//! The report as one page that needs nothing beside it: the sum first, then what failed with every exchange, then all.

use super::record::Recorded;
use super::report::{Report, Row};
use crate::catalogue::{self, Verdict};
use crate::report::escape;

impl Report {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let failed: Vec<&Row> = self.rows.iter().filter(|row| is_failure(row)).collect();
        let failures = if failed.is_empty() {
            String::new()
        } else {
            let articles: String = failed.into_iter().map(|row| self.article(row)).collect();
            format!("<h2>What failed, and how to mend it</h2>\n{articles}")
        };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<title>{headline}: {target}</title>\n\
             <style>\n{css}</style>\n<h1><span class=\"{class}\">{headline}</span> {target}</h1>\n\
             <p class=\"meta\">hookproof receiver {version} · {profile}{strict}{interrupted}</p>\n{sums}{stale}{failures}\
             <h2>All cases</h2>\n{table}\n</html>\n",
            headline = self.headline().1,
            class = self.headline().0,
            target = escape(&self.target),
            css = include_str!("page.css"),
            version = escape(&self.version),
            profile = escape(&self.profile),
            strict = if self.strict { " · strict" } else { "" },
            interrupted = if self.interrupted { " · interrupted, not all cases were sent" } else { "" },
            sums = self.sums(),
            stale = self.stale_lines(),
            table = self.all(),
        )
    }

    fn headline(&self) -> (&'static str, &'static str) {
        match self.exit_code() {
            0 => ("pass", "Pass"),
            1 => ("fail", "Fail"),
            70 => ("harness-error", "Harness error"),
            _ => ("inconclusive", "Inconclusive"),
        }
    }

    fn sums(&self) -> String {
        let counts = self.counts();
        let named = [
            (counts.pass, "pass", "pass"),
            (counts.fail, "fail", "fail"),
            (counts.warn, "warn", "warn"),
            (counts.known, "not-applicable", "failed as expected"),
            (counts.inconclusive, "inconclusive", "inconclusive"),
            (counts.not_applicable, "not-applicable", "not applicable"),
            (counts.harness_error, "harness-error", "harness error"),
        ];
        let items = named.iter().filter(|(count, ..)| *count > 0);
        let items: String = items
            .map(|(count, class, name)| format!("<li><b class=\"{class}\">{count}</b>{name}</li>\n"))
            .collect();
        format!("<ul class=\"sums\">\n{items}</ul>\n")
    }

    fn stale_lines(&self) -> String {
        let line = |id: &String| format!("<p class=\"fail\">{id} was expected to fail, and did not.</p>\n");
        self.stale.iter().map(line).collect()
    }

    fn article(&self, row: &Row) -> String {
        let entry = catalogue::find(&row.id);
        let text = |part: fn(&catalogue::Entry) -> &str| escape(entry.map(part).unwrap_or_default());
        let examples = entry.and_then(catalogue::example).into_iter().flatten();
        let examples: String = examples
            .map(|(name, lines)| {
                format!(
                    "<details><summary>{name}</summary><pre>{}</pre></details>\n",
                    escape(lines.trim_end())
                )
            })
            .collect();
        let exchanges: String = row.exchanges.iter().map(exchange).collect();
        format!(
            "<article class=\"{class}\" id=\"{id}\">\n<h3><span class=\"verdict {class}\">{verdict}</span> {id}</h3>\n\
             <dl><dt>expected</dt><dd>{expected}</dd><dt>came</dt><dd>{came}</dd><dt>why it matters</dt><dd>{why}</dd>\
             <dt>remedy</dt><dd>{remedy}</dd><dt>source</dt><dd>{source}</dd>\
             <dt>again</dt><dd><code>hookproof receiver {target} --profile {profile} --secret-env NAME --only {id}</code></dd>\
             </dl>\n{examples}{exchanges}</article>\n",
            class = class(row.verdict),
            id = row.id,
            verdict = row.verdict,
            expected = escape(&row.expected),
            came = escape(&row.came),
            why = text(|entry| &entry.why),
            remedy = text(|entry| &entry.remedy),
            source = text(|entry| &entry.source),
            target = escape(&self.target),
            profile = self.profile,
        )
    }

    fn all(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for row in &self.rows {
            if row.section != section {
                let end = if section.is_empty() { "" } else { "</table>\n" };
                section = &row.section;
                text.push_str(&format!("{end}<h2>{section}</h2>\n<table>\n"));
            }
            let id =
                if is_failure(row) { format!("<a href=\"#{0}\">{0}</a>", row.id) } else { row.id.clone() };
            let known = row.known.as_ref().filter(|_| row.is_excused());
            let known = known.map(|why| format!(" (expected: {})", escape(why))).unwrap_or_default();
            text.push_str(&format!(
                "<tr><td class=\"verdict {}\">{}</td><td>{id}</td><td>{}</td><td>{}{known}</td></tr>\n",
                class(row.verdict),
                row.verdict,
                escape(&row.expected),
                escape(&row.came)
            ));
        }
        if !section.is_empty() {
            text.push_str("</table>\n");
        }
        text
    }
}

fn is_failure(row: &Row) -> bool {
    matches!(row.verdict, Verdict::Fail | Verdict::Warn | Verdict::HarnessError)
}

const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Warn => "warn",
        Verdict::Inconclusive => "inconclusive",
        Verdict::NotApplicable => "not-applicable",
        Verdict::HarnessError => "harness-error",
    }
}

fn exchange(one: &Recorded) -> String {
    let curl = one.curl.as_ref().map_or_else(String::new, |line| {
        format!("<p class=\"soft\">Once more, while its timestamp is fresh:</p><pre>{}</pre>", escape(line))
    });
    format!(
        "<details{open}><summary>{mark} {label}: wanted {wanted}, came {came} after {millis:.1} ms</summary>\n\
         <div class=\"pair\"><pre>{request}</pre><pre>{answer}</pre></div>{curl}</details>\n",
        open = if one.met { "" } else { " open" },
        mark = if one.met { "✓" } else { "✗" },
        label = escape(&one.label),
        wanted = one.wanted,
        came = escape(&one.came),
        millis = one.seconds * 1000.0,
        request = escape(&one.request),
        answer = if one.answer.is_empty() { "no answer".to_owned() } else { escape(&one.answer) },
    )
}
