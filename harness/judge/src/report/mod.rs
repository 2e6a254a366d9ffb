//! The reports of runs, receivers, loads and plans.
//!
//! - `model`: a document of any kind; `page`, `chart`, `scale`: its HTML page; `table`: its terminal output;
//!   `junit`, `markdown` (with `lanes`, a text picture): its forms for CI.
//! - `run`: a run's report, which is also its JSON; `drawn`: its chart data; `drawing`: its charts; `told`:
//!   its page; `picture`: its first failure.
//! - `compare`: a report against an older one; `difference`: the result; `figures`: figures with their noise.

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

pub use chart::{Band, Chart, Shape};
pub use drawn::{Break, Drawn, LaneDrawn, Series};
pub use junit::{Regressions, Unjudged, junit};
pub use lanes::bars;
pub use markdown::markdown;
pub use model::{Cell, Document, Headline, Part, Table, explained};
pub use page::{page, unjudged};
pub use picture::picture;
pub use run::{Course, FaultReport, Lag, Report, SubscriberReport, schema};
pub use table::{Colours, terminal, visible};
pub use table::{columns, in_one_line, paint};
pub use told::{html, html_unjudged};
pub use told::{html_awaited, html_live};
