//! A raw HTTP client for attacks on receivers: it sends requests that no client library would.

pub mod answer;
pub mod clock;
pub(crate) mod command;
pub mod exchange;
pub mod request;
