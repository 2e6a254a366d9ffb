//! What the HTTP API and the command line both do for operators, once: reading the figures, showing them, and drawing
//! conclusions from them.
//!
//! - [`shown`]: the sender's figures as machines read them, in one form everywhere.

pub(crate) mod shown;
