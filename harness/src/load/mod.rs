//! Open-loop load on a receiver.
