//! How the harness starts and calls a sender under test. A driver file describes each sender, ours too
//! (`scenarios/drivers/hookproof.toml`).
//!
//! - `file`: the driver file; `calls`, `declares`, `sign`, `template`: its parts.
//! - `api`: the calls; `answers`: reads answers; `client`: HTTP; `moment`: times in answers, and the sender's clock.
//! - `process`: a child process, which never outlives the harness; `processes`: all of them; `apart`: a sender that
//!   is no child process.

mod answers;
mod apart;
mod api;
mod calls;
mod client;
mod declares;
mod error;
mod file;
mod moment;
mod process;
pub(crate) mod processes;
mod sign;
mod template;

pub use answers::{EmitResult, Listed, Sample};
pub use api::{Api, Exchange, Subscription};
pub use client::{Call, CallError, CertificateError, Certificates, Client, Reply};
pub use declares::{DeadLetters, Declares};
pub use error::{ApiError, FileError, StartError};
pub use file::{DriverFile, Start, StopSignal};
pub use process::{
    Cost, Launch, Process, Processors, cost_of, free_port, hold, log_path, processors, status_text,
};
pub use processes::{Blow, ProcessConfig, Processes, Undone};
pub use template::{Difference, Event, Lookup, Template, TemplateError, Variables};
