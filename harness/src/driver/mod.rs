//! How the harness starts and talks to a sender under test.
