//! What is done to the sender under test.
