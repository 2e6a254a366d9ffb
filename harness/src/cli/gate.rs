//! The selection and strictness of checks: options of `run` and `check`.

use clap::Args;

use super::out::quoted;
use hookproof_judge::catalogue::{self, SelectError, Selection};
use hookproof_judge::check::{self, Judgement, Strictness};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Trace;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Gate {
    /// Checks that decide, no others: ids or their beginnings, such as rate.envelope, retry, or breaker.*
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Checks to leave out, likewise
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    skip: Vec<String>,
    /// Treat `should` as `must`
    #[arg(long)]
    strict: bool,
}

impl Gate {
    /// The checks that decide.
    ///
    /// # Errors When no check matches.
    pub(super) fn selection(&self) -> Result<Selection, SelectError> {
        Selection::new(catalogue::sender(), &self.only, &self.skip)
    }

    pub(super) fn judge(&self, selection: &Selection, scenario: &Scenario, trace: &Trace) -> Judgement {
        let strictness = if self.strict { Strictness::Strict } else { Strictness::Usual };
        check::judge(scenario, trace, strictness).of(selection, trace)
    }

    /// The options in command line form, each after a blank.
    pub(super) fn written(&self) -> String {
        let list = |name: &str, ids: &[String]| {
            if ids.is_empty() { String::new() } else { format!(" --{name} {}", quoted(&ids.join(","))) }
        };
        let strict = if self.strict { " --strict" } else { "" };
        format!("{}{}{strict}", list("only", &self.only), list("skip", &self.skip))
    }
}
