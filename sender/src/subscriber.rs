//! A subscriber's settings, as written and as validated.
//!
//! ```text
//!  JSON, TOML ──► SettingsText::read ──► patched, shown, stored ──► validate ──► Agreement ──► engine, fan-out, store
//!                 sparse, checked by       PATCH, GET, row                       every figure in its range
//!                 name and form
//! ```
//!
//! Read [`text`] before you write any setting.
//!
//! The store keeps settings as written, so missing ones follow the default of the program that reads them.

pub mod agreement;
pub(crate) mod description;
pub mod error;
mod form;
mod patch;
pub(crate) mod reference;
mod section;
pub mod text;

pub use agreement::{Agreement, RegionSecrets, Timeouts};
pub use error::SettingsError;
pub use text::SettingsText;

use crate::excerpt::{Excerpt, is_hidden};

/// In bytes.
pub(crate) const NAME_BYTES_MAX: usize = 100;

/// People must be able to read and type the name, and it must fit in a path.
pub(crate) fn checked_name(name: &str) -> Result<&str, String> {
    let problem = if name.trim() != name || name.is_empty() {
        "is empty, or begins or ends with a space"
    } else if name.len() > NAME_BYTES_MAX {
        "is too long"
    } else if name.contains(is_hidden) {
        "has a control character, a line break or a direction mark in it"
    } else if name.contains('/') || name.starts_with("sub_") {
        "has a '/' in it, or begins with sub_ as an id does"
    } else {
        return Ok(name);
    };
    Err(format!(
        "the name {} {problem}; expected 1 to {NAME_BYTES_MAX} bytes of visible text",
        Excerpt::of(name)
    ))
}

#[cfg(test)]
mod tests;
