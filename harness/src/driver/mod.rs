//! How the harness starts and talks to a sender under test: ours, or any other that a driver file describes. There is one
//! way for all of them; ours comes as a file too (`scenarios/drivers/hookproof.toml`).
//!
//! - `file`: what a driver file says; `template`: its texts with holes; `words`: what they may name of a subscriber.
//! - `api`: the calls; `event`: what is emitted; `answers`: what came back; `client`: the HTTP under them; `hidden`: what
//!   must not be told of either.
//! - `process`: a process of the sender, which is never left behind; `crew`: all of them.

mod answers;
mod api;
mod client;
mod crew;
mod event;
mod file;
mod hidden;
mod process;
mod template;
pub(crate) mod words;

pub use answers::{Listed, Sample, Taken};
pub use api::{Api, ApiError};
pub use client::{Call, CallError, Client, Reply};
pub use crew::{Crew, CrewError, Quarters};
pub use event::Event;
pub use file::{DriverFile, FileError, Start, StopSignal};
pub use process::{Launch, Process, free_port, hold, log_path, status_text};
pub use template::{Template, TemplateError, Variables};
