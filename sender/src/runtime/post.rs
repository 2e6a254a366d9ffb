//! One attempt, from the row that the store handed out to the outcome that the engine hears.

use std::future::Future;

use super::clock::{Clock, wall};
use crate::engine::{Outcome, WallTime};
use crate::roster::Subscriber;
use crate::store::command::{self, Attempt};
use crate::store::reply::ClaimedRow;

/// Whatever makes attempts.
pub(super) trait Post: Send + Sync + 'static {
    /// Makes the `number`th attempt of a delivery. Comes to an end by the subscriber's deadline.
    fn post(
        &self,
        clock: &Clock,
        subscriber: &Subscriber,
        row: &ClaimedRow,
        number: u32,
    ) -> impl Future<Output = Posted> + Send;
}

/// How an attempt went.
pub(super) struct Posted {
    /// For the engine.
    pub(super) outcome: Outcome,
    /// For the record.
    pub(super) record: Attempt,
}

impl Posted {
    /// Nothing could be sent, because there is nothing left to send or nobody to send it to.
    pub(super) fn impossible(now: WallTime) -> Self {
        let record = Attempt {
            at: now,
            latency: crate::engine::Nanos::ZERO,
            outcome: command::Outcome::Unsent,
            status: None,
            error: Some("the subscriber was removed".into()),
            body_hash: 0,
        };
        Self { outcome: Outcome::Unsent, record }
    }
}
