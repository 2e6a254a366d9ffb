//! Mock receivers.
