//! Where each process of a sender is spoken to, and whether it answers.

use std::sync::atomic::{AtomicBool, Ordering};

use super::template::Variables;

/// Where one process of the sender is spoken to. It does not know the process: who starts and stops it says so.
#[derive(Debug)]
pub(super) struct WorkerAddress {
    base: String,
    port: u16,
    /// Its process said that it is ready, and is not gone.
    open: AtomicBool,
    /// Its process is stopped: it listens, and answers nobody.
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

    /// What templates may name of it.
    pub(super) fn name_in(&self, variables: &mut Variables) {
        variables.insert("base".to_owned(), self.base.clone());
        variables.insert("port".to_owned(), self.port.to_string());
    }
}
