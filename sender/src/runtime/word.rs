//! What the heart hears. Everything that happens comes to it as a [`Word`], and in no other way.
//!
//! The channel of words has no bound of its own; what can be in it has: answers to commands (one a lane, and batches up
//! to the engine's bound on unanswered settlements), ends of attempts (the engine's bound on attempts), news from one
//! watcher (one word a round), and what operators ask.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::post::Posted;
use crate::engine::{AttemptId, BatchId, DeliveryId, LaneId, LaneView, Term, WallTime};
use crate::roster::Roster;
use crate::store::reply::{Claimed, Renewed, Taken};

/// Something that happened.
pub(super) enum Word {
    /// The store handed deliveries out.
    Claimed(Claimed),
    /// The store would not: the lane is not ours any more.
    Lost(LaneId, Term),
    /// An attempt is over.
    Posted { attempt: AttemptId, delivery: DeliveryId, posted: Posted },
    /// Settlements are durable.
    Settled { batch: BatchId, refused: Vec<(LaneId, Term)> },
    /// A lane was given back.
    HandedBack(LaneId, Term),
    /// Lanes are ours, their leases counted from that moment.
    Acquired { taken: Vec<Taken>, asked: WallTime },
    /// Our leases were renewed, counted from that moment.
    Renewed { renewed: Renewed, asked: WallTime },
    /// They could not be renewed; lanes whose lease runs out start nothing.
    NotRenewed,
    /// Lanes have something to do.
    Work(Vec<(LaneId, WallTime)>),
    /// Subscribers have changed.
    Roster(Arc<Roster>),
    /// Somebody wants to know how lanes are.
    View(oneshot::Sender<Vec<LaneView>>),
    /// End in order.
    Stop,
}

/// Where words go. Once the heart has stopped, nobody hears them.
#[derive(Clone)]
pub(super) struct Mouth(mpsc::UnboundedSender<Word>);

impl Mouth {
    pub(super) fn say(&self, word: Word) {
        // After the end there is nothing left that the word could change.
        let _ = self.0.send(word);
    }
}

pub(super) fn channel() -> (Mouth, mpsc::UnboundedReceiver<Word>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Mouth(sender), receiver)
}
