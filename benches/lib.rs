//! What Hookproof costs, measured.
