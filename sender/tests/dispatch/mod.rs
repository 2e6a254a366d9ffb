//! The dispatcher in virtual time, on a real store. The tests act as its shell.

mod budget;
mod disabling;
mod failures;
mod nodes;
mod ownership;
mod retries;
mod world;
