//! The verdict, in every form: a `Report` holds what was judged and what the charts need; each form is a function of it.
//!
//! - `model`: the report itself, which is also its JSON.
//! - `terminal`, `markdown` (with `lanes`, a picture in letters), `junit`: for people and for CI.
//! - `html`, `chart`: one page that needs no network and no script.
//! - `compare`: a report against an older one; `difference`: what is told of it; `figures`: its figures, beyond their noise.

mod chart;
pub mod compare;
mod difference;
mod escape;
mod figures;
mod html;
pub mod junit;
mod lanes;
mod markdown;
mod model;
mod terminal;

pub(crate) use escape::escape;
pub(crate) use html::STYLE;
pub use html::html;
pub use junit::{Regressions, Unjudged, junit, junit_with};
pub use markdown::{markdown, markdown_with};
pub use model::{Course, FaultReport, Lag, Report, Series, SubscriberReport, schema};
pub use terminal::{Colours, terminal, visible};
