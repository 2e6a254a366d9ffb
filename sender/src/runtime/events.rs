//! The channel of events and questions to the dispatcher's task.
//!
//! The channel itself is unbounded. Its content is bounded as long as that task makes progress:
//!
//! - answers to commands: one a lane, and batches up to the engine's bound on unanswered settlements;
//! - ends of attempts: the engine's bound on attempts;
//! - new work: one event for each chunk that the store commits;
//! - the watcher's findings: an event for each thousand rows of a poll;
//! - questions of operators.

use tokio::sync::{mpsc, oneshot};

use crate::dispatch::{Event, Stuck};
use crate::engine::LaneView;

pub(super) enum Message {
    Event(Event),
    /// A question: the state of the lanes.
    Views(oneshot::Sender<Vec<LaneView>>),
    /// A question: the lanes that are blocked.
    Stuck(oneshot::Sender<Vec<Stuck>>),
}

/// The sending end. Ignores messages once the receiving task has ended.
#[derive(Clone)]
pub(super) struct EventSender(mpsc::UnboundedSender<Message>);

impl EventSender {
    pub(super) fn send(&self, event: Event) {
        self.ask(Message::Event(event));
    }

    pub(super) fn ask(&self, message: Message) {
        // An error means that the task has ended; then no message matters.
        let _ = self.0.send(message);
    }
}

pub(super) fn channel() -> (EventSender, mpsc::UnboundedReceiver<Message>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (EventSender(sender), receiver)
}
