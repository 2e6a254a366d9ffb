//! The address of each process of a sender, and whether that process answers.

use std::sync::atomic::{AtomicBool, Ordering};

use super::template::Variables;

/// The address of one process. The owner of the process reports its state here.
#[derive(Debug)]
pub(super) struct WorkerAddress {
    base: String,
    port: u16,
    /// Its process reported that it is ready, and lives.
    open: AtomicBool,
    /// Its process is stopped: it listens and does not answer.
    frozen: AtomicBool,
}

impl WorkerAddress {
    pub(super) fn new(base: String, port: u16) -> Self {
        Self { base, port, open: AtomicBool::default(), frozen: AtomicBool::default() }
    }

    pub(super) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }

    pub(super) fn set_frozen(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Relaxed);
    }

    pub(super) fn answers(&self) -> bool {
        self.open.load(Ordering::Relaxed) && !self.frozen.load(Ordering::Relaxed)
    }

    /// Adds its address to the variables of templates.
    pub(super) fn name_in(&self, variables: &mut Variables) {
        variables.insert("base".to_owned(), self.base.clone());
        variables.insert("port".to_owned(), self.port.to_string());
    }
}
