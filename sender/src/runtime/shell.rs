//! The event loop of [`crate::dispatch`]. Slow work starts here and returns as an event. The task never waits for a
//! disk or a network.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error, info, warn};

use super::clock::Clock;
use super::link::submit_one;
use super::post::Post;
use crate::boot_clock;
use crate::dispatch::{
    Answered, Dispatcher, Effect, Event, Failure, NewAttempt, News, Order, Stuck, WorkDone, handover,
};
use crate::engine::breaker::Standing;
use crate::engine::{LaneId, LaneRecord, LaneView, Shift, StoreTime, Term, Why};
use crate::event::timestamp::Timestamp;
use crate::store::command::{Command, Persist};
use crate::store::thread::Handle;
use crate::transport::{CancellationToken, Lease, SendPermit};

/// More give larger batches; fewer give quicker answers.
const MESSAGES_MAX: usize = 1_024;

pub(super) struct Shell<P> {
    dispatcher: Dispatcher,
    clock: Clock,
    store: Handle,
    post: Arc<P>,
    events: EventSender,
    messages: mpsc::UnboundedReceiver<Message>,
    rights: HashMap<LaneId, Rights>,
    /// Readable after this task has ended.
    work_done: Arc<Mutex<WorkDone>>,
}

struct Rights {
    lease: Lease,
    /// Cancelled when decided attempts must not be sent.
    cancellation: CancellationToken,
}

impl<P: Post> Shell<P> {
    pub(super) fn new(
        dispatcher: Dispatcher,
        clock: Clock,
        store: Handle,
        post: Arc<P>,
        (events, messages): (EventSender, mpsc::UnboundedReceiver<Message>),
    ) -> Self {
        let (rights, work_done) = (HashMap::new(), Arc::default());
        Self { dispatcher, clock, store, post, events, messages, rights, work_done }
    }

    pub(super) fn work_done(&self) -> Arc<Mutex<WorkDone>> {
        Arc::clone(&self.work_done)
    }

    /// Returns whether nothing is left in the store.
    pub(super) async fn run(mut self) -> bool {
        let mut batch = Vec::with_capacity(MESSAGES_MAX);
        while !self.dispatcher.is_over(|| self.store.health().failing.is_some()) {
            let wake = self.dispatcher.next_wake();
            tokio::select! {
                count = self.messages.recv_many(&mut batch, MESSAGES_MAX) => {
                    if count == 0 { break }
                }
                () = self.clock.reached(wake) => {}
            }
            for message in batch.drain(..) {
                self.handle_message(message);
            }
            self.step();
        }
        self.dispatcher.left_nothing()
    }

    fn handle_message(&mut self, message: Message) {
        match message {
            Message::Event(event) => self.dispatcher.handle(self.now(), event),
            Message::Views(answer) => drop(answer.send(self.dispatcher.views())),
            Message::Stuck(answer) => drop(answer.send(self.dispatcher.stuck())),
        }
    }

    fn step(&mut self) {
        self.dispatcher.handle(self.now(), Event::Tick);
        while let Some(effect) = self.dispatcher.poll() {
            self.carry_out(effect);
        }
        let done = self.dispatcher.take_work_done();
        if done != WorkDone::default() {
            self.work_done.lock().unwrap_or_else(PoisonError::into_inner).add(done);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send(attempt) => self.send(attempt),
            Effect::Withdraw { lane } => {
                if let Some(rights) = self.rights.get_mut(&lane) {
                    std::mem::take(&mut rights.cancellation).cancel();
                }
            }
            Effect::Forget { lane } => {
                if let Some(rights) = self.rights.remove(&lane) {
                    rights.cancellation.cancel();
                }
            }
            Effect::Extend { until } => {
                let until = self.clock.boot_time(until);
                self.rights.values().for_each(|rights| rights.lease.extend(until));
            }
            Effect::Submit { order, command } => self.submit(order, command),
            Effect::Persist { order, lane, term, record } => self.persist(order, lane, term, &record),
            Effect::Report(news) => log_news(&news, |lane| self.dispatcher.name(lane)),
        }
    }

    fn send(&mut self, attempt: NewAttempt) {
        let NewAttempt { attempt, lane, row, number, subscriber, limits } = attempt;
        let clock = self.clock;
        let lease_until = clock.boot_time(limits.lease_until);
        let rights = self.rights.entry(lane).or_insert_with(|| Rights {
            lease: Lease::until(lease_until),
            cancellation: CancellationToken::new(),
        });
        let permit = SendPermit {
            deadline: clock.boot_time(limits.deadline),
            lease: rights.lease.clone(),
            cancelled: rights.cancellation.clone(),
        };
        let (events, post) = (self.events.clone(), Arc::clone(&self.post));
        tokio::spawn(async move {
            let result = post.post(&clock, &subscriber, &row, number, permit).await;
            events.send(Event::Ended { attempt, delivery: row.delivery, result });
        });
    }

    fn submit(&self, order: Order, command: Command) {
        let events = self.events.clone();
        submit_one(&self.store, command, move |reply| {
            let reply = reply.map_err(Failure::from);
            let moment = if matches!(order, Order::Acquire { .. }) { boot_clock::moment() } else { None };
            events.send(Event::Answered(Answered { order, reply, moment }));
        });
    }

    fn persist(&self, order: Order, lane: LaneId, term: Term, record: &LaneRecord) {
        let hand_back = record.is_final();
        match handover::seal(record, boot_clock::moment()) {
            Ok(record) => self.submit(order, Command::Persist(Persist { lane, term, record, hand_back })),
            Err(error) => {
                let reply = Err(Failure::Lasting(error.to_string().into()));
                self.events.send(Event::Answered(Answered { order, reply, moment: None }));
            }
        }
    }

    fn now(&self) -> StoreTime {
        self.clock.now()
    }
}

fn log_news<'a>(news: &News, name: impl FnOnce(LaneId) -> Option<&'a Arc<str>>) {
    let subscriber = |lane: LaneId| name(lane).map_or("a subscriber that was removed", |name| &**name);
    match news {
        News::Took { lane, term } => debug!(lane = lane.0, term = term.0, "took a lane"),
        News::Lost { lane, term } => {
            let subscriber = subscriber(*lane);
            warn!(lane = lane.0, subscriber, term = term.0, "lost a lane to another process");
        }
        News::Stuck { lane, why } => {
            error!(lane = lane.0, subscriber = subscriber(*lane), %why, "a lane is blocked; trying again");
        }
        News::Moves { lane } => {
            info!(lane = lane.0, subscriber = subscriber(*lane), "a blocked lane continues");
        }
        News::Shifted { lane, shift: Shift { from, to, why, .. } } => {
            info!(
                lane = lane.0,
                subscriber = subscriber(*lane),
                from_percent = from,
                to_percent = to,
                why = why.word(),
                "{}",
                shifted(*from, *to, why)
            );
        }
        News::Turned { lane, before, breaker } => {
            let (name, lane) = (subscriber(*lane), lane.0);
            match (before.is_open(), breaker) {
                (false, Standing::Open { until, .. }) => {
                    let until = Timestamp(*until);
                    warn!(lane, subscriber = name, %until, "opened the circuit breaker of {name} until {until}");
                }
                (true, Standing::Open { until, .. }) => {
                    let until = Timestamp(*until);
                    info!(lane, subscriber = name, %until, "a probe failed: the circuit breaker of {name} stays open until {until}");
                }
                _ => info!(lane, subscriber = name, "closed the circuit breaker of {name}"),
            }
        }
        News::Retried { lane, insist } => {
            let (name, lane) = (subscriber(*lane), lane.0);
            let despite = if *insist { ", despite its Retry-After" } else { "" };
            info!(lane, subscriber = name, "an operator has {name} tried at once{despite}");
        }
        News::GaveUp { lane, why } => {
            let subscriber = subscriber(*lane);
            error!(lane = lane.0, subscriber, %why, "a lane's last checkpoint was not written");
        }
    }
}

fn shifted(from: u32, to: u32, why: &Why) -> String {
    let verb = if to < from { "lowered" } else { "raised" };
    format!("{verb} a lane from {from} % to {to} % of its contract: {why}")
}

// The channel to the dispatcher's task has no limit, but its content is bounded while that task makes progress:
//
// - answers to commands: one a lane, and batches up to the engine's bound on unanswered settlements;
// - ends of attempts: the engine's bound on attempts;
// - new work: one event for each chunk that the store commits;
// - the watcher's findings: one event for each thousand rows of a poll;
// - questions of operators.

pub(super) enum Message {
    Event(Event),
    Views(oneshot::Sender<Vec<LaneView>>),
    Stuck(oneshot::Sender<Vec<Stuck>>),
}

#[derive(Clone)]
pub(super) struct EventSender(mpsc::UnboundedSender<Message>);

impl EventSender {
    pub(super) fn send(&self, event: Event) {
        self.send_message(Message::Event(event));
    }

    pub(super) fn send_message(&self, message: Message) {
        let _ = self.0.send(message);
    }
}

pub(super) fn channel() -> (EventSender, mpsc::UnboundedReceiver<Message>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (EventSender(sender), receiver)
}
