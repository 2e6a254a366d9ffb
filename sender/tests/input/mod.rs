//! Each refusal must name fault and place, memory must stay bounded, and another lane must keep its contract's rate.

mod bystander;
mod endpoints;
mod lines;
mod outbox;
mod sockets;
mod subscribers;
