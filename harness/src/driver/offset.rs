//! Estimates the offset of the sender's clock from the `Date` fields of its answers.
//!
//! The sender wrote a `Date` of second `d` while its clock stood in `[d, d + 1 s)`, and between the beginning
//! of the call and its answer. So each answer bounds the offset on both sides, and the intersection of all
//! bounds holds it. If the clock was set meanwhile, the intersection is empty and there is no estimate.

use std::sync::{Mutex, PoisonError};

use hookproof_judge::check::exact::Asked;
use hookproof_judge::scenario::SECOND;
use hookproof_judge::trace::Offset;

#[derive(Debug, Default)]
pub(super) struct Offsets(Mutex<Option<Bounds>>);

#[derive(Clone, Copy, Debug)]
struct Bounds {
    least: i128,
    most: i128,
}

impl Offsets {
    /// Records the `Date` of an answer to a call that began and ended then, in Unix nanoseconds.
    pub(super) fn note(&self, date: &str, began: u64, ended: u64) {
        let Asked::Date(second) = Asked::read(date) else { return };
        let date = i128::from(second) * i128::from(SECOND);
        let seen =
            Bounds { least: date - i128::from(ended), most: date + i128::from(SECOND) - i128::from(began) };
        let mut bounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *bounds = Some(bounds.map_or(seen, |known| Bounds {
            least: known.least.max(seen.least),
            most: known.most.min(seen.most),
        }));
    }

    /// The middle of the bounds; none without a `Date`, or if no offset fits all of them.
    pub(super) fn estimate(&self, t: u64) -> Option<Offset> {
        let bounds = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let width = bounds.most.checked_sub(bounds.least).filter(|width| *width >= 0)?;
        let middle = bounds.least + width / 2;
        Some(Offset { t, ns: i64::try_from(middle).ok()?, error: u64::try_from(width - width / 2).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NEXT: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const UNIX_NS: u64 = 784_111_777 * SECOND;

    #[test]
    fn every_date_narrows_the_offset() {
        let offsets = Offsets::default();
        assert_eq!(offsets.estimate(9), None);
        // Five seconds behind: the sender shows a second that is already over here.
        offsets.note(DATE, UNIX_NS + 5 * SECOND, UNIX_NS + 5 * SECOND + 100);
        let one = offsets.estimate(9).unwrap();
        assert!(one.ns < 0 && one.error > SECOND / 2 - 1_000, "{one:?}");
        offsets.note(NEXT, UNIX_NS + 6 * SECOND, UNIX_NS + 6 * SECOND + 100);
        offsets.note(DATE, UNIX_NS + 6 * SECOND - 200, UNIX_NS + 6 * SECOND - 100);
        let close = offsets.estimate(9).unwrap();
        assert!(close.ns.abs_diff(-5_000_000_000) <= close.error && close.error < 1_000, "{close:?}");
    }

    #[test]
    fn a_clock_that_was_set_has_no_one_offset() {
        let offsets = Offsets::default();
        offsets.note(DATE, UNIX_NS, UNIX_NS + 100);
        offsets.note(DATE, UNIX_NS + 60 * SECOND, UNIX_NS + 60 * SECOND + 100);
        assert_eq!(offsets.estimate(9), None);
        offsets.note("tomorrow", 0, 1);
        assert_eq!(offsets.estimate(9), None);
    }
}
