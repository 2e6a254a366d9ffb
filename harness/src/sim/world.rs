//! The world: everything that happens, in its order. Of happenings at one instant the seed decides which comes first; a
//! process hears all that an instant brings it before it decides what to do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;
use std::sync::Arc;

use hookproof_sender::delivery_ids::DeliveryIds;
use hookproof_sender::engine::{AttemptId, DeliveryId, LaneId, WallTime};
use hookproof_sender::event::{Limits, Offer, PublicId};
use hookproof_sender::fanout::fan_out;
use hookproof_sender::roster::Roster;
use hookproof_sender::store::command::{self, Command, Purge, Sweep};
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::reply::{Claimed, ClaimedRow};
use ring::digest;
use tempfile::TempDir;

use super::figures::Figures;
use super::network::{Endpoint, Exchange, Final, Heard, profile};
use super::process::{Act, Answered, Birth, Process, Then};
use super::subscribe::subscribe;
use super::{EPOCH, Keep, Model, Options, SimError, Simulated};
use crate::endpoint::choice::Choices;
use crate::fault::{Step, timeline};
use crate::scenario::Scenario;
use crate::trace::{Accepted, ClockKind, FORMAT, Header, ProcessEvent, Record, Refused, Writer};
use crate::traffic::{Chance, Due, Schedule, Tokens, mix};
use crate::wire::digest::{base64, hex, sha256_hex};

/// What the seed's streams are for.
const PURPOSE_WORLD: u64 = 0x51;
const PURPOSE_SECRETS: u64 = 3;
/// Another process notices what was committed within so long.
const LOOK_NS: u64 = 4_000_000;
/// Commits that take longer than this gather events as well.
const GATHER_NS: u64 = 100_000_000;
/// The pause after a commit that failed.
const BLOCKED_NS: u64 = 100_000_000;
/// Rows that upkeep looks at in one step where little is kept.
const STEP_ROWS: u32 = 20_000;

/// Something that happens.
pub(super) enum Happening {
    Emit,
    Arrive { exchange: u64, stalled: bool },
    Finish(u64, Final),
    Heard(u64, Heard),
    Process { worker: usize, generation: u64, knock: Knock },
    Trouble(usize),
    Start(usize),
    StepClock(i64),
    Sample,
    Upkeep,
}

/// Something that a process hears.
pub(super) enum Knock {
    Wake,
    Committed,
    Claimed(Vec<Claimed>),
    Look,
    Evict,
    Heard(u64, Heard),
    Impossible { attempt: AttemptId, delivery: DeliveryId },
    Offered(Vec<usize>),
    Late,
}

/// A place for a process.
#[derive(Default)]
pub(super) struct Seat {
    pub(super) process: Option<Process>,
    pub(super) generation: u64,
    pub(super) frozen: bool,
    /// What came while it was frozen.
    pub(super) stash: Vec<Knock>,
    pub(super) dirty: bool,
    wake_at: u64,
    /// The subscribers as its last process knew them.
    pub(super) roster: Arc<Roster>,
    /// How long after its end it is started again.
    pub(super) again_after: u64,
}

/// What is offered, to whom, and how far that is.
pub(super) struct Play {
    pub(super) schedule: Schedule,
    pub(super) next: usize,
    /// Where the first event of each token is among those due.
    first: Vec<u32>,
    owed: Vec<Vec<String>>,
    pub(super) owed_lanes: Vec<Vec<usize>>,
    pub(super) tokens: Tokens,
    /// Events whose answer is owed.
    pub(super) open: usize,
}

/// What is written down.
pub(super) struct Book {
    writer: Option<Writer<Vec<u8>>>,
    digest: digest::Context,
    pub(super) later: Vec<Record>,
}

/// The faults, and what lasts of them.
pub(super) struct Troubles<'a> {
    pub(super) steps: Vec<(u64, Step<'a>)>,
    pub(super) done: usize,
    pub(super) clock_offset: i64,
    pub(super) blocked_until: u64,
    pub(super) dead: Vec<OwnerId>,
    /// Processes that are to be started.
    pub(super) starting: usize,
}

pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: &'a Options,
    pub(super) model: Model,
    pub(super) seed: u64,
    pub(super) now: u64,
    heap: Heap,
    pub(super) chance: Chance,
    pub(super) seats: Vec<Seat>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) exchanges: BTreeMap<u64, Exchange>,
    pub(super) next_exchange: u64,
    pub(super) next_arrival: u64,
    pub(super) figures: Figures,
    pub(super) play: Play,
    pub(super) book: Book,
    pub(super) troubles: Troubles<'a>,
    pub(super) folder: TempDir,
    pub(super) ids: DeliveryIds,
    pub(super) over: bool,
}

/// Happenings by time, then by chance.
#[derive(Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    what: BTreeMap<u64, Happening>,
    count: u64,
}

/// Simulates a scenario.
///
/// # Errors
/// When it can't be scheduled or the store fails: what the sender does wrong is in the trace, no error.
pub fn simulate(scenario: &Scenario, options: &Options) -> Result<Simulated, SimError> {
    let seed = options.seed.unwrap_or(scenario.seed);
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, seed, &options.folder)?;
    let mut world = World::new(scenario, options, seed, schedule)?;
    world.begin()?;
    while !world.over {
        let Some((at, happening)) = world.heap.pop() else { break };
        world.now = at;
        world.happen(happening)?;
        if world.heap.next_at().is_none_or(|next| next > at) {
            world.beat_all()?;
        }
    }
    world.close()
}

impl<'a> World<'a> {
    fn new(
        scenario: &'a Scenario,
        options: &'a Options,
        seed: u64,
        schedule: Schedule,
    ) -> Result<Self, SimError> {
        let fitting = Model::fitting(schedule.lasts().saturating_add(scenario.drain.0), schedule.due().len());
        let seats = (0..scenario.sender.workers).map(|_| Seat::default()).collect();
        let header = header(scenario, &schedule, seed);
        let figures = Figures::new(scenario.subscribers.iter().map(|one| one.name.as_str()));
        Ok(Self {
            scenario,
            options,
            model: options.model.unwrap_or(fitting),
            seed,
            now: 0,
            heap: Heap::default(),
            chance: Chance::new(seed, PURPOSE_WORLD),
            seats,
            endpoints: Vec::new(),
            exchanges: BTreeMap::new(),
            next_exchange: 0,
            next_arrival: 0,
            figures,
            play: Play::new(schedule, scenario),
            book: Book::new(header, options.keep)?,
            troubles: Troubles {
                steps: timeline(&scenario.faults),
                done: 0,
                clock_offset: 0,
                blocked_until: 0,
                dead: Vec::new(),
                starting: 0,
            },
            folder: folder()?,
            ids: DeliveryIds::new(7),
            over: false,
        })
    }

    /// Subscribes everybody, starts the processes, and has the first things happen.
    fn begin(&mut self) -> Result<(), SimError> {
        let mut secrets = Chance::new(self.seed, PURPOSE_SECRETS);
        let birth = self.birth(0);
        let path = self.folder.path().join("sender.db");
        let mut first = Process::start(&Birth { path: &path, ..birth })?;
        for (number, subscriber) in (1_u64..).zip(&self.scenario.subscribers) {
            let bytes: Vec<u8> = (0..4).flat_map(|_| secrets.bits().to_le_bytes()).collect();
            let secret = format!("whsec_{}", base64(&bytes));
            let command = Command::Subscribe(subscribe(subscriber, number, &secret)?);
            let lane = first.subscribe(command)?;
            let profile = profile(subscriber.sign)?;
            let secret = crate::wire::Secret::parse(profile, &secret)
                .map_err(|error| SimError::Defect(error.to_string()))?;
            self.endpoints.push(Endpoint {
                choices: Choices::new(
                    subscriber.behaviours.clone(),
                    subscriber.answers,
                    self.seed,
                    number - 1,
                ),
                behaviours: subscriber.behaviours.clone(),
                profile,
                secrets: vec![secret],
                timeout: subscriber.timeout.0,
                lane,
            });
        }
        drop(first);
        self.figures.traffic_end = self.play.schedule.lasts();
        (0..self.seats.len()).try_for_each(|worker| self.start(worker))?;
        self.later(0, Happening::Sample);
        self.later(self.model.upkeep_ns, Happening::Upkeep);
        if let Some(due) = self.play.schedule.due().first() {
            self.later(due.at, Happening::Emit);
        }
        for place in 0..self.troubles.steps.len() {
            self.later(self.troubles.steps[place].0, Happening::Trouble(place));
        }
        Ok(())
    }

    fn birth(&self, worker: usize) -> Birth<'static> {
        let number = u64::try_from(worker).unwrap_or_default();
        let seed = mix(self.seed ^ mix(number << 32 | self.seats[worker].generation));
        let (at, wall, mutant) = (self.now, self.wall(), self.options.mutant);
        Birth { path: Path::new(""), at, wall, seed, dead: &[], mutant }
    }

    /// Starts a process.
    pub(super) fn start(&mut self, worker: usize) -> Result<(), SimError> {
        let birth = self.birth(worker);
        let path = self.folder.path().join("sender.db");
        let process = Process::start(&Birth { path: &path, dead: &self.troubles.dead, ..birth })?;
        self.process_record(worker, ProcessEvent::Started, None)?;
        self.process_record(worker, ProcessEvent::Ready, None)?;
        let seat = &mut self.seats[worker];
        seat.roster = Arc::clone(process.roster());
        (seat.process, seat.dirty, seat.frozen, seat.wake_at) = (Some(process), true, false, 0);
        Ok(())
    }

    /// Something is to happen, so long from now.
    pub(super) fn later(&mut self, after: u64, what: Happening) {
        let tie = self.chance.bits();
        self.heap.push(self.now.saturating_add(after), tie, what);
    }

    pub(super) fn wire(&mut self) -> u64 {
        self.chance.between(self.model.wire_ns.0, self.model.wire_ns.1)
    }

    /// The wall clock as the sender reads it.
    pub(super) fn wall(&self) -> WallTime {
        self.wall_at(self.now)
    }

    pub(super) fn wall_at(&self, t: u64) -> WallTime {
        WallTime((EPOCH.0 + t).saturating_add_signed(self.troubles.clock_offset))
    }

    pub(super) fn token(&self, row: &ClaimedRow) -> Option<u64> {
        self.play.tokens.find(row.event.as_bytes())
    }

    pub(super) fn intended(&self, token: u64) -> Option<u64> {
        self.play.due_of(token).map(|due| due.at)
    }

    pub(super) fn endpoint_of(&self, lane: LaneId) -> Result<usize, SimError> {
        let place = self.endpoints.binary_search_by_key(&lane, |endpoint| endpoint.lane);
        place.map_err(|_| SimError::Defect(format!("lane {} has no endpoint", lane.0)))
    }

    pub(super) fn is_frozen(&self, worker: usize, generation: u64) -> bool {
        self.seats[worker].frozen && self.seats[worker].generation == generation
    }

    /// Something comes for a frozen process.
    pub(super) fn knock(&mut self, worker: usize, generation: u64, knock: Knock) -> Result<(), SimError> {
        if self.seats[worker].generation == generation {
            self.seats[worker].stash.push(knock);
        }
        Ok(())
    }

    fn happen(&mut self, happening: Happening) -> Result<(), SimError> {
        match happening {
            Happening::Emit => self.offer(),
            Happening::Arrive { exchange, stalled } => self.arrive(exchange, stalled),
            Happening::Finish(exchange, what) => self.finish_exchange(exchange, what),
            Happening::Heard(exchange, heard) => self.heard(exchange, heard),
            Happening::Process { worker, generation, knock } => self.process(worker, generation, knock),
            Happening::Trouble(place) => self.trouble(place),
            Happening::Start(worker) => {
                self.troubles.starting -= 1;
                self.start(worker)
            }
            Happening::StepClock(by) => {
                self.troubles.clock_offset += by;
                Ok(())
            }
            Happening::Sample => self.sample(),
            Happening::Upkeep => self.keep_up(),
        }?;
        self.write_later()
    }

    fn process(&mut self, worker: usize, generation: u64, knock: Knock) -> Result<(), SimError> {
        let seat = &mut self.seats[worker];
        if seat.generation != generation {
            return Ok(());
        }
        if seat.frozen {
            seat.stash.push(knock);
            return Ok(());
        }
        let Some(process) = seat.process.as_mut() else { return Ok(()) };
        seat.dirty = true;
        let now = self.now;
        match knock {
            Knock::Wake => {}
            Knock::Committed => return self.committed(worker),
            Knock::Claimed(claimed) => claimed.into_iter().for_each(|claimed| process.fill(claimed, now)),
            Knock::Look => {
                process.look(now)?;
                seat.roster = Arc::clone(process.roster());
            }
            Knock::Evict => process.evict(&self.troubles.dead)?,
            Knock::Heard(exchange, heard) => return self.heard(exchange, heard),
            Knock::Impossible { attempt, delivery } => {
                let record = impossible(process.steady(now));
                process.ended(now, attempt, delivery, hookproof_sender::engine::Outcome::Unsent, record);
            }
            Knock::Offered(places) => return self.hand_over(worker, &places),
            Knock::Late => return self.give_up_stopping(worker),
        }
        Ok(())
    }

    /// A commit is over, unless the store can't write now.
    fn committed(&mut self, worker: usize) -> Result<(), SimError> {
        if self.now < self.troubles.blocked_until {
            let pause = BLOCKED_NS.min(self.troubles.blocked_until - self.now);
            self.tell(worker, pause, Knock::Committed);
            return Ok(());
        }
        let mut acts = Vec::new();
        let now = self.now;
        let Some(process) = self.seats[worker].process.as_mut() else { return Ok(()) };
        let recorded = process.commit(now, &mut acts)?;
        self.figures.commits += 1;
        if recorded {
            (0..self.seats.len()).filter(|other| *other != worker).for_each(|other| {
                self.tell(other, LOOK_NS, Knock::Look);
            });
        }
        self.act(worker, acts)
    }

    /// A process hears something, so long from now.
    pub(super) fn tell(&mut self, worker: usize, after: u64, knock: Knock) {
        let generation = self.seats[worker].generation;
        self.later(after, Happening::Process { worker, generation, knock });
    }

    /// Every process to which something happened decides what to do.
    fn beat_all(&mut self) -> Result<(), SimError> {
        for worker in 0..self.seats.len() {
            if std::mem::take(&mut self.seats[worker].dirty) && !self.seats[worker].frozen {
                self.beat(worker)?;
            }
        }
        self.write_later()
    }

    fn beat(&mut self, worker: usize) -> Result<(), SimError> {
        let now = self.now;
        let Some(process) = self.seats[worker].process.as_mut() else { return Ok(()) };
        let mut acts = Vec::new();
        process.beat(now, &mut acts)?;
        let begins = process.begin_commit();
        let (wake, over) = (process.next_wake(), process.is_over());
        self.act(worker, acts)?;
        if begins {
            let (least, most) = self.model.commit_ns;
            let takes = self.chance.between(least, most);
            self.tell(worker, takes, Knock::Committed);
        }
        let known = self.seats[worker].wake_at;
        if wake != u64::MAX && (known <= now || wake < known) {
            // What is due already waits for something that is on its way; it is asked for again a little later.
            let after = wake.saturating_sub(now).max(1);
            self.seats[worker].wake_at = now + after;
            self.tell(worker, after, Knock::Wake);
        }
        if over { self.exit(worker) } else { Ok(()) }
    }

    fn act(&mut self, worker: usize, acts: Vec<Act>) -> Result<(), SimError> {
        for act in acts {
            match act {
                Act::Send { attempt, lane, row, number } => self.send(worker, attempt, lane, *row, number)?,
                Act::Impossible { attempt, delivery } => {
                    self.tell(worker, 1_000, Knock::Impossible { attempt, delivery });
                }
                Act::Claimed(claimed) => {
                    let after = self.wire();
                    self.tell(worker, after, Knock::Claimed(claimed));
                }
                Act::Emitted(answers) => self.answered(worker, answers)?,
                Act::Operated => {
                    (0..self.seats.len()).for_each(|other| self.tell(other, LOOK_NS, Knock::Look));
                }
            }
        }
        Ok(())
    }

    /// Offers what is due, and comes again for what follows.
    fn offer(&mut self) -> Result<(), SimError> {
        let from = self.play.next;
        let due = self.play.schedule.due();
        let count = due[from..].partition_point(|due| due.at <= self.now);
        let places: Vec<usize> = (from..from + count).collect();
        self.play.next += count;
        let gather = if self.model.commit_ns.0 >= GATHER_NS { self.model.commit_ns.0 / 2 } else { 0 };
        let next = due.get(self.play.next).map(|next| next.at.saturating_sub(self.now).max(gather));
        for place in &places {
            self.record_offer(*place)?;
        }
        if let Some(after) = next {
            self.later(after, Happening::Emit);
        }
        let takes = |seat: &Seat| seat.process.as_ref().is_some_and(|process| !process.stop.is_asked());
        match self.seats.iter().position(takes) {
            Some(worker) if self.seats[worker].frozen => {
                let generation = self.seats[worker].generation;
                self.play.open += places.len();
                self.knock(worker, generation, Knock::Offered(places))
            }
            Some(worker) => {
                self.play.open += places.len();
                self.hand_over(worker, &places)
            }
            None => {
                let tokens: Vec<u64> =
                    places.iter().map(|place| self.play.schedule.due()[*place].token).collect();
                tokens.into_iter().try_for_each(|token| self.refuse(token, None, false, "connection refused"))
            }
        }
    }

    fn record_offer(&mut self, place: usize) -> Result<(), SimError> {
        let due = self.play.schedule.due()[place];
        self.figures.offered += 1;
        for lane in &self.play.owed_lanes[due.kind as usize] {
            self.figures.lanes[*lane].owed += 1;
        }
        if self.options.keep == Keep::Figures {
            return Ok(());
        }
        self.keep(Record::Offer(crate::trace::Offer {
            t: self.now,
            intended: due.at,
            token: due.token,
            kind: self.play.schedule.kind(&due).to_owned(),
            key: self.play.schedule.key(&due).to_owned(),
            owed: self.play.owed[due.kind as usize].clone(),
        }))
    }

    /// The sender gets events.
    fn hand_over(&mut self, worker: usize, places: &[usize]) -> Result<(), SimError> {
        let now = self.now;
        let seat = &mut self.seats[worker];
        let Some(process) = seat.process.as_mut() else { return Ok(()) };
        seat.dirty = true;
        let (mut commands, mut tokens, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
        for place in places {
            let due = self.play.schedule.due()[*place];
            let emit = fan(&self.play, &due, process, now)?;
            tokens.push(due.token);
            lanes.push(emit.targets.iter().map(|target| target.lane).collect());
            commands.push(Command::Emit(emit));
        }
        process.submit(commands, Then::Emit { tokens, lanes });
        Ok(())
    }

    fn answered(&mut self, worker: usize, answers: Vec<(u64, Answered)>) -> Result<(), SimError> {
        for (token, answered) in answers {
            match answered {
                Answered::Accepted { matched, shed } => {
                    self.play.open -= 1;
                    self.figures.shed += shed;
                    let (t, status) = (self.now, 202);
                    self.keep(Record::Accepted(Accepted { t, token, status, matched: Some(matched) }))?;
                }
                Answered::Full => {
                    self.play.open -= 1;
                    self.refuse(token, Some(429), false, "a lane is full")?;
                }
                Answered::Stale => {
                    if let Some(place) = self.play.place_of(token) {
                        self.tell(worker, LOOK_NS + 1, Knock::Offered(vec![place]));
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn refuse(
        &mut self,
        token: u64,
        status: Option<u16>,
        unknown: bool,
        why: &str,
    ) -> Result<(), SimError> {
        self.figures.refused += 1;
        let retry_after = status.map(|_| "5".to_owned());
        let why = why.to_owned();
        self.keep(Record::Refused(Refused { t: self.now, token, status, retry_after, unknown, why }))
    }

    /// Gives up what has expired, deletes what was kept long enough: as every process does now and then.
    fn keep_up(&mut self) -> Result<(), SimError> {
        self.later(self.model.upkeep_ns, Happening::Upkeep);
        let now = self.now;
        let close = self.model.keep_ns >= Model::CLOSE.keep_ns;
        let max = if close { 500 } else { STEP_ROWS };
        for seat in &mut self.seats {
            let Some(process) = seat.process.as_mut().filter(|process| !process.stop.is_asked()) else {
                continue;
            };
            if seat.frozen {
                continue;
            }
            let steady = process.steady(now);
            let before = |kept: u64| WallTime(steady.0.saturating_sub(kept));
            let purge = Purge {
                settled_before: before(self.model.keep_ns),
                attempts_before: before(self.model.keep_ns.saturating_mul(if close { 7 } else { 1 })),
                dead_before: before(30 * Model::CLOSE.keep_ns),
                max,
            };
            process.submit(vec![Command::Sweep(Sweep { max })], Then::Nothing);
            process.submit(vec![Command::Purge(purge)], Then::Nothing);
            seat.dirty = true;
        }
        Ok(())
    }

    /// Writes a record down.
    pub(super) fn keep(&mut self, record: Record) -> Result<(), SimError> {
        self.book.keep(&record)
    }

    /// The same, for those who can't fail.
    pub(super) fn keep_later(&mut self, record: Record) {
        self.book.later.push(record);
    }

    pub(super) fn write_later(&mut self) -> Result<(), SimError> {
        let later = std::mem::take(&mut self.book.later);
        later.iter().try_for_each(|record| self.book.keep(record))
    }
}

/// What the sender makes of an event.
fn fan(play: &Play, due: &Due, process: &Process, now: u64) -> Result<command::Emit, SimError> {
    let data = play.schedule.data(due, play.tokens);
    let text = play.tokens.text(due.token);
    let (kind, key) = (play.schedule.kind(due), play.schedule.key(due));
    let defect = |why: String| SimError::Defect(format!("event {} is refused: {why}", due.token));
    let offer = Offer::from_parts(Some(&text), kind, Some(key), data.as_bytes(), &Limits::default())
        .map_err(|refusal| defect(refusal.to_string()))?;
    let id: PublicId = text.parse().map_err(|error| defect(format!("{error}")))?;
    let steady = process.steady(now);
    Ok(fan_out(process.roster(), &offer, &id, steady, steady))
}

fn impossible(at: WallTime) -> command::Attempt {
    command::Attempt {
        at,
        latency: hookproof_sender::engine::Nanos::ZERO,
        outcome: command::Outcome::Unsent,
        status: None,
        error: Some("the subscriber was removed".into()),
        body_hash: 0,
    }
}

impl Play {
    fn new(schedule: Schedule, scenario: &Scenario) -> Self {
        let tokens = schedule.due().iter().map(|due| due.token).max().map_or(0, |most| most + 1);
        let mut first = vec![u32::MAX; usize::try_from(tokens).unwrap_or_default()];
        for (place, due) in (0_u32..).zip(schedule.due()) {
            if let Some(slot) = usize::try_from(due.token).ok().and_then(|token| first.get_mut(token)) {
                *slot = place.min(*slot);
            }
        }
        let to = |kind: &str| {
            let all = scenario.subscribers.iter().enumerate();
            all.filter(|(_, one)| one.is_owed(kind)).map(|(at, _)| at).collect::<Vec<_>>()
        };
        let owed_lanes: Vec<Vec<usize>> = schedule.types().map(to).collect();
        let name = |at: &usize| scenario.subscribers[*at].name.clone();
        let owed = owed_lanes.iter().map(|lanes| lanes.iter().map(name).collect()).collect();
        Self { schedule, next: 0, first, owed, owed_lanes, tokens: Tokens::new(0x51), open: 0 }
    }

    fn place_of(&self, token: u64) -> Option<usize> {
        let place = *self.first.get(usize::try_from(token).ok()?)?;
        usize::try_from(place).ok().filter(|place| *place < self.schedule.due().len())
    }

    fn due_of(&self, token: u64) -> Option<&Due> {
        self.schedule.due().get(self.place_of(token)?)
    }
}

impl Book {
    fn new(header: Header, keep: Keep) -> Result<Self, SimError> {
        let mut digest = digest::Context::new(&digest::SHA256);
        digest.update(header.schedule_sha256.as_bytes());
        let writer = match keep {
            Keep::Trace => Some(Writer::new(Vec::new(), header).map_err(unwritten)?),
            Keep::Figures => None,
        };
        Ok(Self { writer, digest, later: Vec::new() })
    }

    fn keep(&mut self, record: &Record) -> Result<(), SimError> {
        match &mut self.writer {
            Some(writer) => writer.write(record).map_err(unwritten),
            None => Ok(()),
        }
    }

    /// Something happened that the trace would have said, had one been kept.
    pub(super) fn note(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.digest.update(&word.to_le_bytes()));
    }

    pub(super) fn finish(self, end: crate::trace::End) -> Result<(Vec<u8>, String), SimError> {
        match self.writer {
            Some(writer) => {
                let bytes = writer.finish(end).map_err(unwritten)?;
                let sha256 = sha256_hex(&bytes);
                Ok((bytes, sha256))
            }
            None => Ok((Vec::new(), hex(self.digest.finish().as_ref()))),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn unwritten(error: std::io::Error) -> SimError {
    SimError::Defect(format!("a record can't be written to memory: {error}"))
}

impl Heap {
    fn push(&mut self, at: u64, tie: u64, what: Happening) {
        self.heap.push(Reverse((at, tie, self.count)));
        self.what.insert(self.count, what);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<(u64, Happening)> {
        let Reverse((at, _, number)) = self.heap.pop()?;
        Some((at, self.what.remove(&number)?))
    }

    fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}

/// A folder in memory where there is one: the database of a simulated run outlives nothing.
fn folder() -> Result<TempDir, SimError> {
    let shared = Path::new("/dev/shm");
    let made = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).map_err(SimError::Folder)
}

fn header(scenario: &Scenario, schedule: &Schedule, seed: u64) -> Header {
    Header {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: scenario.name.clone(),
        scenario_sha256: sha256_hex(scenario.text.as_bytes()),
        schedule_sha256: schedule.sha256(),
        seed,
        driver: "sim".to_owned(),
        clock: ClockKind::Virtual,
        clock_resolution_ns: 1,
        began_unix_ns: EPOCH.0,
        scenario_toml: scenario.text.clone(),
    }
}
