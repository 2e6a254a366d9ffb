//! The real binary on temporary databases, as a person or a script would use it.

mod commands;
mod delivery;
mod refusals;
mod world;
