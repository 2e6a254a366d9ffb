//! How the harness starts and calls a sender under test. A driver file describes each sender, ours too
//! (`scenarios/drivers/hookproof.toml`).
//!
//! - `file`: the driver file; `calls`, `declares`, `sign`: its parts; `reading`, `problems`: its parser and
//!   its errors; `template`: texts with holes.
//! - `api`: the calls; `call`: a request from templates; `error`: failures; `event`: an event as templates
//!   see it; `answers`: reads answers; `client`, `connector`: HTTP and connections; `redactor`: hides
//!   secrets; `offset`: the sender's clock; `moment`: times in answers.
//! - `address`: the address of each process of the sender.
//! - `process`: a child process, which never outlives the harness; `group`: its descendants; `processes`: all
//!   processes of the sender; `apart`: a sender that is no child process.

mod address;
mod answers;
mod apart;
mod api;
mod call;
mod calls;
mod client;
mod connector;
mod declares;
mod error;
mod event;
mod file;
mod group;
mod moment;
mod offset;
mod problems;
mod process;
pub(crate) mod processes;
mod reading;
mod redactor;
mod sign;
mod template;

pub use answers::{EmitResult, Listed, Sample};
pub use api::{Api, Exchange, Subscription};
pub use client::{Call, CallError, Client, Reply};
pub use connector::{CertificateError, Certificates};
pub use declares::{DeadLetters, Declares};
pub use error::{ApiError, FileError, StartError};
pub use event::Event;
pub use file::{DriverFile, Start, StopSignal};
pub use group::{Cost, cost_of};
pub use process::{Launch, Process, free_port, hold, log_path, status_text};
pub use processes::{Blow, ProcessConfig, Processes, Undone};
pub use template::{Difference, Lookup, Template, TemplateError, Variables};
