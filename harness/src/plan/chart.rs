//! Lines over time as inline SVG, with the line that they can't pass. Colours come from the page's variables.

use std::fmt::Write;

use crate::report::escape;

const WIDTH: u64 = 720;
const HEIGHT: u64 = 120;
/// More points than this can't be told from one another.
const POINTS_MAX: usize = 720;

/// What a chart shows.
pub(super) struct Chart<'a> {
    pub(super) title: String,
    /// Moments and what was so high then, in order.
    pub(super) points: &'a [(u64, u64)],
    /// Whether a point holds until the next one, or stands alone.
    pub(super) holds: bool,
    pub(super) bound: Option<u64>,
    /// How long the time shown is.
    pub(super) lasts: u64,
    /// A figure as it is told.
    pub(super) show: fn(u64) -> String,
}

/// One chart.
pub(super) fn chart(chart: &Chart<'_>) -> String {
    let most = chart.points.iter().map(|(_, height)| *height).max().unwrap_or(0).max(1);
    // A bound far above what happened would flatten it: then only its figure is told.
    let near = chart.bound.filter(|bound| *bound <= most.saturating_mul(4));
    let top = near.map_or(most, |bound| bound.max(most));
    let scale = |figure: u64, whole: u64, size: u64| {
        u64::try_from(u128::from(figure.min(whole)) * u128::from(size) / u128::from(whole.max(1)))
            .unwrap_or(size)
    };
    let x = |at: u64| scale(at, chart.lasts, WIDTH);
    let y = |height: u64| HEIGHT - scale(height, top, HEIGHT);
    let mut line = String::new();
    let mut last = HEIGHT;
    for (at, height) in thinned(chart.points) {
        if chart.holds {
            let _ = write!(line, "{},{last} ", x(at));
        }
        last = y(height);
        let _ = write!(line, "{},{last} ", x(at));
    }
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\"><polyline class=\"line\" points=\"{}\"/>",
        HEIGHT + 18,
        escape(&chart.title),
        line.trim_end()
    );
    if let Some(bound) = near {
        let y = y(bound);
        let _ = write!(svg, "<line class=\"bound\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>");
    }
    let bound = chart.bound.map_or(String::new(), |bound| format!(" · bound {}", (chart.show)(bound)));
    let _ = write!(
        svg,
        "<text x=\"4\" y=\"12\">{}</text><text x=\"0\" y=\"{1}\">0</text>\
         <text x=\"{WIDTH}\" y=\"{1}\" text-anchor=\"end\">{2}</text></svg>",
        escape(&format!("{} at most{bound}", (chart.show)(most))),
        HEIGHT + 14,
        super::table::show_short(chart.lasts)
    );
    svg
}

/// The highest of neighbouring points: a peak must not be averaged away.
fn thinned(points: &[(u64, u64)]) -> impl Iterator<Item = (u64, u64)> {
    let fold = points.len().div_ceil(POINTS_MAX).max(1);
    points.chunks(fold).filter_map(|some| some.iter().copied().max_by_key(|(_, height)| *height))
}
