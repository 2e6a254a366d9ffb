//! A small sender, minimal so that each bug is one line away.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use hookproof::clock::Clock;
use hookproof_play::traffic::Chance;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::sender_mutants::attempt::{Outcome, again, attempt};
use crate::sender_mutants::journal::{Journal, Trouble};
use crate::sender_mutants::lane::{Delivery, Lane, Next};
use crate::sender_mutants::lease::Lease;
use crate::sender_mutants::second::Connections;

/// Empty for the correct one. `+` joins several.
#[derive(Clone, Debug)]
pub(crate) struct Bug(pub(crate) String);

impl Bug {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.0.split('+').any(|one| one == name)
    }
}

pub(crate) struct Sender {
    pub(crate) bug: Bug,
    pub(crate) clock: Clock,
    pub(crate) lanes: RefCell<Vec<Lane>>,
    journal: RefCell<Journal>,
    known: RefCell<BTreeSet<String>>,
    pub(crate) kept: RefCell<Vec<u8>>,
    first_secret: RefCell<Option<Value>>,
    chance: RefCell<Chance>,
    next_delivery: RefCell<u64>,
    changed: Notify,
    tenure: Tenure,
    committed: Cell<u64>,
    pub(crate) connections: Connections,
    at_once: AtOnce,
}

struct Tenure {
    /// Set where another process may take over.
    lease: Option<Rc<Lease>>,
    stopping: Cell<bool>,
    given_up: Cell<bool>,
}

#[derive(Default)]
struct AtOnce {
    turn: tokio::sync::Mutex<()>,
    attempts: RefCell<usize>,
}

pub(crate) const IGNORES_ITS_LEASE: &str = "ignores-its-lease";
const LATE_NS: u64 = 800_000_000;
const POLL_NS: u64 = 1_500_000_000;
/// The cost of each open attempt for a sender that scans all of them, and the most that it scans.
const LOOK_NS: u64 = 40_000_000;
const LOOKS_MAX: u64 = 18;
const KEPT_NS: u64 = 1_000_000_000;
const TURN_NS: u64 = 100_000_000;
/// Longer than `retry.hidden` calls "at once", so that the number of the attempt alone shows the repeat.
const REPEAT_NS: u64 = 20_000_000;
const POOL: usize = 6;

impl Sender {
    pub(crate) fn open(bug: Bug, dir: &str, lease: Option<Rc<Lease>>) -> Rc<Self> {
        let (journal, past) = Journal::open(dir);
        let sender = Rc::new(Self {
            bug,
            clock: Clock::begun(),
            lanes: RefCell::default(),
            journal: RefCell::new(journal),
            known: RefCell::default(),
            kept: RefCell::default(),
            first_secret: RefCell::default(),
            chance: RefCell::new(Chance::new(u64::from(std::process::id()), 1)),
            next_delivery: RefCell::new(0),
            changed: Notify::new(),
            tenure: Tenure { lease, stopping: Cell::new(false), given_up: Cell::new(false) },
            committed: Cell::new(0),
            connections: Connections::default(),
            at_once: AtOnce::default(),
        });
        past.iter().for_each(|line| sender.replay(line));
        let restarted = !past.is_empty();
        for lane in sender.lanes.borrow_mut().iter_mut() {
            if restarted && !sender.bug.is("forgets-the-limiter-at-restart") {
                lane.fill(sender.clock.now());
            }
            let rest = match sender.bug.0.as_str() {
                "rests-after-a-restart" => 3_000_000_000,
                "rests-long-after-a-restart" => 8_000_000_000,
                _ => continue,
            };
            lane.rest_until(if restarted { sender.clock.now() + rest } else { 0 });
        }
        let count = sender.lanes.borrow().len();
        (0..count).for_each(|at| sender.drive(at));
        sender
    }

    fn replay(&self, line: &Value) {
        let number = |key: &str| line[key].as_u64().unwrap_or_default();
        let lane = usize::try_from(number("lane")).unwrap_or_default();
        match line["k"].as_str().unwrap_or_default() {
            "subscribe" => self.lanes.borrow_mut().push(Lane::new(&line["as"], self.clock.now())),
            "event" => {
                self.known.borrow_mut().insert(line["id"].as_str().unwrap_or_default().to_owned());
            }
            "delivery" => {
                let delivery = Delivery::new(number("n"), line["body"].as_str().unwrap_or_default(), 0);
                *self.next_delivery.borrow_mut() = number("n") + 1;
                self.lanes.borrow_mut()[lane].put(delivery);
            }
            "attempt" => self.lanes.borrow_mut()[lane].with(number("n"), |one| one.attempts += 1),
            "done" => self.lanes.borrow_mut()[lane].delivered(number("n")),
            "change" => self.lanes.borrow_mut()[lane].change(&line["limit"], self.clock.now()),
            "gone" => self.lanes.borrow_mut()[lane].gone = true,
            "dead" => {
                self.lanes.borrow_mut()[lane].bury(number("n"), line["why"].as_str().unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Whether this process still owns its work. A stopped process may learn only here that it does not.
    pub(crate) fn is_its_own(&self) -> bool {
        let is_held = || self.tenure.lease.as_ref().is_none_or(|lease| lease.is_held());
        self.bug.is(IGNORES_ITS_LEASE) || (!self.tenure.given_up.get() && is_held())
    }

    pub(crate) fn give_up(&self) {
        self.tenure.given_up.set(true);
        self.tenure.stopping.set(true);
        self.wake();
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.tenure.given_up.get()
    }

    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    fn append_to_journal(&self, line: Value) {
        self.journal.borrow_mut().append(&line);
    }

    pub(crate) fn subscribe(self: &Rc<Self>, settings: &Value) -> Value {
        let mut settings = settings.clone();
        if let Some(first) =
            self.first_secret.borrow().as_ref().filter(|_| self.bug.is("hands-one-secret-to-all"))
        {
            settings["secret"].clone_from(first);
        }
        self.first_secret.borrow_mut().get_or_insert_with(|| settings["secret"].clone());
        self.append_to_journal(json!({ "k": "subscribe", "as": settings }));
        self.commit();
        self.lanes.borrow_mut().push(Lane::new(&settings, self.clock.now()));
        self.drive(self.lanes.borrow().len() - 1);
        settings["secret"].clone()
    }

    pub(crate) fn change(&self, settings: &Value) {
        if self.bug.is("ignores-a-changed-limit") {
            return;
        }
        let (now, mut lanes) = (self.clock.now(), self.lanes.borrow_mut());
        let own = lanes.iter_mut().enumerate().filter(|(_, lane)| settings["name"] == lane.name.as_str());
        for (at, lane) in own {
            self.append_to_journal(json!({ "k": "change", "lane": at, "limit": settings["limit"] }));
            lane.change(&settings["limit"], now);
        }
        self.commit();
        self.changed.notify_waiters();
    }

    /// Whether events can be accepted now. A sender that ignores the obstacle dies of it.
    pub(crate) fn is_able(&self) -> bool {
        let trouble = self.journal.borrow_mut().trouble();
        let dies = match trouble {
            Some(Trouble::Full) => self.bug.is("dies-of-a-full-disk"),
            Some(Trouble::Locked) => self.bug.is("dies-of-a-lock"),
            None => false,
        };
        if dies {
            std::process::abort();
        }
        trouble.is_none() && self.is_its_own()
    }

    pub(crate) fn is_written(&self) -> bool {
        self.bug.is("acknowledges-before-it-commits") || self.journal.borrow().is_written()
    }

    pub(crate) fn commit(&self) {
        if self.is_its_own() && !self.bug.is("acknowledges-before-it-commits") {
            self.journal.borrow_mut().commit();
        }
    }

    pub(crate) fn commit_late(&self) {
        let now = self.clock.now();
        let soon = now < self.committed.get() + LATE_NS && !self.tenure.stopping.get();
        if soon && self.bug.is("acknowledges-before-it-commits") {
            return;
        }
        if self.is_its_own() {
            self.committed.set(now);
            self.journal.borrow_mut().commit();
        }
    }

    pub(crate) fn emit(&self, event: &Value) -> Value {
        let [id, kind] = ["id", "type"].map(|key| event[key].as_str().unwrap_or_default());
        let is_new = self.known.borrow_mut().insert(id.to_owned());
        if self.bug.is("keeps-a-megabyte-for-each-event") {
            self.kept.borrow_mut().extend_from_slice(&vec![1; 1 << 20]);
        }
        if !is_new && !self.bug.is("takes-an-event-twice") {
            return json!({ "deliveries": 0 });
        }
        let now = self.clock.now();
        self.append_to_journal(json!({ "k": "event", "id": id }));
        let mut deliveries = 0;
        for (at, lane) in self.lanes.borrow_mut().iter_mut().enumerate() {
            if !lane.wants(kind) && !self.bug.is("sends-to-whom-it-does-not-concern") {
                continue;
            }
            let body = json!({ "id": id, "type": kind, "key": event["key"], "data": event["data"] });
            let mut body = body.to_string();
            if self.bug.is("reads-numbers-as-floats") {
                body = body.replace(&i64::MAX.to_string(), "9223372036854775808");
            }
            let window = lane.window(kind).filter(|_| !self.bug.is("delivers-what-it-should-replace"));
            if window.is_some() && lane.replace(kind, &event["key"], &body, now) {
                deliveries += 1;
                continue;
            }
            let n = self.next_delivery.replace_with(|n| *n + 1);
            self.append_to_journal(json!({ "k": "delivery", "lane": at, "n": n, "body": body }));
            if lane.gone && !self.bug.is("ignores-410") {
                self.append_to_journal(json!({ "k": "dead", "lane": at, "n": n, "why": "gone" }));
                lane.put(Delivery::new(n, &body, now));
                lane.bury(n, "gone");
                continue;
            }
            let sleeps = self.bug.is("sleeps-through-a-wake-up");
            lane.set_asleep(sleeps && lane.done == 1 && lane.queued() == 0);
            lane.put(Delivery::new(n, &body, now).held_for(window.unwrap_or(0), kind));
            deliveries += 1;
            if n.is_multiple_of(10) && self.bug.is("filters-by-its-own-rules") {
                self.append_to_journal(json!({ "k": "dead", "lane": at, "n": n, "why": "filtered" }));
                lane.bury(n, "filtered");
                continue;
            }
            while let Some(oldest) = lane.surplus().filter(|_| !self.bug.is("has-no-bound")) {
                if self.bug.is("sheds-in-silence") {
                    lane.forget(oldest);
                } else {
                    lane.bury(oldest, "overflow");
                }
                self.append_to_journal(json!({ "k": "dead", "lane": at, "n": oldest, "why": "overflow" }));
            }
        }
        self.changed.notify_waiters();
        json!({ "deliveries": if self.bug.is("matches-nobody") { 0 } else { deliveries } })
    }

    pub(crate) fn emit_together(&self, events: &[Value]) -> Vec<Value> {
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let is_new = |event: &&Value| self.known.borrow_mut().insert(text(event, "id"));
        let fresh: Vec<&Value> = events.iter().filter(is_new).collect();
        let now = self.clock.now();
        for (at, lane) in self.lanes.borrow_mut().iter_mut().enumerate() {
            let wanted: Vec<&&Value> = fresh.iter().filter(|one| lane.wants(&text(one, "type"))).collect();
            if wanted.is_empty() {
                continue;
            }
            let n = self.next_delivery.replace_with(|n| *n + 1);
            let body = json!({ "events": wanted }).to_string();
            self.append_to_journal(json!({ "k": "delivery", "lane": at, "n": n, "body": body }));
            lane.put(Delivery::new(n, &body, now).carrying(wanted.len()));
        }
        self.changed.notify_waiters();
        events.iter().map(|_| json!({})).collect()
    }

    fn drive(self: &Rc<Self>, at: usize) {
        let sender = Rc::clone(self);
        tokio::task::spawn_local(async move {
            while !sender.tenure.stopping.get() {
                let changed = sender.changed.notified();
                let now = sender.clock.now();
                let full = sender.bug.is("has-one-pool-for-all") && *sender.at_once.attempts.borrow() >= POOL;
                let next = if full || !sender.is_its_own() {
                    Next::Wait
                } else {
                    sender.lanes.borrow_mut()[at].next(now, &sender.bug)
                };
                let polls = sender.bug.is("polls-for-work");
                match next {
                    Next::Until(_) | Next::Wait if polls => sender.clock.pass(POLL_NS).await,
                    Next::Start(n) => sender.start(at, n),
                    Next::Expired(n) => sender.bury(at, n, "expired"),
                    Next::Until(then) => tokio::select! {
                        () = changed => {}
                        () = sender.clock.until(then) => {}
                    },
                    Next::Wait => changed.await,
                }
            }
        });
    }

    fn bury(&self, at: usize, n: u64, why: &str) {
        self.append_to_journal(json!({ "k": "dead", "lane": at, "n": n, "why": why }));
        self.commit_late();
        self.lanes.borrow_mut()[at].bury(n, why);
    }

    fn start(self: &Rc<Self>, at: usize, n: u64) {
        let sender = Rc::clone(self);
        tokio::task::spawn_local(async move {
            *sender.at_once.attempts.borrow_mut() += 1;
            if sender.bug.is("sends-everything-again-later") {
                tokio::task::spawn_local(again(Rc::clone(&sender), at, n));
            }
            if sender.bug.is("does-one-thing-at-a-time") {
                let turn = sender.at_once.turn.lock().await;
                sender.clock.pass(TURN_NS).await;
                drop(turn);
            }
            if sender.bug.is("looks-through-all-that-is-open") {
                let open = *sender.at_once.attempts.borrow() as u64;
                sender.clock.pass(open.min(LOOKS_MAX) * LOOK_NS).await;
            }
            let mut outcome = attempt(&sender, at, n).await;
            if outcome == Outcome::Cut && sender.bug.is("sends-a-hidden-second-request") {
                sender.clock.pass(REPEAT_NS).await;
                outcome = attempt(&sender, at, n).await;
            }
            *sender.at_once.attempts.borrow_mut() -= 1;
            sender.ended(at, n, &outcome);
            sender.changed.notify_waiters();
            if sender.bug.is("repeats-what-it-confirmed") {
                sender.clock.pass(LATE_NS).await;
                sender.append_to_journal(json!({ "k": "done", "lane": at, "n": n }));
                sender.commit();
            }
        });
    }

    fn ended(&self, at: usize, n: u64, outcome: &Outcome) {
        let now = self.clock.now();
        let mut lanes = self.lanes.borrow_mut();
        let lane = &mut lanes[at];
        lane.finished(now, &self.bug);
        let status = if let Outcome::Answered { status, .. } = outcome { *status } else { 0 };
        let taken = match status {
            204 if self.bug.is("takes-204-for-a-failure") => false,
            0 if *outcome == Outcome::Cut && self.bug.is("takes-a-reset-for-success") => true,
            0 if *outcome == Outcome::Closed && self.bug.is("takes-a-close-for-success") => true,
            0 if *outcome == Outcome::Refused && self.bug.is("takes-a-refusal-for-success") => true,
            status => (200..300).contains(&status),
        };
        let told = outcome.pause(0.0, &self.bug).is_some();
        lane.breaker.ended(n, now, (taken, told), &self.bug);
        if taken {
            if !self.bug.is("forgets-what-it-delivered") && !self.bug.is("repeats-what-it-confirmed") {
                self.append_to_journal(json!({ "k": "done", "lane": at, "n": n }));
            }
            lane.delivered(n);
            lane.made.push(now);
        } else if status == 410 && !self.bug.is("ignores-410") {
            self.append_to_journal(json!({ "k": "gone", "lane": at }));
            lane.gone = true;
            for n in lane.waiting() {
                self.append_to_journal(json!({ "k": "dead", "lane": at, "n": n, "why": "gone" }));
                lane.bury(n, "gone");
            }
        } else {
            self.append_to_journal(json!({ "k": "attempt", "lane": at, "n": n }));
            let luck = self.chance.borrow_mut().unit();
            if lane.failed(n, now, outcome, luck, &self.bug) {
                self.append_to_journal(json!({ "k": "dead", "lane": at, "n": n, "why": "exhausted" }));
                lane.bury(n, "exhausted");
            }
        }
        drop(lanes);
        self.commit_late();
    }

    pub(crate) async fn stop(&self) {
        self.tenure.stopping.set(true);
        self.changed.notify_waiters();
        while *self.at_once.attempts.borrow() > 0 {
            self.changed.notified().await;
        }
        self.commit_late();
    }

    pub(crate) fn stats(&self) -> Value {
        let lanes = self.lanes.borrow();
        let sum = |of: fn(&Lane) -> usize| lanes.iter().map(of).sum::<usize>();
        let early = if self.bug.is("counts-what-waits-as-delivered") { sum(Lane::queued) } else { 0 };
        let own = |lane: &Lane| {
            let (waiting, delivered, dead) = (lane.queued(), lane.done, lane.dead.len());
            json!({ "name": lane.name, "waiting": waiting, "delivered": delivered, "dead": dead, "coalesced": lane.coalescing.replaced })
        };
        json!({
            "lanes": lanes.iter().map(own).collect::<Vec<_>>(),
            "waiting": sum(Lane::queued) - early,
            "delivered": sum(|lane| lane.done) + early,
            "dead": sum(|lane| lane.dead.len()),
            "coalesced": sum(|lane| lane.coalescing.replaced),
        })
    }

    /// In Unix milliseconds, for each remembered delivery.
    pub(crate) fn kept_deliveries(&self) -> Value {
        let now = self.clock.now();
        let mut lanes = self.lanes.borrow_mut();
        if !self.bug.is("forgets-nothing-that-it-delivered") {
            lanes.iter_mut().for_each(|lane| lane.let_go(now.saturating_sub(KEPT_NS)));
        }
        let kept = lanes.iter().flat_map(|lane| &lane.made);
        let kept = kept.map(|t| json!({ "delivered": self.clock.unix_ns(*t) / 1_000_000 }));
        json!({ "items": kept.collect::<Vec<_>>() })
    }

    pub(crate) fn dead(&self) -> Value {
        let lanes = self.lanes.borrow();
        let letters = lanes.iter().flat_map(|lane| {
            let one = |(body, why, attempts): &(String, String, u32)| {
                json!({ "subscriber": lane.name, "event": body, "reason": why, "attempts": attempts })
            };
            lane.dead.iter().map(one).collect::<Vec<_>>()
        });
        json!({ "items": letters.collect::<Vec<_>>() })
    }
}
