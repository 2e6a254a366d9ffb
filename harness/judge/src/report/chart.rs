//! Inline SVG. Colours come from the page's variables, so one drawing serves light, dark and paper; each coloured
//! element also has a name.
//!
//! The plot is a nested SVG that stretches horizontally to any screen: a script zooms by narrowing its `viewBox`. Letters
//! and figures are outside of it, at percentages of its width, so they never stretch.

use maud::{Markup, html};

use crate::check::verdict::moment;

/// The width of the plot, in units of its own. Heights are pixels.
const FINE: u64 = 7_200;
/// For the names of values, left of the plot; the padding in `page.css`.
pub(super) const GUTTER: usize = 72;
const HEIGHT: u64 = 170;
const ROW: u64 = 24;
const FOOT: u64 = 20;
const TICKS: u64 = 12;
const HEAD: u64 = 22;
const ROOM: u64 = 18;
const GAP: u64 = 4;
/// On a narrow screen, in fine units.
const LETTER: u64 = 215;
const LETTER_TALL: u64 = 16;
/// The numbers of more bands would cover each other.
pub(super) const BANDS_MAX: usize = 14;
/// A bound this many times as high as the data would flatten it; then only its figure is shown.
const BOUND_FAR: u64 = 4;
/// Least width of a band or a span, in fine units.
const NARROW: u64 = 20;
/// Between a shape and its text, in fine units.
const BESIDE: u64 = 40;

#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    /// The ends of the axis, in nanoseconds or places.
    pub span: (u64, u64),
    /// Names of places; without any, the axis shows time.
    pub places: Vec<(u64, String)>,
    pub shapes: Vec<Shape>,
    pub bound: Option<(u64, String)>,
    pub violated: bool,
    pub bands: Vec<Band>,
    /// Whether the key explains the bands; the chart above may have done so.
    pub bands_told: bool,
    pub ticks: Vec<(u64, &'static str)>,
    pub ticks_key: Vec<(&'static str, String)>,
    pub doubling: bool,
    pub show: fn(u64) -> String,
    /// Greater units, such as minutes, whose multiples are round.
    pub units: &'static [u64],
}

#[derive(Clone, Debug)]
pub enum Shape {
    /// A line through moments and heights, in order; `holds` makes it a staircase.
    Line {
        class: &'static str,
        name: String,
        points: Vec<(u64, u64)>,
        holds: bool,
    },
    /// Adjacent bars of width `step`, stacked on the bars before.
    Bars {
        class: &'static str,
        name: String,
        step: u64,
        counts: Vec<u64>,
    },
    Span {
        class: &'static str,
        from: u64,
        until: u64,
        row: u64,
        what: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    pub class: &'static str,
    pub from: u64,
    pub until: u64,
    pub what: String,
}

struct Label {
    class: String,
    /// In fine units; none beside the plot.
    x: Option<u64>,
    y: u64,
    anchor: &'static str,
    at: Option<u64>,
    text: String,
}

impl Label {
    fn covers(&self, other: &Self) -> bool {
        let ends = |one: &Self, x: u64| {
            let wide = width(&one.text);
            let from = match one.anchor {
                "start" => x,
                "end" => x.saturating_sub(wide),
                _ => x.saturating_sub(wide / 2),
            };
            (from, from + wide)
        };
        let is_beside = match (self.x, other.x) {
            (Some(x), Some(at)) => {
                let ((from, until), (begin, end)) = (ends(self, x), ends(other, at));
                from >= end || begin >= until
            }
            (x, at) => x != at,
        };
        self.y.abs_diff(other.y) < LETTER_TALL && !is_beside
    }
}

impl Chart {
    pub fn over(title: impl Into<String>, span: (u64, u64), show: fn(u64) -> String) -> Self {
        Self {
            title: title.into(),
            span,
            places: Vec::new(),
            shapes: Vec::new(),
            bound: None,
            violated: false,
            bands: Vec::new(),
            bands_told: true,
            ticks: Vec::new(),
            ticks_key: Vec::new(),
            doubling: false,
            show,
            units: &[],
        }
    }

    fn rows(&self) -> u64 {
        let row = |shape: &Shape| if let Shape::Span { row, .. } = shape { row + 1 } else { 0 };
        self.shapes.iter().map(row).max().unwrap_or(0)
    }

    pub(super) fn tall(&self) -> usize {
        usize::try_from(self.below() + FOOT).unwrap_or(0)
    }

    fn below(&self) -> u64 {
        HEAD + self.height() + if self.ticks.is_empty() { 0 } else { TICKS }
    }

    fn height(&self) -> u64 {
        match self.rows() {
            0 => HEIGHT,
            rows => rows * ROW,
        }
    }

    pub fn figure(&self) -> Markup {
        html! {
            figure {
                figcaption { (self.title) @if let Some(far) = self.far() { " · " (far) } }
                (self.svg())
                (self.key())
            }
        }
    }

    pub fn svg(&self) -> Markup {
        let (height, heights) = (self.height(), self.heights());
        let (head, below) = (HEAD, self.below());
        let bound = self.near_bound();
        let zoomed = self.places.is_empty().then_some(self.span);
        html! {
            svg.chart width="100%" height=(below + FOOT) role="img" aria-label=(self.title)
                data-from=[zoomed.map(|span| span.0)] data-until=[zoomed.map(|span| span.1)] {
                svg.plot y=(head) width="100%" height=(below - head) preserveAspectRatio="none"
                    viewBox={ "0 0 " (FINE) " " (below - head) } {
                    @for band in self.bands.iter().take(BANDS_MAX) { (self.shade(band)) }
                    @for (y, _) in self.values(&heights) { line.grid x1="0" x2=(FINE) y1=(y) y2=(y) {} }
                    @if let Some((bound, _)) = bound { (self.above(*bound, &heights)) }
                    (self.drawn(&heights))
                    @if let Some((bound, _)) = bound {
                        @let y = self.level(*bound, &heights);
                        line.bound x1="0" x2=(FINE) y1=(y) y2=(y) {}
                    }
                    (self.ticked())
                    line.axis x1="0" x2=(FINE) y1=(height) y2=(height) {}
                }
                (self.lettered(&heights, below))
            }
        }
    }

    fn near_bound(&self) -> Option<&(u64, String)> {
        let top = self.heights().top;
        self.bound.as_ref().filter(|(bound, _)| *bound <= top)
    }

    fn level(&self, value: u64, heights: &Heights) -> u64 {
        HEIGHT - heights.of(value, HEIGHT - ROOM)
    }

    fn worst(&self) -> Option<(u64, u64)> {
        let (bound, _) = self.bound.as_ref().filter(|_| self.violated)?;
        let lines = self.shapes.iter().filter_map(|shape| match shape {
            Shape::Line { points, .. } => Some(points),
            Shape::Bars { .. } | Shape::Span { .. } => None,
        });
        let over = lines.flatten().copied().filter(|(_, value)| value > bound);
        over.max_by_key(|(at, value)| (*value, std::cmp::Reverse(*at)))
    }

    fn above(&self, bound: u64, heights: &Heights) -> Markup {
        let line = match self.shapes.first() {
            Some(Shape::Line { points, holds, .. }) if self.worst().is_some() => {
                self.line(points, *holds, heights)
            }
            _ => return html! {},
        };
        let end = |at: Option<&str>| at.and_then(|point| point.split(',').next()).unwrap_or("0").to_owned();
        let (first, last) = (end(line.split(' ').next()), end(line.split(' ').next_back()));
        let points = format!("{first},{HEIGHT} {line} {last},{HEIGHT}");
        html! {
            svg x="0" y="0" width=(FINE) height=(self.level(bound, heights)) { polygon.above points=(points) {} }
        }
    }

    /// At most five, each with its name and place.
    fn values(&self, heights: &Heights) -> Vec<(u64, String)> {
        if self.rows() > 0 {
            return Vec::new();
        }
        let unit = self.units.iter().rev().find(|unit| heights.top / 2 >= **unit).unwrap_or(&1);
        let round = match heights.doubling {
            true => decades(heights),
            false => multiples(heights.top / unit).into_iter().map(|value| value * unit).collect(),
        };
        let mut values: Vec<(u64, String)> =
            round.into_iter().map(|value| (self.level(value, heights), (self.show)(value))).collect();
        values.dedup_by(|one, before| one.1 == before.1);
        values
    }

    fn shade(&self, band: &Band) -> Markup {
        let (from, until) = (self.x(band.from), self.x(band.until));
        html! {
            rect.band.(band.class) x=(from.min(FINE - NARROW)) y="0" width=((until - from.min(until)).max(NARROW))
                height=(self.height()) { title { (band.what) } }
        }
    }

    fn drawn(&self, heights: &Heights) -> Markup {
        let height = self.height();
        let mut below: Vec<u64> = Vec::new();
        html! {
            @for (at, shape) in self.shapes.iter().enumerate() {
                @match shape {
                    Shape::Line { class, points, holds, .. } => {
                        polyline.line.(class).wide[self.is_wide(at)] points=(self.line(points, *holds, heights)) {}
                    },
                    Shape::Bars { class, step, counts, .. } => {
                        @let path = self.bars(*step, counts, &mut below, heights);
                        @if !path.is_empty() { path.(class) d=(path) {} }
                    },
                    Shape::Span { class, from, until, row, .. } => {
                        @let (x, end) = (self.x(*from), self.x(*until));
                        rect.(class) x=(x.min(FINE - NARROW)) y=(row * ROW + 3) height=(ROW - 6)
                            width=((end - x.min(end)).max(NARROW)) {}
                    },
                }
            }
            @if self.rows() > 0 { line.axis x1="0" x2=(FINE) y1=(height) y2=(height) {} }
        }
    }

    /// The first of several lines, so that another one does not hide it.
    fn is_wide(&self, at: usize) -> bool {
        let is_line = |shape: &Shape| matches!(shape, Shape::Line { class, .. } if *class != "level");
        at == 0 && self.shapes.first().is_some_and(is_line) && self.shapes.iter().skip(1).any(is_line)
    }

    fn line(&self, points: &[(u64, u64)], holds: bool, heights: &Heights) -> String {
        let (mut last, mut line) = (None, String::new());
        for (at, value) in thinned(points) {
            let (x, y) = (self.x(at), self.level(value, heights));
            if let Some(last) = last.filter(|last| holds && *last != y) {
                line.push_str(&format!("{x},{last} "));
            }
            line.push_str(&format!("{x},{y} "));
            last = Some(y);
        }
        // A single point would draw nothing.
        if let [(at, value)] = points {
            let (x, y) = (self.x(*at), self.level(*value, heights));
            line = format!("{x},{y} {},{y} ", x + NARROW);
        }
        line.truncate(line.trim_end().len());
        line
    }

    fn bars(&self, step: u64, counts: &[u64], below: &mut Vec<u64>, heights: &Heights) -> String {
        let mut path = String::new();
        below.resize(below.len().max(counts.len()), 0);
        for (at, (count, below)) in counts.iter().zip(below).enumerate().filter(|(_, (count, _))| **count > 0)
        {
            let from = self.span.0.saturating_add(step.saturating_mul(at as u64));
            let (x, end) = (self.x(from), self.x(from.saturating_add(step)));
            let (y, top) = (self.level(*below, heights), self.level(*below + count, heights));
            *below += count;
            let (tall, wide) = (y.saturating_sub(top).max(1), end.saturating_sub(x).max(1));
            path.push_str(&format!("M{x} {y}h{wide}v-{tall}h-{wide}z"));
        }
        path
    }

    fn ticked(&self) -> Markup {
        let height = self.height();
        let mut classes: Vec<&str> = self.ticks.iter().map(|(_, class)| *class).collect();
        classes.sort_unstable();
        classes.dedup();
        let path = |class: &str| -> String {
            let own = self.ticks.iter().filter(|(_, of)| *of == class);
            let x = |t: u64| self.x(t).clamp(NARROW / 2, FINE - NARROW / 2);
            own.map(|(t, _)| format!("M{} {}v{}", x(*t), height + 2, TICKS - 3)).collect()
        };
        html! { @for class in classes { path.tick.(class) d=(path(class)) {} } }
    }

    fn lettered(&self, heights: &Heights, below: u64) -> Markup {
        let percent = |x: u64| format!("{}.{:02}%", x / 72, x % 72 * 100 / 72);
        html! {
            @for Label { class, x, y, anchor, at, text } in self.labels(heights, below) {
                text class=[Some(class).filter(|class| !class.is_empty())] y=(y) text-anchor=(anchor)
                    x=(x.map_or(format!("-{GUTTER}"), percent)) data-at=[at] { (text) }
            }
        }
    }

    /// The most important first; a text that would cover one of them is left out.
    fn labels(&self, heights: &Heights, below: u64) -> Vec<Label> {
        let mut labels: Vec<Label> = Vec::new();
        let mut add = |class: &str, (x, y): (Option<u64>, u64), anchor, at, text: String| {
            let label = Label { class: class.to_owned(), x, y, anchor, at, text };
            let is_free = labels.iter().all(|one| !one.covers(&label));
            labels.extend(Some(label).filter(|_| is_free));
        };
        if let Some((at, value)) = self.worst() {
            let y = HEAD + self.level(value, heights) - GAP;
            let when = if self.places.is_empty() { format!(" at {}", moment(at)) } else { String::new() };
            let text = format!("{}{when}", (self.show)(value));
            // Bands of a violation end at its worst moment.
            let (x, anchor) = match self.x(at) + BESIDE {
                x if x + width(&text) <= FINE => (x, "start"),
                x => (x.saturating_sub(2 * BESIDE), "end"),
            };
            add("worst", (Some(x), y), anchor, Some(at), text);
        }
        for (number, band, x) in self.numbers() {
            let class = format!("letter {}", band.class);
            add(&class, (Some(x), HEAD - GAP), "start", Some(band.from), number);
        }
        for shape in &self.shapes {
            if let Shape::Span { from, until, row, what, .. } = shape {
                let (x, anchor, t) = beside((self.x(*from), *from), (self.x(*until), *until), width(what));
                add("", (Some(x), HEAD + row * ROW + 17), anchor, Some(t), what.clone());
            }
        }
        let marks = if self.places.is_empty() { moments(self.span) } else { self.places.clone() };
        for (t, name) in marks {
            let x = self.x(t);
            add("", (Some(x), below + FOOT - 5), anchor(x, &name), Some(t), name);
        }
        if let Some((bound, _)) = self.near_bound() {
            let y = HEAD + self.level(*bound, heights) + GAP;
            add("bound", (None, y), "start", None, (self.show)(*bound));
        }
        for (y, name) in self.values(heights) {
            add("value", (None, HEAD + y + GAP), "start", None, name);
        }
        labels
    }

    fn far(&self) -> Option<&str> {
        let top = self.heights().top;
        self.bound.as_ref().filter(|(bound, _)| *bound > top).map(|(_, name)| name.as_str())
    }

    /// The class, the form and the words of each entry of the key.
    pub(super) fn words(&self) -> Vec<(&'static str, &'static str, String)> {
        let named = self.named().map(|(class, form, name)| (class, form, name.clone()));
        let bands = self.numbered_bands();
        named
            .chain(bands.map(|(number, band)| (band.class, "fill", format!("{number} {}", band.what))))
            .collect()
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &'static str, &String)> {
        let shapes = self.shapes.iter().enumerate().filter_map(|(at, shape)| match shape {
            Shape::Line { class, name, .. } if self.is_wide(at) => Some((*class, "stroke wide", name)),
            Shape::Line { class, name, .. } => Some((*class, "stroke", name)),
            Shape::Bars { class, name, .. } => Some((*class, "fill", name)),
            Shape::Span { .. } => None,
        });
        let bound = self.near_bound().map(|(_, name)| ("bound", "stroke", name));
        let ticks = self.ticks_key.iter().map(|(class, name)| (*class, "tick", name));
        shapes.chain(bound).chain(ticks).filter(|(_, _, name)| !name.is_empty())
    }

    /// Each where its band begins, or beside another one, and none beyond the end.
    fn numbers(&self) -> Vec<(String, &Band, u64)> {
        let mut placed: Vec<(String, &Band, u64)> =
            self.numbered_bands().map(|(number, band)| (number, band, self.x(band.from))).collect();
        placed.sort_by_key(|(.., x)| *x);
        let mut free = 0;
        for (number, _, x) in &mut placed {
            *x = free.max(*x);
            free = *x + width(number);
        }
        let mut most = FINE;
        for (number, _, x) in placed.iter_mut().rev() {
            *x = most.saturating_sub(width(number)).min(*x);
            most = *x;
        }
        placed
    }

    /// By number, since a letter may be the name of a subscriber.
    fn numbered_bands(&self) -> impl Iterator<Item = (String, &Band)> {
        (1..).map(|number| format!("#{number}")).zip(self.bands.iter().take(BANDS_MAX))
    }

    fn key(&self) -> Markup {
        html! {
            @let told = if self.bands_told { self.bands.len() } else { 0 };
            @if self.named().next().is_some() || told > 0 {
                p.key {
                    @for (class, form, name) in self.named() { span.entry { i.(form).(class) {} (name) } " " }
                    @for (number, band) in self.numbered_bands().take(told) {
                        span.entry { b.letter.(band.class) { (number) } (band.what) } " "
                    }
                    @if told > BANDS_MAX { "and " (told - BANDS_MAX) " more" }
                }
            }
        }
    }

    fn heights(&self) -> Heights {
        let mut stacked: Vec<u64> = Vec::new();
        let (mut most, mut least) = (0, u64::MAX);
        for shape in &self.shapes {
            match shape {
                Shape::Line { points, .. } => {
                    most = points.iter().map(|(_, height)| *height).fold(most, u64::max);
                    let seen = points.iter().map(|(_, height)| *height).filter(|height| *height > 0);
                    least = seen.fold(least, u64::min);
                }
                Shape::Bars { counts, .. } => {
                    stacked.resize(stacked.len().max(counts.len()), 0);
                    stacked.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                }
                Shape::Span { .. } => {}
            }
        }
        let most = stacked.into_iter().fold(most, u64::max).max(1);
        let near = self.bound.as_ref().filter(|(bound, _)| *bound <= most.saturating_mul(BOUND_FAR));
        let top = near.map_or(most, |(bound, _)| most.max(bound + bound / 10));
        // Bars need a zero; lines need no room for values that never occurred.
        let bottom = if self.doubling && least < u64::MAX { decade_below(least) } else { 0 };
        Heights { bottom, top, doubling: self.doubling }
    }

    fn x(&self, at: u64) -> u64 {
        let (from, until) = self.span;
        scaled(at.clamp(from, until.max(from)) - from, until.saturating_sub(from), FINE)
    }
}

fn anchor(x: u64, text: &str) -> &'static str {
    let half = width(text) / 2;
    match x {
        x if x < half => "start",
        x if x > FINE.saturating_sub(half) => "end",
        _ => "middle",
    }
}

fn width(text: &str) -> u64 {
    LETTER * text.chars().count() as u64
}

/// Zero and a few round places up to the most, with their names.
pub fn places(most: u64, name: fn(u64) -> String) -> Vec<(u64, String)> {
    std::iter::once(0).chain(multiples(most)).map(|at| (at, name(at))).collect()
}

fn multiples(top: u64) -> Vec<u64> {
    let half = (top / 2).max(1);
    let power = 10_u64.pow(half.ilog10());
    let step = [5, 2, 1].map(|one| one * power).into_iter().find(|step| *step <= half).unwrap_or(half);
    (1..=top / step).map(|at| at * step).collect()
}

/// At most five.
fn decades(heights: &Heights) -> Vec<u64> {
    let inside = |value: &u64| (heights.bottom.max(1)..=heights.top).contains(value);
    let all: Vec<u64> = (0..20).map(|power| 10_u64.pow(power)).filter(inside).collect();
    let each = all.len().div_ceil(5).max(1);
    all.into_iter().step_by(each).collect()
}

/// After a span, before it, or inside of it; a text for which none has room ends with the plot.
fn beside((x, from): (u64, u64), (end, until): (u64, u64), wide: u64) -> (u64, &'static str, u64) {
    match () {
        () if end + BESIDE + wide <= FINE => (end + BESIDE, "start", until),
        () if x >= wide + BESIDE => (x - BESIDE, "end", from),
        () if x + BESIDE + wide <= FINE => (x + BESIDE, "start", from),
        () => (FINE, "end", until),
    }
}

/// More points than this are indistinguishable.
const POINTS_MAX: usize = 480;

struct Heights {
    /// The value at the axis: zero, or the beginning of a logarithmic scale.
    pub(super) bottom: u64,
    pub(super) top: u64,
    pub(super) doubling: bool,
}

impl Heights {
    pub(super) fn of(&self, value: u64, height: u64) -> u64 {
        if self.doubling {
            let above = |value| doublings(value).saturating_sub(doublings(self.bottom));
            scaled(above(value), above(self.top), height)
        } else {
            scaled(value.min(self.top), self.top, height)
        }
    }
}

/// The binary logarithm of value + 1, in 1024ths; linear between powers of two.
fn doublings(value: u64) -> u64 {
    let value = u128::from(value) + 1;
    let whole = value.ilog2();
    u64::from(whole) * 1_024 + u64::try_from(((value << 10) >> whole) - 1_024).unwrap_or(0)
}

fn decade_below(value: u64) -> u64 {
    10_u64.pow(value.saturating_sub(1).max(1).ilog10())
}

pub(super) fn scaled(part: u64, whole: u64, size: u64) -> u64 {
    u64::try_from(u128::from(part.min(whole)) * u128::from(size) / u128::from(whole.max(1))).unwrap_or(size)
}

/// About five.
pub(super) fn moments((from, until): (u64, u64)) -> Vec<(u64, String)> {
    let rough = (until.saturating_sub(from) / 5).max(1);
    let power = 10_u64.pow(rough.ilog10());
    let step = [1, 2, 5, 10].map(|one| one * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let first = from.div_ceil(step);
    let steps = (first..=first.saturating_add(12)).map_while(|at| at.checked_mul(step));
    steps.take_while(|t| *t <= until).map(|t| (t, if t == 0 { "0".to_owned() } else { moment(t) })).collect()
}

/// At most [`POINTS_MAX`] points: the highest and the lowest of neighbours, so that no peak is averaged away.
pub(super) fn thinned(points: &[(u64, u64)]) -> Vec<(u64, u64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let some = points.chunks(points.len().div_ceil(POINTS_MAX / 2));
    let ends = some.flat_map(|some| {
        let highest = some.iter().copied().max_by_key(|(_, height)| *height);
        let lowest = some.iter().copied().min_by_key(|(_, height)| *height);
        let mut ends: Vec<_> = highest.into_iter().chain(lowest).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    });
    ends.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_bound_is_told_and_does_not_flatten_what_was_seen() {
        let mut chart = Chart::over("waiting", (0, 10), |rows| format!("{rows} rows"));
        let points = vec![(0, 5), (10, 3)];
        chart.shapes = vec![Shape::Line { class: "waiting", name: String::new(), points, holds: true }];
        chart.bound = Some((20, "bound 20".to_owned()));
        assert!(chart.svg().into_string().contains("<line class=\"bound\""));
        chart.bound = Some((21, "bound 21".to_owned()));
        let figure = chart.figure().into_string();
        assert!(
            !figure.contains("<line class=\"bound\"") && figure.contains("waiting · bound 21"),
            "{figure}"
        );
    }

    #[test]
    fn the_axis_has_round_values_with_names_of_their_own() {
        let mut chart = Chart::over("waits", (0, 1), |seconds| format!("{} min", seconds / 60));
        chart.units = &[60, 3_600];
        let names = |chart: &Chart, top| {
            let heights = Heights { bottom: 0, top, doubling: false };
            chart.values(&heights).into_iter().map(|(_, name)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&chart, 350), ["2 min", "4 min"]);
        assert_eq!(names(&chart, 8_000), ["60 min", "120 min"]);
        for (top, expected) in [(1, &[1][..]), (8_300, &[2_000, 4_000, 6_000, 8_000]), (11, &[5, 10])] {
            assert_eq!(multiples(top), expected, "{top}");
        }
        let heights = Heights { bottom: 1_000, top: 2_000_000, doubling: true };
        assert_eq!(decades(&heights), [1_000, 10_000, 100_000, 1_000_000]);
        assert!(decades(&Heights { bottom: 0, top: u64::MAX, doubling: true }).len() <= 5);
    }

    #[test]
    fn only_a_violation_is_filled_and_its_worst_moment_marked() {
        let mut chart = Chart::over("level", (0, 100), |count| count.to_string());
        let points = vec![(0, 2), (50, 8), (60, 3)];
        chart.shapes = vec![Shape::Line { class: "level", name: String::new(), points, holds: false }];
        chart.bound = Some((5, "allowed: 5".to_owned()));
        let marks = |chart: &Chart| {
            let svg = chart.svg().into_string();
            (svg.contains("<polygon class=\"above\""), svg.contains(">8 at 50 ns</text>"))
        };
        assert_eq!(marks(&chart), (false, false));
        chart.violated = true;
        assert_eq!(marks(&chart), (true, true));
        chart.bound = Some((8, "allowed: 8".to_owned()));
        assert_eq!(marks(&chart), (false, false));
    }

    #[test]
    fn no_text_covers_another() {
        let texts = |chart: &Chart| {
            let svg = chart.svg().into_string();
            svg.split("</text>")
                .filter_map(|piece| Some(piece.rsplit_once('>')?.1.to_owned()))
                .collect::<Vec<_>>()
        };
        let mut chart = Chart::over("level", (0, 100), |count| count.to_string());
        let points = vec![(0, 2), (98, 50), (100, 2)];
        chart.shapes = vec![Shape::Line { class: "level", name: String::new(), points, holds: false }];
        (chart.bound, chart.violated) = (Some((49, "allowed: 49".to_owned())), true);
        let shown = texts(&chart);
        let has = |shown: &[String], text: &str| shown.iter().any(|one| one == text);
        assert!(has(&shown, "50 at 98 ns") && has(&shown, "49"), "{shown:?}");
        assert!(chart.key().into_string().contains("allowed: 49"), "the key names the bound");
        (chart.bound, chart.violated) = (Some((42, "allowed: 42".to_owned())), false);
        let shown = texts(&chart);
        assert!(has(&shown, "20") && has(&shown, "42") && !has(&shown, "40"), "{shown:?}");
        // Each label of a place needs 1,505 units, and a place has 360.
        chart.places = (0..20).map(|at| (at * 5, format!("{at:02}: 100"))).collect();
        let shown = texts(&chart);
        assert_eq!(shown.iter().filter(|text| text.contains(": 100")).count(), 4, "{shown:?}");
    }

    #[test]
    fn each_band_has_its_number_at_the_end_too() {
        let mut chart = Chart::over("end", (0, 100), |rows| rows.to_string());
        let band = |what: &str| Band { class: "fault", from: 100, until: 100, what: what.to_owned() };
        chart.bands = vec![band("first"), band("second"), band("third")];
        let numbers: Vec<(String, u64)> =
            chart.numbers().into_iter().map(|(number, _, x)| (number, x)).collect();
        let expected = [("#1", 5_910), ("#2", 6_340), ("#3", 6_770)];
        assert_eq!(numbers, expected.map(|(number, x)| (number.to_owned(), x)));
        assert_eq!(chart.svg().into_string().matches("<text class=\"letter fault\"").count(), 3);
    }

    #[test]
    fn words_of_others_stay_words() {
        let mut chart = Chart::over("<script>", (0, 10), |rows| rows.to_string());
        let what = "kill \"&<b>".to_owned();
        chart.bands = vec![Band { class: "fault", from: 3, until: 3, what }];
        let figure = chart.figure().into_string();
        assert!(!figure.contains("<script>") && !figure.contains("<b>\""), "{figure}");
        assert!(figure.contains("kill &quot;&amp;&lt;b&gt;"), "{figure}");
    }

    #[test]
    fn a_long_line_keeps_its_peaks_within_so_many_points() {
        let points: Vec<_> = (0..1_000_000).map(|t| (t, if t == 654_321 { 9 } else { 1 })).collect();
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS_MAX && thin.contains(&(654_321, 9)), "{}", thin.len());
        assert!(thin.is_sorted());
    }

    #[test]
    fn a_doubling_is_as_high_as_the_one_before() {
        assert_eq!([0, 1, 3, 7].map(doublings), [0, 1_024, 2_048, 3_072]);
        assert!(doublings(u64::MAX) == 64 * 1_024 && doublings(5) > doublings(4));
    }

    #[test]
    fn doublings_begin_at_the_power_of_ten_below_what_was_seen() {
        let rows = [(0, 1), (1, 1), (10, 1), (11, 10), (156_000_000, 100_000_000), (100_000_000, 10_000_000)];
        for (value, expected) in rows {
            assert_eq!(decade_below(value), expected, "{value}");
        }
        let heights = Heights { bottom: 100, top: 1_600, doubling: true };
        assert_eq!([0, 100, 1_600].map(|value| heights.of(value, 40)), [0, 0, 40]);
        assert!((10..=20).contains(&heights.of(300, 40)), "{}", heights.of(300, 40));
    }

    #[test]
    fn moments_are_round_and_inside() {
        let names = |span| moments(span).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names((0, 4_000_000_000)), ["0", "1 s", "2 s", "3 s", "4 s"]);
        assert_eq!(names((5_200_000_000, 5_900_000_000)), ["5.2 s", "5.4 s", "5.6 s", "5.8 s"]);
        assert_eq!(names((7, 7)), ["7 ns"]);
        assert!(names((0, u64::MAX)).len() > 3 && names((u64::MAX, u64::MAX)).len() <= 1);
    }
}
