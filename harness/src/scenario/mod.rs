//! The scenario file.
