//! Runs without a violation, written by hand. All times are in milliseconds since the run's start.

use hookproof_judge::check::{Judgement, Strictness, judge};
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{
    Cut, CutKind, Dead, Declared, Depth, Fault, Lack, Process, ProcessEvent, Retained, Trace, Verified,
};

use crate::build;

const MS: u64 = 1_000_000;
const END: u64 = 60_000;

pub(super) struct Run {
    pub(super) scenario: Scenario,
    pub(super) trace: Trace,
}

impl Run {
    /// An empty run with one subscriber `a`, which has this limit. `more` extends the scenario.
    pub(super) fn limited(limit: &str, more: &str) -> Self {
        let scenario = build::named(&format!("{}{more}\n", build::scenario(limit).text));
        let mut trace = build::trace(&scenario, &[]);
        build::end(&mut trace, END * MS);
        Self { scenario, trace }
    }

    pub(super) fn new(more: &str) -> Self {
        Self::limited("rate = \"10/s\", burst = 5", more)
    }

    /// An event for `a` is offered, and accepted at once.
    pub(super) fn event(&mut self, token: u64, t: u64) -> &mut Self {
        build::offer(&mut self.trace, token, t * MS, &["a"]);
        self
    }

    /// An event reaches `a`, which answers at once.
    pub(super) fn request(&mut self, token: u64, t: u64, status: u16) -> &mut Self {
        build::deliver(&mut self.trace, "a", token, t * MS, status);
        self
    }

    pub(super) fn delivery(&mut self, token: u64, t: u64) -> &mut Self {
        self.event(token, t).request(token, t + 10, 204)
    }

    pub(super) fn retry_after(&mut self, text: &str) -> &mut Self {
        self.trace.answers.last_mut().expect("a request").retry_after = Some(text.into());
        self
    }

    pub(super) fn answered(&mut self, n: usize, t: u64) -> &mut Self {
        (self.trace.answers[n].t, self.trace.answers[n].end) = (t * MS, t * MS);
        self
    }

    pub(super) fn cut(&mut self, t: u64, how: CutKind) -> &mut Self {
        let n = self.trace.answers.pop().map(|answer| answer.n);
        self.trace.cuts.push(Cut {
            t: t * MS,
            endpoint: "a".into(),
            n,
            how,
            began: None,
            token: None,
            why: None,
        });
        self
    }

    pub(super) fn moved(&mut self, n: usize, t: u64) -> &mut Self {
        let arrival = &mut self.trace.arrivals[n];
        (arrival.t, arrival.read) = (t * MS, t * MS);
        arrival.signed.timestamp = Some((t / 1_000).to_string().into());
        let answer = self.trace.answers.iter_mut().find(|answer| answer.n == arrival.n).expect("answered");
        (answer.t, answer.end) = (t * MS, t * MS);
        self
    }

    pub(super) fn stamped(&mut self, n: usize, second: u64) -> &mut Self {
        self.trace.arrivals[n].signed.timestamp = Some(second.to_string().into());
        self
    }

    pub(super) fn unsent(&mut self) -> &mut Self {
        self.trace.arrivals.pop();
        self.trace.answers.pop();
        self
    }

    /// Places of the subscriber's secrets.
    pub(super) fn signed(&mut self, n: usize, keys: &[usize]) -> &mut Self {
        self.trace.arrivals[n].signed.verified = Verified::Keys(keys.to_vec().into());
        self
    }

    pub(super) fn dead(&mut self, token: u64, t: u64, reason: &str) -> &mut Self {
        let (subscriber, reason) = ("a".to_owned(), reason.to_owned());
        self.trace.dead.push(Dead {
            t: t * MS,
            subscriber,
            token: Some(token),
            id: None,
            reason,
            attempts: None,
        });
        self
    }

    pub(super) fn waiting(&mut self, t: u64, waiting: u64) -> &mut Self {
        self.trace.depths.push(build::depth(t * MS, None, waiting));
        self
    }

    pub(super) fn resident(&mut self, t: u64, mebibytes: u64) -> &mut Self {
        let silent = Depth { waiting: None, ..build::depth(t * MS, None, 0) };
        self.trace.depths.push(Depth { resident_bytes: Some(mebibytes << 20), ..silent });
        self
    }

    pub(super) fn keeps(&mut self, t: u64, oldest: u64) -> &mut Self {
        let kept = Retained { listed: true, oldest_unix_ns: Some(oldest * MS), disk_bytes: None };
        self.trace.depths.push(Depth { t: t * MS, kept: Some(kept), ..Depth::default() });
        self
    }

    pub(super) fn fault(&mut self, t: u64, kind: FaultKind, until: u64) -> &mut Self {
        let until = (until > t).then_some(until * MS);
        self.trace.faults.push(Fault { t: t * MS, kind, until, detail: None, delay: None, plan: Some(0) });
        self
    }

    pub(super) fn process(&mut self, worker: u32, t: u64, event: ProcessEvent) -> &mut Self {
        let status = (event == ProcessEvent::Exited).then(|| "exit 0".to_owned());
        self.trace.processes.push(Process { t: t * MS, worker, event, status });
        self
    }

    pub(super) fn killed(&mut self, t: u64, ready: u64) -> &mut Self {
        use ProcessEvent::{Exited, Killed, Ready, Started};
        for (t, event) in
            [(0, Started), (0, Ready), (t, Killed), (t, Exited), (ready, Started), (ready, Ready)]
        {
            self.process(0, t, event);
        }
        self.fault(t, FaultKind::Kill, ready)
    }

    pub(super) fn mute(&mut self) -> &mut Self {
        self.trace.declared = Declared { lacks: vec![Lack::Depth], ..Declared::default() };
        self
    }

    pub(super) fn ends(&mut self, t: u64) -> &mut Self {
        build::end(&mut self.trace, t * MS);
        self
    }

    /// The judgement of all checks. A trace that its reader would refuse proves nothing.
    pub(super) fn judged(&mut self) -> Judgement {
        let t = self.trace.trailer.as_ref().map_or(0, |trailer| trailer.t);
        build::end(&mut self.trace, t);
        self.trace.settle().expect("a trace that doesn't contradict itself");
        judge(&self.scenario, &self.trace, Strictness::Strict)
    }
}

pub(super) fn calm(more: &str) -> Run {
    let mut run = Run::new(more);
    run.delivery(0, 1_000).delivery(1, 2_000).delivery(2, 3_000);
    run
}

/// A delivery fails at 1 s, and is taken half a second later.
pub(super) fn retried(more: &str) -> Run {
    let mut run = Run::new(&format!("{more}\n[[subscriber.behaviour]]\nanswer = 500\nattempts = \"1\""));
    run.event(0, 1_000).request(0, 1_010, 500).request(0, 1_510, 204);
    run
}

/// Events are offered at 5 s, and delivered as fast as 10/s and a burst of 5 allow.
pub(super) fn crowded(more: &str, events: u64) -> Run {
    let mut run = Run::new(more);
    for token in 0..events {
        let wait = (token + 1).saturating_sub(5) * 100;
        run.event(token, 5_000).request(token, 5_010 + wait, 204);
    }
    run
}

/// The sender reports no backlog, and the scenario allows one lost delivery: event 0 is open, and two others are
/// delivered after it.
pub(super) fn forgiving(more: &str) -> Run {
    let sender = "[sender]\ntakeover_within = \"5s\"\n[expect]\nlost = 1";
    let mut run = Run::new(&format!("{more}\n{sender}"));
    run.mute().delivery(1, 5_000).delivery(2, 20_000);
    run
}
