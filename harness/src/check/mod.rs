//! Pure functions from a trace and a scenario to a verdict with its witness.
