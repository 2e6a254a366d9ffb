//! Hookproof's reference receiver. Nothing of it is built yet.
