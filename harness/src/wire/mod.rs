//! Signatures and raw HTTP for the judge alone.
