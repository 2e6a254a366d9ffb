//! Reads a driver file, and reports all of its errors.

use std::path::Path;

use super::error::FileError;
use super::file::DriverFile;
use super::problems;

/// Our own sender's driver file, read like every other.
const HOOKPROOF: &str = include_str!("../../../scenarios/drivers/hookproof.toml");

impl DriverFile {
    /// Our own sender's.
    pub fn hookproof() -> Result<Self, FileError> {
        Self::parse(HOOKPROOF, "hookproof")
    }

    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| FileError::Read { path: path.to_owned(), error })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a file's text.
    pub fn parse(text: &str, name: &str) -> Result<Self, FileError> {
        let file: Self = toml::from_str(text)
            .map_err(|error| FileError::Wrong(vec![problems::of_toml(name, text, &error)]))?;
        let found = problems::find(&file, name, text);
        if !found.is_empty() {
            return Err(FileError::Wrong(found));
        }
        Ok(Self { environment: environment(text), ..file })
    }
}

/// The environment variables in the holes of a text.
fn environment(text: &str) -> Vec<String> {
    let holes = text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    let names = holes.filter_map(|(hole, _)| hole.split('|').next()?.trim().strip_prefix("env."));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
