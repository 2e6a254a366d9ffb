//! The real binary on temporary databases, as a person or a script would use it.

mod commands;
mod delivery;
mod live_change;
mod refusals;
mod world;
