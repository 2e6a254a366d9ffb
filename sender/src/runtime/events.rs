//! How events reach the shell's task, which hands them to the dispatcher; and questions to it.
//!
//! The channel has no bound of its own. What can be in it has one, as long as the shell's task is not stuck: answers to
//! commands (one a lane, and batches up to the engine's bound on unanswered settlements), ends of attempts (the engine's
//! bound on attempts), one event of new work for each chunk of events that the store commits, what the watcher saw in one
//! look (an event for each thousand rows), and what operators ask.

use tokio::sync::{mpsc, oneshot};

use crate::dispatch::{Event, Stuck};
use crate::engine::LaneView;

/// Something for the shell's task.
pub(super) enum Message {
    /// Something happened.
    Event(Event),
    /// Somebody wants to know how lanes are.
    Views(oneshot::Sender<Vec<LaneView>>),
    /// Somebody wants to know which lanes cannot move.
    Stuck(oneshot::Sender<Vec<Stuck>>),
}

/// Where events go. Once the shell's task has ended, nobody hears them.
#[derive(Clone)]
pub(super) struct EventSender(mpsc::UnboundedSender<Message>);

impl EventSender {
    pub(super) fn send(&self, event: Event) {
        self.ask(Message::Event(event));
    }

    pub(super) fn ask(&self, message: Message) {
        // After the end there is nothing left that the message could change.
        let _ = self.0.send(message);
    }
}

pub(super) fn channel() -> (EventSender, mpsc::UnboundedReceiver<Message>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (EventSender(sender), receiver)
}
