//! Requests go to the router, except where a socket makes a difference.

mod alerts;
mod dead;
mod deliveries;
mod events;
mod forget;
mod jobs;
mod machines;
mod mutated;
mod nodes;
mod plan;
mod refusals;
mod retry;
mod shed;
mod socket;
mod subscribers;
mod tokens;
mod world;
