//! Requests under way and the behaviour of endpoints, in virtual time.

use hookproof_judge::scenario::{Answer as Script, Behaviour, Millionths, Reply, RetryAfter, SECOND, Size};
use hookproof_judge::trace::{self, Cut, CutKind, Record, Text};
use hookproof_play::endpoint::{Before, Enforced, http_date, render};
use hookproof_sender::dispatch::{AttemptEnd, Event, NewAttempt};
use hookproof_sender::engine::Nanos;
use hookproof_sender::store::command::{self, AttemptOutcome};
use hookproof_sender::transport::Lease;

use super::arrival::translate;
use super::error::SimError;
use super::event::{ProcessEvent, SimEvent};
use super::exchange::{Exchange, ExchangeEnd, Final};
use super::options::{EPOCH, Keep};
use super::world::World;

const BYTES_PER_SECOND: u64 = 1 << 30;
/// Bytes in a dripping answer, about.
const DRIPS: u64 = 100;
/// Bytes of an answer's body that the sender reads.
const BODY_READ: u64 = 64 << 10;

/// In nanoseconds.
const CONNECTS_NS: u64 = 4 * SECOND;

impl World<'_> {
    /// The sender gives it up after `timeout`, or with its lane's lease.
    pub(super) fn send(
        &mut self,
        worker: usize,
        attempt: NewAttempt,
        timeout: u64,
        lease: Lease,
    ) -> Result<(), SimError> {
        let NewAttempt { attempt, lane, row, number, .. } = attempt;
        let endpoint = self.endpoint_of(lane)?;
        let generation = self.slots[worker].generation;
        let refused = self.net.endpoints[endpoint].behaviours.iter().any(|behaviour| {
            matches!(behaviour.answer, Script::Refuse | Script::WrongCertificate(_))
                && behaviour.share == Millionths::ONE
                && behaviour.covers(self.now)
        });
        self.liveness.started(endpoint, self.now);
        let luck = self.net.endpoints[endpoint].choices.draw();
        let delivery = row.delivery;
        let exchange = Exchange {
            worker,
            generation,
            attempt,
            delivery,
            endpoint,
            row,
            number,
            began: self.now,
            luck,
            lease,
            n: None,
            over: false,
            closed: false,
        };
        let id = self.net.next_exchange;
        self.net.next_exchange += 1;
        let wire = self.wire();
        self.net.exchanges.insert(id, exchange);
        if let Some(ignored) = self.ignored(endpoint) {
            self.finish(id, CutOr::Nothing);
            let after = ignored.min(timeout).min(CONNECTS_NS);
            self.later(after, SimEvent::Heard(id, ExchangeEnd::Unsent("not accepted")));
        } else if refused {
            self.finish(id, CutOr::Nothing);
            self.later(wire, SimEvent::Heard(id, ExchangeEnd::Unsent("connection refused")));
        } else {
            self.later(wire, SimEvent::Arrive { exchange: id, stalled: false });
            self.later(timeout, SimEvent::Heard(id, ExchangeEnd::Silent("the deadline passed")));
            self.watch_lease(id, timeout);
        }
        Ok(())
    }

    /// Schedules a check at the end of the lane's lease, if that is within `within`.
    fn watch_lease(&mut self, id: u64, within: u64) {
        let exchange = &self.net.exchanges[&id];
        let process = self.slots[exchange.worker].process.as_ref();
        let left = process.map(|process| process.remaining(&exchange.lease, self.now));
        if let Some(left) = left.filter(|left| *left < within) {
            self.later(left, SimEvent::LeaseOver(id));
        }
    }

    pub(super) fn lease_over(&mut self, id: u64) -> Result<(), SimError> {
        let Some(exchange) = self.net.exchanges.get(&id).filter(|exchange| !exchange.over) else {
            return Ok(());
        };
        let (worker, generation) = (exchange.worker, exchange.generation);
        if self.is_frozen(worker, generation) {
            return self.stash_event(worker, generation, ProcessEvent::LeaseOver(id));
        }
        let process =
            self.slots[worker].process.as_ref().filter(|_| self.slots[worker].generation == generation);
        match process.map(|process| process.remaining(&exchange.lease, self.now)) {
            None => Ok(()),
            Some(0) => self.report_end(id, ExchangeEnd::CutOff),
            Some(left) => {
                self.later(left, SimEvent::LeaseOver(id));
                Ok(())
            }
        }
    }

    /// None if the endpoint accepts.
    fn ignored(&self, endpoint: usize) -> Option<u64> {
        let ignores = |behaviour: &&Behaviour| {
            matches!(behaviour.answer, Script::NoAccept) && behaviour.covers(self.now)
        };
        let behaviour = self.net.endpoints[endpoint].behaviours.iter().find(ignores)?;
        Some(behaviour.until().unwrap_or(u64::MAX).saturating_sub(self.now))
    }

    pub(super) fn arrive(&mut self, id: u64, stalled: bool) -> Result<(), SimError> {
        let Some(exchange) = self.net.exchanges.get(&id) else { return Ok(()) };
        let (at, luck) = (exchange.endpoint, exchange.luck);
        if !stalled {
            match self.net.endpoints[at].choices.before(self.now, luck) {
                Before::Read => {}
                Before::Reset => {
                    self.finish(id, CutOr::Cut(CutKind::Reset));
                    let wire = self.wire();
                    self.later(wire, SimEvent::Heard(id, ExchangeEnd::Silent("connection reset")));
                    return Ok(());
                }
                Before::Wait(until) => {
                    let wait = until.saturating_sub(self.now);
                    self.later(wait, SimEvent::Arrive { exchange: id, stalled: true });
                    return Ok(());
                }
            }
        }
        let token = self.token(&self.net.exchanges[&id].row);
        let n = self.net.next_arrival;
        self.net.next_arrival += 1;
        self.net.came = self.now;
        let is_retry = self.net.exchanges[&id].number != 1;
        let many = self.given.options.weights.get(at).copied().unwrap_or(1);
        self.figures.arrival(at, self.now, is_retry, many);
        if self.given.options.keep == Keep::Trace {
            let arrival = self.arrival(id, n, token)?;
            self.write_record(Record::Arrival(arrival))?;
        }
        if let Some(exchange) = self.net.exchanges.get_mut(&id) {
            exchange.n = Some(n);
            if exchange.over {
                // The sender gave up while the request waited in the socket.
                self.finish(id, CutOr::Cut(CutKind::PeerGone));
                return Ok(());
            }
        }
        self.perform(id, token);
        Ok(())
    }

    fn perform(&mut self, id: u64, token: Option<u64>) {
        let exchange = &self.net.exchanges[&id];
        let (at, luck) = (exchange.endpoint, exchange.luck);
        let chosen = self.net.endpoints[at].choices.choose(self.now, luck, token);
        let chosen = chosen.map(|(place, behaviour)| (place, behaviour.clone()));
        if chosen.as_ref().is_some_and(|(_, behaviour)| matches!(behaviour.answer, Script::Blackhole)) {
            return;
        }
        let behaviour = chosen.as_ref().map(|(place, behaviour)| (*place, behaviour));
        let latency = self.net.endpoints[at].choices.latency(behaviour, luck, self.now);
        let begun = self.now.saturating_add(latency);
        let (last, what) = self.script(at, chosen, begun);
        self.later(latency.saturating_add(last), SimEvent::Finish(id, what));
    }

    fn script(&mut self, at: usize, chosen: Option<(usize, Behaviour)>, begun: u64) -> (u64, Final) {
        let whole = |reply: Reply| Final::Answer { reply, begun, whole: true };
        let Some((place, behaviour)) = chosen else { return (0, whole(no_content())) };
        match behaviour.answer {
            Script::Status(reply) => (reply.body.0.saturating_mul(SECOND) / BYTES_PER_SECOND, whole(reply)),
            Script::Enforce { limit, burst } => {
                match self.net.endpoints[at].choices.enforce(place, limit, burst, begun) {
                    Enforced::Inside => (0, whole(no_content())),
                    Enforced::Past { retry_after_s } => {
                        let retry_after = Some(RetryAfter::Seconds(retry_after_s));
                        (0, whole(Reply { status: 429, retry_after, ..no_content() }))
                    }
                }
            }
            Script::HugeAnswer { body } => {
                let read = body.0.min(BODY_READ);
                let reply = Reply { status: 200, body, ..no_content() };
                (
                    read.saturating_mul(SECOND) / BYTES_PER_SECOND,
                    Final::Answer { reply, begun, whole: body.0 <= BODY_READ },
                )
            }
            Script::Drip { pace } => {
                (pace.0.saturating_mul(DRIPS), whole(Reply { status: 200, ..no_content() }))
            }
            Script::HalfAnswer => (0, Final::Cut(CutKind::HalfAnswer, "the answer broke off")),
            Script::Close => (0, Final::Cut(CutKind::Close, "closed without an answer")),
            Script::Reset | Script::Refuse | Script::NoAccept | Script::ResetAfterRead => {
                (0, Final::Cut(CutKind::ResetAfterRead, "connection reset"))
            }
            Script::Stall | Script::Blackhole | Script::WrongCertificate(_) => (0, whole(no_content())),
        }
    }

    pub(super) fn finish_exchange(&mut self, id: u64, what: Final) -> Result<(), SimError> {
        let Some(exchange) = self.net.exchanges.get(&id).filter(|exchange| !exchange.closed) else {
            return Ok(());
        };
        let (at, n) = (exchange.endpoint, exchange.n.unwrap_or_default());
        let wire = self.wire();
        match what {
            Final::Cut(kind, why) => {
                self.finish(id, CutOr::Cut(kind));
                self.later(wire, SimEvent::Heard(id, ExchangeEnd::Silent(why)));
            }
            Final::Answer { reply, begun, whole } => {
                let unix_ns = EPOCH.0 + self.now;
                let rendered = render(&reply, unix_ns);
                let (status, retry_after) = (rendered.status, rendered.retry_after);
                if (200..300).contains(&status) {
                    self.figures.lanes[at].delivered += u64::from(whole);
                    let token = self.net.exchanges.get(&id).and_then(|exchange| self.token(&exchange.row));
                    if let Some(intended) = token.and_then(|token| self.intended(token)) {
                        self.figures.count_accepted(at, self.now, self.now.saturating_sub(intended));
                    }
                }
                if self.given.options.keep == Keep::Trace {
                    let retry_after = retry_after.as_deref().map(Text::from);
                    let answer = trace::Answer { t: begun, end: self.now, n, status, retry_after, whole };
                    self.write_record(Record::Answer(answer))?;
                }
                self.finish(id, CutOr::Nothing);
                let date = http_date(unix_ns / SECOND);
                self.later(wire, SimEvent::Heard(id, ExchangeEnd::Answered { status, retry_after, date }));
            }
        }
        Ok(())
    }

    /// Reports the end of an attempt to the sender, unless it has ended before.
    pub(super) fn report_end(&mut self, id: u64, heard: ExchangeEnd) -> Result<(), SimError> {
        let Some(exchange) = self.net.exchanges.get(&id).filter(|exchange| !exchange.over) else {
            return Ok(());
        };
        let (worker, generation) = (exchange.worker, exchange.generation);
        if self.is_frozen(worker, generation) {
            return self.stash_event(worker, generation, ProcessEvent::Heard(id, heard));
        }
        if self.slots[worker].generation != generation {
            return Ok(());
        }
        let (attempt, delivery) = (exchange.attempt, exchange.delivery);
        let (began, n, closed) = (exchange.began, exchange.n, exchange.closed);
        let (hash, received) = (exchange.row.body.hash(), exchange.row.received);
        let wall = self.wall_of(worker, self.now);
        let now = self.now;
        let Some(process) = self.slots[worker].process.as_mut() else { return Ok(()) };
        let (outcome, error) = translate(heard, wall);
        let recorded = outcome.recorded();
        let kind = recorded.map(|(kind, _)| kind);
        if kind != Some(AttemptOutcome::Delivered) {
            let is_answered = !matches!(kind, None | Some(AttemptOutcome::Silent));
            self.liveness.failed(exchange.endpoint, now, is_answered);
        }
        let record = recorded.map(|(kind, status)| command::Attempt {
            at: process.steady(began),
            latency: Nanos(now - began),
            outcome: kind,
            status,
            error: error.map(Into::into),
            body_hash: hash,
            received: Some(received),
            details: command::Details::default(),
        });
        let result = AttemptEnd { outcome, record };
        process.handle_event(now, Event::Ended { attempt, delivery, result });
        self.slots[worker].dirty = true;
        if !closed && n.is_some() {
            let how = self.walked_out(id);
            self.finish(id, CutOr::Cut(how));
        }
        if let Some(exchange) = self.net.exchanges.get_mut(&id) {
            exchange.over = true;
            if exchange.closed {
                self.net.exchanges.remove(&id);
            }
        }
        Ok(())
    }

    fn walked_out(&self, id: u64) -> CutKind {
        let exchange = &self.net.exchanges[&id];
        let at = &self.net.endpoints[exchange.endpoint];
        let black = at.behaviours.iter().any(|behaviour| {
            matches!(behaviour.answer, Script::Blackhole) && behaviour.covers(exchange.began)
        });
        if black { CutKind::Blackhole } else { CutKind::PeerGone }
    }

    pub(super) fn hang_up(&mut self, worker: usize, generation: u64) {
        let mine = |exchange: &&mut Exchange| exchange.worker == worker && exchange.generation == generation;
        let mut open = Vec::new();
        for (id, exchange) in &mut self.net.exchanges {
            if mine(&exchange) {
                exchange.over = true;
                open.push((*id, exchange.n.is_some(), exchange.closed));
            }
        }
        for (id, arrived, closed) in open {
            if arrived && !closed {
                self.finish(id, CutOr::Cut(CutKind::PeerGone));
            }
            // A request on its way may arrive, or may not: half of it was in no socket yet.
            let lost = !arrived && self.chance.below(2) == 0;
            if lost || arrived {
                self.net.exchanges.remove(&id);
            }
        }
    }

    fn finish(&mut self, id: u64, how: CutOr) {
        let now = self.now;
        let Some(exchange) = self.net.exchanges.get_mut(&id).filter(|exchange| !exchange.closed) else {
            return;
        };
        exchange.closed = true;
        let (n, at, over) = (exchange.n, exchange.endpoint, exchange.over);
        if over {
            self.net.exchanges.remove(&id);
        }
        if let CutOr::Cut(how) = how
            && self.given.options.keep == Keep::Trace
        {
            let endpoint = self.given.scenario.subscribers[at].name.as_str().into();
            self.defer_record(Record::Cut(Cut {
                t: now,
                endpoint,
                n,
                how,
                began: None,
                token: None,
                why: None,
            }));
        }
    }

    pub(super) fn cut_open(&mut self) {
        let open = self.net.exchanges.iter().filter(|(_, exchange)| !exchange.closed && exchange.n.is_some());
        let open: Vec<u64> = open.map(|(id, _)| *id).collect();
        open.into_iter().for_each(|id| self.finish(id, CutOr::Cut(CutKind::RunEnded)));
    }
}

enum CutOr {
    Cut(CutKind),
    Nothing,
}

const fn no_content() -> Reply {
    Reply { status: 204, retry_after: None, body: Size(0), location: None }
}
