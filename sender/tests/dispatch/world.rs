use std::sync::Arc;

use hookproof_sender::dispatch::{
    Answered, AttemptEnd, Dispatcher, Effect, Event, Failure, LEASE_DEFAULT, Moment, NewAttempt, News,
    Settings, Stuck, handover,
};
use hookproof_sender::engine::{Answer, LaneId, Limits, Nanos, Outcome, StoreTime};
use hookproof_sender::roster::{Roster, RosterKeeper};
use hookproof_sender::sign::Secret as RegionSecret;
use hookproof_sender::store::command::{Body, Change, Command, Emit, Persist, Subscribe, Target};
use hookproof_sender::store::lane::{Bounds, Counts, OwnerId, Secret, WhenFull};
use hookproof_sender::store::node::Announcement;
use hookproof_sender::store::read::Notices;
use hookproof_sender::store::sqlite::{Options, SqliteReader, SqliteStore};
use hookproof_sender::store::{Reader, Reply, Store};
use hookproof_sender::subscriber::RegionSecrets;
use tempfile::TempDir;

pub(crate) const BEGIN: StoreTime = StoreTime::from_secs(1_700_000_000);

pub(crate) type Fault = fn(&Command) -> bool;

pub(crate) struct World {
    pub(crate) dispatcher: Dispatcher,
    store: SqliteStore,
    pub(crate) now: StoreTime,
    pub(crate) fault: Option<Fault>,
    pub(crate) asked: Vec<&'static str>,
    pub(crate) sends: Vec<NewAttempt>,
    pub(crate) told: DispatcherNotices,
    pub(crate) answers: Answers,
    pub(crate) news: Vec<News>,
    pub(crate) reader: SqliteReader,
    keeper: RosterKeeper,
    nodes_seen: u64,
    folder: Arc<TempDir>,
    events: u64,
}

pub(crate) struct DispatcherNotices {
    pub(crate) withdrawn: Vec<LaneId>,
    pub(crate) forgotten: Vec<LaneId>,
    pub(crate) lease_until: StoreTime,
}

#[derive(Default)]
pub(crate) struct Answers {
    /// The store executes commands at once, and answers on request.
    pub(crate) are_late: bool,
    waiting: Vec<Answered>,
}

impl World {
    pub(crate) fn with(subscribers: u64) -> Self {
        Self::with_settings(subscribers, "{}")
    }

    pub(crate) fn with_settings(subscribers: u64, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sender.db");
        let mut store = SqliteStore::open(&path, &Options { create: true, ..Options::default() }).unwrap();
        let all: Vec<_> = (1..=subscribers).map(|number| subscribe(number, settings)).collect();
        store.commit(BEGIN, &all).unwrap();
        Self::on(Arc::new(folder), store, (1, LEASE_DEFAULT), announcement(1), BEGIN)
    }

    pub(crate) fn another(&self, owner: u64) -> Self {
        self.another_for(owner, LEASE_DEFAULT)
    }

    pub(crate) fn another_for(&self, owner: u64, lease: Nanos) -> Self {
        let store = SqliteStore::open(&self.folder.path().join("sender.db"), &Options::default()).unwrap();
        let folder = Arc::clone(&self.folder);
        let node = announcement(owner);
        let new = Self::on(folder, store, (owner, lease), node, self.now);
        Self { events: 1_000 * owner, ..new }
    }

    fn on(
        folder: Arc<TempDir>,
        store: SqliteStore,
        (owner, lease): (u64, Nanos),
        announcement: Announcement,
        now: StoreTime,
    ) -> Self {
        let reader = SqliteReader::open(&folder.path().join("sender.db")).unwrap();
        let mut keeper = RosterKeeper::new(RegionSecrets::default());
        keeper.catch_up(&reader, now).unwrap();
        let settings = Settings {
            owner: OwnerId(owner),
            announcement,
            lease,
            seed: 1,
            limits: Limits::default(),
            roster: Arc::clone(keeper.present()),
        };
        Self {
            dispatcher: Dispatcher::new(settings, now),
            store,
            now,
            fault: None,
            asked: Vec::new(),
            sends: Vec::new(),
            told: DispatcherNotices {
                withdrawn: Vec::new(),
                forgotten: Vec::new(),
                lease_until: StoreTime::START,
            },
            answers: Answers::default(),
            news: Vec::new(),
            reader,
            keeper,
            nodes_seen: 0,
            folder,
            events: 0,
        }
    }

    pub(crate) fn roster(&self) -> Arc<Roster> {
        Arc::clone(self.keeper.present())
    }

    pub(crate) fn operate(&mut self, command: Command) {
        self.commit(command);
        self.learn_of_subscribers();
    }

    pub(crate) fn learn_of_subscribers(&mut self) {
        let roster = self.keeper.catch_up(&self.reader, self.now).unwrap();
        let event = Event::Roster(Arc::clone(roster));
        self.handle(event);
    }

    pub(crate) fn know_region(&mut self) {
        let secret = RegionSecret::parse("the-secret-of-a-region").unwrap();
        self.keeper = RosterKeeper::new(RegionSecrets::default().with("eu".parse().unwrap(), secret));
    }

    pub(crate) fn need_region(&mut self, lane: LaneId) {
        let settings = Some(r#"{"shape":{"pseudonymise":["b"],"region":"eu"}}"#.into());
        self.operate(Command::Change(Change { settings, ..Change::of(lane) }));
    }

    pub(crate) fn lanes(&self) -> usize {
        self.dispatcher.views().len()
    }

    pub(crate) fn emit(&mut self, lanes: &[u64]) {
        let now = self.now;
        self.record(lanes, now);
        let work = lanes.iter().map(|lane| (LaneId(*lane), now)).collect();
        self.handle(Event::Work(work));
    }

    pub(crate) fn record(&mut self, lanes: &[u64], due: StoreTime) {
        self.record_body(lanes, due, b"1");
    }

    pub(crate) fn record_body(&mut self, lanes: &[u64], due: StoreTime, body: &[u8]) {
        self.events += 1;
        let now = self.now;
        let target = |lane: &u64| Target {
            lane: LaneId(*lane),
            body: 0,
            due,
            expires: StoreTime(now.0 + Nanos::DAY.0),
            dedupe: Nanos::ZERO,
            coalesce: None,
            signature: None,
        };
        self.commit(Command::Emit(Emit {
            roster: self.keeper.present().version(),
            id: format!("evt_{}", self.events).into(),
            id_is_new: false,
            kind: "a".into(),
            key: None,
            received: now,
            bodies: vec![Body { bytes: body.into() }],
            targets: lanes.iter().map(target).collect(),
            atomic: false,
            withheld: false,
            outbox: None,
            notifies: None,
        }));
    }

    pub(crate) fn commit(&mut self, command: Command) {
        let replies = self.store.commit(self.now, &[command]).unwrap();
        assert!(!matches!(replies[0], Reply::Refused(_)), "{replies:?}");
    }

    pub(crate) fn handle(&mut self, event: Event) {
        self.dispatcher.handle(self.now, event);
        self.settle_down();
    }

    pub(crate) fn pass(&mut self, length: Nanos) {
        let until = self.now + length;
        while self.dispatcher.next_wake() <= until {
            self.now = self.now.max(self.dispatcher.next_wake());
            self.handle(Event::Tick);
        }
        self.now = until;
        self.handle(Event::Tick);
    }

    pub(crate) fn answer(&mut self, status: u16) {
        self.end(status);
        self.settle_down();
    }

    /// As `answer`, without further effects.
    pub(crate) fn end(&mut self, status: u16) {
        for attempt in std::mem::take(&mut self.sends) {
            let answer = Answer { status, retry_after: None, date: None, at: self.now };
            let result = AttemptEnd { outcome: Outcome::Answered(answer), record: None };
            let delivery = attempt.row.delivery;
            self.dispatcher.handle(self.now, Event::Ended { attempt: attempt.attempt, delivery, result });
        }
    }

    pub(crate) fn deliver_answers(&mut self) {
        self.answers.are_late = false;
        self.settle_down();
    }

    /// In rounds, as the store commits: runs all commands, then answers all.
    fn settle_down(&mut self) {
        loop {
            while let Some(effect) = self.dispatcher.poll() {
                self.do_effect(effect);
            }
            if self.answers.are_late || (self.answers.waiting.is_empty() && !self.poll_nodes()) {
                return;
            }
            for answered in std::mem::take(&mut self.answers.waiting) {
                self.dispatcher.handle(self.now, Event::Answered(answered));
            }
        }
    }

    fn poll_nodes(&mut self) -> bool {
        let nodes = self.reader.glance().unwrap().nodes;
        let is_new = std::mem::replace(&mut self.nodes_seen, nodes) != nodes;
        if is_new {
            self.dispatcher.handle(self.now, Event::Nodes(self.reader.nodes().unwrap()));
        }
        is_new
    }

    fn do_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send(attempt) => self.sends.push(attempt),
            Effect::Withdraw { lane } => self.told.withdrawn.push(lane),
            Effect::Forget { lane } => self.told.forgotten.push(lane),
            Effect::Extend { until } => self.told.lease_until = until,
            Effect::Report(news) => self.news.push(news),
            Effect::Submit { order, command } => {
                let reply = self.carry_out(command);
                self.answers.waiting.push(Answered { order, reply, moment: Some(self.moment()) });
            }
            Effect::Persist { order, lane, term, record } => {
                let hand_back = record.is_final();
                let record = handover::seal(&record, Some(self.moment())).unwrap();
                let reply = self.carry_out(Command::Persist(Persist { lane, term, record, hand_back }));
                self.answers.waiting.push(Answered { order, reply, moment: None });
            }
        }
    }

    fn carry_out(&mut self, command: Command) -> Result<Reply, Failure> {
        self.asked.push(command.name());
        if self.fault.is_some_and(|fails| fails(&command)) {
            return Err(Failure::Lasting("damaged".into()));
        }
        let mut replies = self.store.commit(self.now, &[command]).unwrap();
        Ok(replies.remove(0))
    }

    fn moment(&self) -> Moment {
        Moment::at("virtual", Nanos(self.now.0))
    }

    pub(crate) fn counts(&self, lane: u64) -> Counts {
        let lanes = self.reader.lanes(None, 100).unwrap().items;
        lanes.into_iter().find(|status| status.lane == LaneId(lane)).unwrap().counts
    }

    pub(crate) fn stuck(&self) -> Vec<u64> {
        self.dispatcher.stuck().into_iter().map(|Stuck { lane, .. }| lane.0).collect()
    }

    pub(crate) fn sent_to(&self) -> Vec<u64> {
        self.sends.iter().map(|attempt| attempt.lane.0).collect()
    }
}

pub(crate) fn announcement(owner: u64) -> Announcement {
    Announcement {
        name: format!("node {owner}").into(),
        version: "1".into(),
        address: None,
        unable: Arc::default(),
        draining: false,
    }
}

fn subscribe(number: u64, settings: &str) -> Command {
    Command::Subscribe(Subscribe {
        id: format!("sub_{number}").into(),
        name: format!("partner {number}").into(),
        url: "https://partner.example".into(),
        patterns: r#"["*"]"#.into(),
        settings: settings.into(),
        bounds: Bounds { rows_max: 10_000, bytes_max: 1 << 20, when_full: WhenFull::Refuse },
        secret: Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    })
}
