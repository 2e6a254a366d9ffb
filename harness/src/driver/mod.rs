//! How the harness starts and talks to a sender under test: ours, or any other that a driver file describes. There is one
//! way for all of them; ours comes as a file too (`scenarios/drivers/hookproof.toml`).
//!
//! - `file`: what a driver file says; `calls`: of calls; `declares`, `sign`: of the sender; `reading`, `problems`: how it
//!   is read, and its mistakes; `template`: its texts with holes; `words`: what they may name of a subscriber.
//! - `api`: the calls; `call`: how one is made of templates; `error`: why one failed, or a process was not started;
//!   `event`: what is emitted; `answers`: what came back; `client`, `connector`: the HTTP and the connections under them;
//!   `redactor`: what must not be told of either; `offset`: the sender's clock, by its answers; `moment`: the times that
//!   they tell.
//! - `address`: where each process of the sender is spoken to.
//! - `process`: a process of the sender, which is never left behind; `group`: it and what it has started; `processes`: all
//!   processes of the sender.

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
pub(crate) mod words;

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
