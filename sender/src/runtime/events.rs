//! The channel to the dispatcher's task. It has no limit, but its content is bounded while that task makes
//! progress:
//!
//! - answers to commands: one a lane, and batches up to the engine's bound on unanswered settlements;
//! - ends of attempts: the engine's bound on attempts;
//! - new work: one event for each chunk that the store commits;
//! - the watcher's findings: one event for each thousand rows of a poll;
//! - questions of operators.

use tokio::sync::{mpsc, oneshot};

use crate::dispatch::{Event, Stuck};
use crate::engine::LaneView;

pub(super) enum Message {
    Event(Event),
    Views(oneshot::Sender<Vec<LaneView>>),
    Stuck(oneshot::Sender<Vec<Stuck>>),
}

/// Ignores messages once the receiving task has ended.
#[derive(Clone)]
pub(super) struct EventSender(mpsc::UnboundedSender<Message>);

impl EventSender {
    pub(super) fn send(&self, event: Event) {
        self.ask(Message::Event(event));
    }

    pub(super) fn ask(&self, message: Message) {
        let _ = self.0.send(message);
    }
}

pub(super) fn channel() -> (EventSender, mpsc::UnboundedReceiver<Message>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (EventSender(sender), receiver)
}
