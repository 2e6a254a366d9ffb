//! Empties parts in which nothing is owed any more.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::parts::Parts;
use super::{Link, schema};
use crate::failure::Failure;
use crate::{figures, now};

pub(super) struct Emptier {
    link: Link,
    parts: Arc<Parts>,
    woken: Receiver<()>,
    emptied: Emptied,
}

/// How often that was done, and how often somebody had read the part and not yet ended.
#[derive(Default)]
pub(super) struct Emptied {
    times: u64,
    timeouts: u64,
    longest: Duration,
    failed: Option<Failure>,
}

impl Emptier {
    pub(super) fn open(address: &str, parts: Arc<Parts>, woken: Receiver<()>) -> Result<Self, Failure> {
        let link = Link::open(address, schema::EMPTYING)?;
        Ok(Self { link, parts, woken, emptied: Emptied::default() })
    }

    /// Until nobody wakes it any more.
    pub(super) fn run(mut self) -> Emptied {
        while self.emptied.failed.is_none() && self.woken.recv().is_ok() {
            if let Some(part) = self.parts.done() {
                self.empty(part);
            }
        }
        self.emptied
    }

    /// Where that would wait for long, it is left to the next time.
    fn empty(&mut self, part: usize) {
        let began = now();
        match self.link.runtime.block_on(self.link.client.batch_execute(&schema::empty(part))) {
            Ok(()) => {
                self.parts.emptied();
                self.emptied.times += 1;
                self.emptied.longest = self.emptied.longest.max(now() - began);
            }
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => self.emptied.timeouts += 1,
            Err(error) => self.emptied.failed = Some(error.into()),
        }
    }
}

impl Emptied {
    pub(super) fn tell(self) -> Result<(), Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        figures::count("parts emptied", figures::float(self.times));
        figures::count("  the longest took, ms", self.longest.as_secs_f64() * 1e3);
        figures::count("  put off, as somebody reads the part", figures::float(self.timeouts));
        Ok(())
    }
}
