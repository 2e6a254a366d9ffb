//! The schedule of a run, and the generator that keeps it.
