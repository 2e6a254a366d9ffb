//! The list of exceptions, which may only shrink.

use crate::Violation;

pub(crate) struct Exception {
    pub(crate) path: &'static str,
    pub(crate) item: &'static str,
    /// The size, without a margin.
    pub(crate) figure: usize,
    pub(crate) reason: &'static str,
}

pub(crate) fn weigh(violations: &[Violation], exceptions: &[Exception]) -> Vec<String> {
    let unexcused = violations.iter().filter_map(|violation| {
        match exceptions.iter().find(|exception| exception.covers(violation)) {
            None => Some(violation.to_string()),
            Some(exception) => exception.objection(violation),
        }
    });
    let idle = exceptions.iter().filter(|exception| !violations.iter().any(|found| exception.covers(found)));
    let unneeded = idle.map(|exception| {
        format!(
            "{}: {}: keeps the limit now; delete its line from EXCEPTIONS",
            exception.path, exception.item
        )
    });
    unexcused.chain(unneeded).collect()
}

impl Exception {
    fn covers(&self, violation: &Violation) -> bool {
        violation.figure.is_some() && self.path == violation.path && self.item == violation.item
    }

    fn objection(&self, violation: &Violation) -> Option<String> {
        let (listed, found) = (self.figure, violation.figure?);
        if self.reason.trim().is_empty() {
            Some(format!("{violation} (EXCEPTIONS lists it without a reason; give one)"))
        } else if found > listed {
            Some(format!(
                "{violation} (EXCEPTIONS lists it with {listed}: it has grown; take the growth back)"
            ))
        } else if found < listed {
            Some(format!(
                "{violation} (EXCEPTIONS lists it with {listed}: it has shrunk; lower the figure to {found})"
            ))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: Exception = Exception { path: "a.rs", item: "fn f", figure: 80, reason: "a table in code" };

    fn found(path: &str, item: &str, figure: Option<usize>) -> Violation {
        let (problem, remedy) = ("is too long".to_owned(), "split it".to_owned());
        Violation { path: path.to_owned(), line: 7, item: item.to_owned(), figure, problem, remedy }
    }

    /// `expected` is a word of the only complaint; `None` expects none.
    #[track_caller]
    fn check(violation: Option<Violation>, exceptions: &[Exception], expected: Option<&str>) {
        let violations: Vec<Violation> = violation.into_iter().collect();
        match (weigh(&violations, exceptions).as_slice(), expected) {
            ([], None) => {}
            ([complaint], Some(word)) if complaint.contains(word) => {}
            (complaints, _) => panic!("expected {expected:?}, got {complaints:?}"),
        }
    }

    #[test]
    fn an_exception_excuses_its_item_at_its_figure() {
        check(Some(found("a.rs", "fn f", Some(80))), &[LISTED], None);
    }

    #[test]
    fn an_exception_may_neither_grow_nor_keep_room_nor_outlive_its_need() {
        check(Some(found("a.rs", "fn f", Some(81))), &[LISTED], Some("it has grown"));
        check(Some(found("a.rs", "fn f", Some(79))), &[LISTED], Some("lower the figure to 79"));
        check(None, &[LISTED], Some("delete its line"));
    }

    #[test]
    fn an_exception_without_a_reason_is_none() {
        let blank = Exception { reason: " ", ..LISTED };
        check(Some(found("a.rs", "fn f", Some(80))), &[blank], Some("without a reason"));
    }

    #[test]
    fn an_unlisted_exception_is_reported_in_full() {
        check(Some(found("a.rs", "fn f", Some(80))), &[], Some("a.rs:7: fn f: is too long; split it"));
    }

    #[test]
    fn only_sizes_have_exceptions() {
        let listed = Exception { item: "std::time", ..LISTED };
        let complaints = weigh(&[found("a.rs", "std::time", None)], &[listed]);
        assert_eq!(
            complaints.len(),
            2,
            "the violation stands, and its exception is not needed: {complaints:?}"
        );
    }
}
