//! The cases that certify a receiver.
