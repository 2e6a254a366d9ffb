//! Everything that people and machines read of a verdict: of a run, of a receiver, of a load, of a plan.
//!
//! - `model`: what any report holds. - `page`, `chart`, `scale`: that as one page of HTML. - `table`: what terminals show.
//! - `junit`, `markdown` (with `lanes`, a picture in letters): for CI.
//! - `run`: a run's report, which is also its JSON; `drawn`: what its charts hold, `drawing`: the charts; `told`: its page; `picture`: its first failure.
//! - `compare`: a report against an older one; `difference`: what is told of it; `figures`: its figures, beyond their noise.

mod chart;
pub mod compare;
mod difference;
mod drawing;
mod drawn;
mod figures;
pub mod junit;
mod lanes;
mod markdown;
mod model;
mod page;
mod picture;
mod run;
mod scale;
mod table;
mod told;

pub(crate) use chart::{Band, Chart, Shape};
pub use drawn::{Break, Drawn, LaneDrawn, Series};
pub use junit::{Regressions, Unjudged, junit};
pub(crate) use lanes::bars;
pub use markdown::markdown;
pub(crate) use model::{Cell, Document, Headline, Part, Table, explained};
pub(crate) use page::{page, unjudged};
pub use picture::picture;
pub use run::{Course, FaultReport, Lag, Report, SubscriberReport, schema};
pub use table::{Colours, terminal, visible};
pub(crate) use table::{columns, in_one_line, paint};
pub use told::{html, html_unjudged};
pub(crate) use told::{html_awaited, html_live};
