//! One run, from the scenario to the trace.
