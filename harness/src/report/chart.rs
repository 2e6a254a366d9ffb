//! Charts as inline SVG: bars by second, a line for the bound, and marks where a witness is. Colours come from the page's
//! variables, so that one drawing serves light, dark and paper.

use std::fmt::Write;

use super::escape::escape;
use super::model::FaultReport;
use crate::check::Witness;
use crate::scenario::SECOND;

const WIDTH: u64 = 720;
const HEIGHT: u64 = 120;
/// More bars than this can't be told from one another.
const BARS_MAX: usize = 360;
/// Faults that are marked: a crash loop's hundredth kill says what the first dozen did.
const FAULTS_MAX: usize = 24;
/// Words of faults lie in so many rows, so that neighbours don't cover one another.
const FAULT_ROWS: u64 = 3;
/// The narrowest mark of a witness that can be seen.
const WITNESS_MIN: u64 = 3;

/// A kind of bar: its class in the page's style, and its counts.
pub(super) struct Bars<'a> {
    pub(super) class: &'static str,
    pub(super) counts: &'a [u64],
}

/// What is marked in a chart.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks<'a> {
    /// What was done to the sender.
    pub(super) faults: &'a [FaultReport],
    /// What shows a failed check.
    pub(super) witnesses: &'a [&'a Witness],
}

/// Bars stacked on one another, second by second.
pub(super) fn stacked(title: &str, bars: &[Bars<'_>], bound: Option<u64>, marks: Marks<'_>) -> String {
    let seconds = bars.iter().map(|one| one.counts.len()).max().unwrap_or(0).max(1);
    let fold = seconds.div_ceil(BARS_MAX);
    let columns = seconds.div_ceil(fold);
    let counts = |one: &Bars<'_>| -> Vec<u64> {
        // Of several seconds in one bar the fullest is shown: an excess must not be averaged away.
        one.counts.chunks(fold).map(|some| some.iter().copied().max().unwrap_or(0)).collect()
    };
    let stacks: Vec<(&str, Vec<u64>)> = bars.iter().map(|one| (one.class, counts(one))).collect();
    let sum = |at: usize| stacks.iter().filter_map(|(_, counts)| counts.get(at)).sum::<u64>();
    let most = (0..columns).map(sum).max().unwrap_or(0).max(1);
    let top = bound.filter(|bound| *bound <= most * 4).map_or(most, |bound| bound.max(most));
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
        HEIGHT + 18,
        escape(title)
    );
    for at in 0..columns {
        let x = at as u64 * WIDTH / columns as u64;
        let width =
            ((at as u64 + 1) * WIDTH / columns as u64 - x).saturating_sub(u64::from(columns < 200)).max(1);
        let mut y = HEIGHT;
        for (class, counts) in &stacks {
            let height = counts.get(at).map_or(0, |count| (count * HEIGHT).div_ceil(top)).min(y);
            y -= height;
            if height > 0 {
                let _ = write!(
                    svg,
                    "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
                );
            }
        }
    }
    if let Some(bound) = bound.filter(|bound| *bound <= top) {
        let y = HEIGHT - bound * HEIGHT / top;
        let _ = write!(svg, "<line class=\"bound\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>");
    }
    mark(&mut svg, seconds as u64 * SECOND, marks);
    let _ = write!(
        svg,
        "<text x=\"0\" y=\"{0}\">0 s</text><text x=\"{WIDTH}\" y=\"{0}\" text-anchor=\"end\">{seconds} s</text>\
         <text x=\"4\" y=\"14\">{top}</text>\
         <line class=\"axis\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{HEIGHT}\" y2=\"{HEIGHT}\"/></svg>",
        HEIGHT + 14
    );
    svg
}

/// Marks faults with a line and their word, witnesses with a band over what they span.
fn mark(svg: &mut String, length: u64, marks: Marks<'_>) {
    let place = |t: u64| {
        u64::try_from(u128::from(t.min(length)) * u128::from(WIDTH) / u128::from(length)).unwrap_or(0)
    };
    for (row, fault) in marks.faults.iter().take(FAULTS_MAX).enumerate() {
        let x = place(fault.at);
        // Words near the right edge end at their line, so that none is cut off.
        let (anchor, at) = if x > WIDTH * 4 / 5 { ("end", x.saturating_sub(3)) } else { ("start", x + 3) };
        let y = 14 + (row as u64 % FAULT_ROWS) * 12;
        let _ = write!(
            svg,
            "<line class=\"fault\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"{HEIGHT}\"/>\
             <text class=\"fault\" x=\"{at}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>",
            escape(&fault.what)
        );
    }
    for witness in marks.witnesses {
        let (from, until) = (place(witness.from), place(witness.until));
        let width = (until - from.min(until)).max(WITNESS_MIN);
        let _ = write!(
            svg,
            "<rect class=\"witness\" x=\"{}\" y=\"0\" width=\"{width}\" height=\"{HEIGHT}\"><title>{}</title></rect>",
            from.min(WIDTH - WITNESS_MIN),
            escape(&witness.what)
        );
    }
}
