//! What a subscriber is owed, as people write it and as the sender goes by it.
//!
//! ```text
//!  JSON, TOML ──► SettingsText::read ──► patched, shown, stored ──► validate ──► Agreement ──► engine, fan-out, store
//!                 sparse, checked by       PATCH, GET, row                       every figure in its range
//!                 name and form
//! ```
//!
//! - [`text`]: the settings with their defaults: the page to read before writing any.
//! - [`agreement`]: the same, valid by construction.
//! - `description`: what that page says of a setting; `reference`: all of it for people and machines: `docs/settings.md`, `hookproof-sender settings`, JSON Schema.
//! - [`error`]: why settings are refused: a sentence, a code and the field.
//!
//! What is stored is what was written, not what it amounts to: a setting that nobody gave follows the default of the
//! program that reads it. Nothing here is secret; the secrets of regions come in as an argument and go out as nothing
//! but keys.

pub mod agreement;
pub(crate) mod description;
pub mod error;
mod form;
mod nearest;
mod patch;
pub(crate) mod reference;
mod section;
pub mod text;

pub use agreement::{Agreement, RegionSecrets, Timeouts};
pub use error::SettingsError;
pub use text::SettingsText;

#[cfg(test)]
mod tests;
