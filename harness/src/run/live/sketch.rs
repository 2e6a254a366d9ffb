//! Judges and draws a run as if it ended now.

use std::path::{Path, PathBuf};

use super::{Judging, Live};
use hookproof_judge::check::Status;
use hookproof_judge::report::{html_live, html_unjudged};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Recorder;
use hookproof_judge::trace::{Growing, TraceError};

pub(super) struct Sketch {
    scenario: Scenario,
    trace: PathBuf,
    recorder: Recorder,
    judging: Judging,
    kept: PathBuf,
    growing: Option<Growing>,
}

pub(super) enum Sketched {
    Nothing,
    Page { page: String, failed: Vec<String>, is_last: bool },
}

impl Sketch {
    pub(super) fn new(live: &Live, scenario: &Scenario, trace: &Path, recorder: &Recorder) -> Self {
        Self {
            scenario: scenario.clone(),
            trace: trace.to_owned(),
            recorder: recorder.clone(),
            judging: live.judging.clone(),
            kept: live.kept.clone(),
            growing: None,
        }
    }

    pub(super) fn draw(&mut self) -> Sketched {
        self.recorder.flush();
        self.drawn().unwrap_or_else(|error| {
            let why = format!("{error}; the run goes on, and is judged when it is over");
            let page = html_unjudged(&hookproof_judge::report::Unjudged {
                subject: self.scenario.name.clone(),
                why,
            });
            Sketched::Page { page, failed: Vec::new(), is_last: true }
        })
    }

    fn drawn(&mut self) -> Result<Sketched, TraceError> {
        if self.growing.is_none() {
            self.growing = Growing::open(&self.trace)?;
        }
        let Some(growing) = &mut self.growing else { return Ok(Sketched::Nothing) };
        let report = (self.judging)(&self.scenario, growing.catch_up()?);
        let verdicts = report.judgement.verdicts.iter();
        let failed = verdicts.filter(|one| one.status == Status::Fail).map(|one| one.id.clone()).collect();
        let is_last = growing.is_full();
        Ok(Sketched::Page { page: html_live(&report, &self.kept, is_last), failed, is_last })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::run::PageServer;
    use hookproof_judge::check::{Strictness, judge};
    use hookproof_judge::report::Report;
    use hookproof_judge::trace::Trace;

    /// The ids of failed checks after each of these numbers of lines.
    fn failed(name: &str, lines: impl Iterator<Item = usize>) -> Vec<(usize, Vec<String>)> {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/traces").join(name);
        let text = std::fs::read_to_string(&shipped).unwrap();
        let header = Trace::open(&shipped).unwrap().header;
        let scenario = Scenario::from_text(&header.scenario_toml, name).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        let live = Live {
            server: PageServer::open("127.0.0.1:0".parse().unwrap()).unwrap(),
            judging: Arc::new(|scenario, trace| {
                Report::new(scenario, trace, judge(scenario, trace, Strictness::Usual), String::new())
            }),
            kept: PathBuf::from("report.html"),
        };
        let recorder = Recorder::new(1).0;
        let mut sketch = Sketch::new(&live, &scenario, &path, &recorder);
        let seen = lines.map(|count| {
            let some: Vec<&str> = text.lines().take(count).collect();
            std::fs::write(&path, some.join("\n") + "\n").unwrap();
            match sketch.draw() {
                Sketched::Nothing => (count, Vec::new()),
                Sketched::Page { page, failed, .. } => {
                    let told = if count < text.lines().count() { "goes on; in " } else { "25 passed" };
                    assert!(page.contains(told) || !failed.is_empty(), "{count}: {page}");
                    (count, failed)
                }
            }
        });
        seen.collect()
    }

    /// No prefix of a passing run fails a check.
    #[test]
    fn no_beginning_of_a_run_that_passes_has_failed() {
        let count = failed("good.jsonl", std::iter::once(usize::MAX)).len();
        assert_eq!(count, 1);
        for (lines, ids) in failed("good.jsonl", 1..200) {
            assert_eq!(ids, Vec::<String>::new(), "after {lines} lines");
        }
    }

    #[test]
    fn what_breaks_a_limit_has_failed_from_then_on() {
        let failed = failed("over-rate.jsonl", 1..200);
        let first = failed.iter().position(|(_, ids)| ids.contains(&"rate.envelope".to_owned())).unwrap();
        assert!(failed[..first].iter().all(|(_, ids)| ids.is_empty()));
        assert!(failed[first..].iter().all(|(_, ids)| ids.contains(&"rate.envelope".to_owned())));
    }
}
