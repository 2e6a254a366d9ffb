//! The world: everything that happens, in its order. Of happenings at one instant the seed decides which comes first; a
//! process hears all that an instant brings it before it decides what to do.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hookproof_sender::delivery_ids::DeliveryIds;
use hookproof_sender::engine::{AttemptId, DeliveryId, LaneId, Nanos, WallTime};
use hookproof_sender::roster::Roster;
use hookproof_sender::store::StoreError;
use hookproof_sender::store::command::Command;
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::reply::{Claimed, ClaimedRow};
use tempfile::TempDir;

use super::book::Book;
use super::errand::Errands;
use super::figures::Figures;
use super::heap::Heap;
use super::network::{Endpoint, Final, Heard, Network, profile};
use super::offer::Play;
use super::process::{Birth, Process};
use super::subscribe::subscribe;
use super::{EPOCH, Model, Options, SimError, Simulated};
use crate::endpoint::choice::Choices;
use crate::fault::{Step, timeline};
use crate::scenario::{Duration, Scenario};
use crate::trace::ProcessEvent;
use crate::traffic::{Chance, Schedule, mix};
use crate::wire::digest::base64;

/// What the seed's streams are for.
const PURPOSE_WORLD: u64 = 0x51;
const PURPOSE_SECRETS: u64 = 3;
/// Another process notices what was committed within so long.
pub(super) const LOOK_NS: u64 = 4_000_000;

/// A folder in memory, where there is one: the database of a simulated run outlives nothing.
const MEMORY: &str = "/dev/shm";

/// So many stretches of a run show how latency went.
const STRETCHES: u64 = 360;

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
    pub(super) wake_at: u64,
    /// The subscribers as its last process knew them.
    pub(super) roster: Arc<Roster>,
    /// How long after its end it is started again.
    pub(super) again_after: u64,
}

/// The faults, and what lasts of them.
pub(super) struct Troubles<'a> {
    pub(super) steps: Vec<(u64, Step<'a>)>,
    pub(super) done: usize,
    pub(super) clock_offset: i64,
    pub(super) blocked_until: u64,
    /// How long a try to write waits before it has failed.
    pub(super) patience: u64,
    pub(super) dead: Vec<OwnerId>,
    /// Processes that are to be started.
    pub(super) starting: usize,
    pub(super) errands: Errands<'a>,
}

/// What the run was given.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: &'a Options,
    pub(super) model: Model,
    pub(super) seed: u64,
    pub(super) lease: Nanos,
}

pub(super) struct World<'a> {
    pub(super) given: Given<'a>,
    pub(super) now: u64,
    heap: Heap,
    pub(super) chance: Chance,
    pub(super) seats: Vec<Seat>,
    pub(super) net: Network,
    pub(super) figures: Figures,
    pub(super) play: Play,
    pub(super) book: Book,
    pub(super) troubles: Troubles<'a>,
    pub(super) folder: TempDir,
    pub(super) ids: DeliveryIds,
    pub(super) over: bool,
}

/// Simulates a scenario.
///
/// # Errors
/// When it can't be scheduled or the store fails: what the sender does wrong is in the trace, no error.
pub fn simulate(scenario: &Scenario, options: &Options) -> Result<Simulated, SimError> {
    let memory = Path::new(MEMORY);
    if memory.is_dir()
        && let Ok(folder) = tempfile::tempdir_in(memory)
    {
        match play(scenario, options, folder) {
            // A container has little of it. The seed does the same again where there is more room.
            Err(SimError::Full { .. }) => {}
            result => return result,
        }
    }
    play(scenario, options, tempfile::tempdir().map_err(SimError::Folder)?)
}

/// Simulates a scenario with its database in a folder.
fn play(scenario: &Scenario, options: &Options, folder: TempDir) -> Result<Simulated, SimError> {
    let place = folder.path().parent().map(Path::to_owned).unwrap_or_default();
    pass(scenario, options, folder).map_err(|error| match error {
        SimError::Store { error: error @ StoreError::Full { .. }, .. } => {
            SimError::Full { folder: place, error }
        }
        other => other,
    })
}

fn pass(scenario: &Scenario, options: &Options, folder: TempDir) -> Result<Simulated, SimError> {
    let seed = options.seed.unwrap_or(scenario.seed);
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, seed, &options.folder)?;
    let schedule = match options.until {
        Some(until) => schedule.before(until),
        None => schedule,
    };
    let mut world = World::new(scenario, options, seed, schedule, folder)?;
    world.begin()?;
    while !world.over {
        if options.interrupt.load(Ordering::Relaxed) {
            return Err(SimError::Interrupted(Duration(world.now)));
        }
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
        folder: TempDir,
    ) -> Result<Self, SimError> {
        let fitting = Model::fitting(schedule.lasts().saturating_add(scenario.drain.0), schedule.due().len());
        let seats = (0..scenario.sender.workers).map(|_| Seat::default()).collect();
        let header = super::book::header(scenario, &schedule, seed);
        let figures = Figures::new(
            scenario.subscribers.iter().map(|one| one.name.as_str()),
            schedule.lasts().saturating_add(scenario.drain.0) / STRETCHES,
        );
        Ok(Self {
            given: Given {
                scenario,
                options,
                model: options.model.unwrap_or(fitting),
                seed,
                lease: super::setup::lease(scenario)?,
            },
            now: 0,
            heap: Heap::default(),
            chance: Chance::new(seed, PURPOSE_WORLD),
            seats,
            net: Network::default(),
            figures,
            play: Play::new(schedule, scenario),
            book: Book::new(header, options.keep)?,
            troubles: Troubles {
                steps: timeline(&scenario.faults),
                done: 0,
                clock_offset: 0,
                blocked_until: 0,
                patience: 0,
                dead: Vec::new(),
                starting: 0,
                errands: Errands::default(),
            },
            folder,
            ids: DeliveryIds::new(7),
            over: false,
        })
    }

    /// Subscribes everybody, starts the processes, and has the first things happen.
    fn begin(&mut self) -> Result<(), SimError> {
        let mut secrets = Chance::new(self.given.seed, PURPOSE_SECRETS);
        let birth = self.birth(0);
        let path = self.folder.path().join("sender.db");
        let mut first = Process::start(&Birth { path: &path, ..birth })?;
        for (number, subscriber) in (1_u64..).zip(&self.given.scenario.subscribers) {
            let bytes: Vec<u8> = (0..4).flat_map(|_| secrets.bits().to_le_bytes()).collect();
            let secret = format!("whsec_{}", base64(&bytes));
            let command = Command::Subscribe(subscribe(subscriber, number, &secret)?);
            let lane = first.subscribe(command)?;
            let profile = profile(subscriber.sign)?;
            let secret = crate::wire::Secret::parse(profile, &secret)
                .map_err(|error| SimError::Defect(error.to_string()))?;
            self.net.endpoints.push(Endpoint {
                choices: Choices::new(
                    subscriber.behaviours.clone(),
                    subscriber.answers,
                    self.given.seed,
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
        self.later(self.given.model.upkeep_ns, Happening::Upkeep);
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
        let seed = mix(self.given.seed ^ mix(number << 32 | self.seats[worker].generation));
        let (at, wall, mutant) = (self.now, self.wall(), self.given.options.mutant);
        Birth { path: Path::new(""), at, wall, seed, dead: &[], lease: self.given.lease, mutant }
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
        self.chance.between(self.given.model.wire_ns.0, self.given.model.wire_ns.1)
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
        let place = self.net.endpoints.binary_search_by_key(&lane, |endpoint| endpoint.lane);
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
        self.run_errands()?;
        self.write_later()
    }

    /// A process hears something, so long from now.
    pub(super) fn tell(&mut self, worker: usize, after: u64, knock: Knock) {
        let generation = self.seats[worker].generation;
        self.later(after, Happening::Process { worker, generation, knock });
    }
}
