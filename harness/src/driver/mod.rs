//! How the harness starts and talks to a sender under test.

mod client;
mod process;
mod template;

pub use client::{Call, CallError, Client, Reply};
pub use process::{Launch, Process, free_port, hold, log_path, status_text};
pub use template::{Template, TemplateError, Variables};
