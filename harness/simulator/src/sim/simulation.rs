//! A whole run. At each instant a process handles all its events before it decides.

use std::cell::Cell;
use std::ffi::OsStr;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use hookproof_judge::scenario::{Duration, Scenario};
use hookproof_judge::trace::{ProcessEvent as ProcessRecord, Record};
use hookproof_play::endpoint::Choices;
use hookproof_play::fault::timeline;
use hookproof_play::traffic::{Chance, Schedule, mix};
use hookproof_sender::delivery_ids::DeliveryIds;
use hookproof_sender::store::StoreError;
use hookproof_sender::store::command::Command;
use tempfile::TempDir;

use super::book::{Book, header};
use super::error::SimError;
use super::event::SimEvent;
use super::exchange::{Endpoint, Network};
use super::figures::Figures;
use super::heap::Heap;
use super::liveness::Liveness;
use super::offers::Play;
use super::options::{Model, Options, Simulated};
use super::process::{Birth, Process};
use super::progress::{Meter, idle_steps};
use super::setup::{declared, lease, permitted};
use super::subscribe::subscribe;
use super::world::{Errands, SimInputs, Troubles, WorkerSlot, World};

const PURPOSE_WORLD: u64 = 0x51;
const PURPOSE_SECRETS: u64 = 3;

/// A folder in memory, because the database of a simulated run is never kept.
const MEMORY: &str = "/dev/shm";

/// Includes the namespace of the process id, because containers may share the memory.
static OURS: LazyLock<String> = LazyLock::new(|| {
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let namespace: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("hookproof-sim-{}-{namespace}-", std::process::id())
});

/// A run has this many stretches for the figures of latency.
const STRETCHES: u64 = 360;

/// # Errors
/// Fails if the scenario cannot be scheduled or the store fails. Defects of the sender are in the trace
/// instead.
pub fn simulate(scenario: &Scenario, options: &Options) -> Result<Simulated, SimError> {
    let memory = Path::new(MEMORY);
    if memory.is_dir()
        && let Ok(folder) = folder_in(memory)
    {
        match play(scenario, options, folder) {
            // A container may have little memory. The same seed repeats the run on a disk.
            Err(SimError::Full { .. }) => {}
            result => return result,
        }
    }
    play(scenario, options, tempfile::tempdir().map_err(SimError::Folder)?)
}

/// Removes all folders in memory of this process, for a program that exits without dropping values.
pub fn remove_folders() {
    remove_folders_in(Path::new(MEMORY));
}

fn folder_in(memory: &Path) -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix(OURS.as_str()).tempdir_in(memory)
}

fn remove_folders_in(memory: &Path) {
    let Ok(entries) = std::fs::read_dir(memory) else { return };
    let ours = |name: &OsStr| name.as_encoded_bytes().starts_with(OURS.as_bytes());
    for entry in entries.filter_map(Result::ok).filter(|entry| ours(&entry.file_name())) {
        // The simulation still runs: it may write another file, or remove the folder itself.
        let _is_gone = (0..3).any(|_| std::fs::remove_dir_all(entry.path()).is_ok());
    }
}

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
    let mut meter = Meter::new(&options.progress);
    while !world.over {
        meter.record(world.figures.steps + idle_steps(scenario, world.now));
        if options.interrupt.load(Ordering::Relaxed) {
            return Err(SimError::Interrupted(Duration(world.now)));
        }
        let Some((at, event)) = world.heap.pop() else { break };
        world.now = at;
        world.happen(event)?;
        if world.heap.next_at().is_none_or(|next| next > at) {
            world.step_all()?;
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
        let model = options.model.unwrap_or(fitting);
        let slots = (0..scenario.sender.workers).map(|_| WorkerSlot::default()).collect();
        let header = header(scenario, &schedule, seed);
        let figures = Figures::new(
            scenario.subscribers.iter().map(|one| one.name.as_str()),
            schedule.lasts().saturating_add(scenario.drain.0) / STRETCHES,
        );
        Ok(World {
            given: SimInputs { scenario, options, model, seed, lease: lease(scenario)? },
            now: 0,
            heap: Heap::default(),
            chance: Chance::new(seed, PURPOSE_WORLD),
            slots,
            net: Network::default(),
            figures,
            play: Play::new(schedule, scenario),
            book: Book::new(header, options.keep)?,
            liveness: Liveness::of(scenario, lease(scenario)?, model.commit_ns.1, model.sample_ns),
            troubles: Troubles {
                steps: timeline(&scenario.faults),
                done: 0,
                clock_offset: 0,
                dead: Vec::new(),
                starting: 0,
                errands: Errands::default(),
                loses: Rc::new(Cell::new(options.loses)),
            },
            folder,
            ids: DeliveryIds::new(7),
            over: false,
        })
    }

    fn begin(&mut self) -> Result<(), SimError> {
        self.book.write_record(&Record::Declared(declared()))?;
        for permitted in permitted(self.given.scenario) {
            self.book.write_record(&Record::Permission(permitted))?;
        }
        let mut secrets = Chance::new(self.given.seed, PURPOSE_SECRETS);
        let birth = self.birth(0);
        let path = self.folder.path().join("sender.db");
        let mut first = Process::start(&Birth { path: &path, ..birth })?;
        for (number, subscriber) in (1_u64..).zip(&self.given.scenario.subscribers) {
            let bytes: Vec<u8> = (0..4).flat_map(|_| secrets.bits().to_le_bytes()).collect();
            let profile = subscriber.sign;
            let secret = profile.secret_of(&bytes);
            let command = Command::Subscribe(subscribe(subscriber, number, &secret)?);
            let lane = first.subscribe(command)?;
            let key = profile.key(&secret).map_err(|error| SimError::Defect(error.to_string()))?;
            self.net.endpoints.push(Endpoint {
                choices: Choices::new(
                    subscriber.behaviours.clone(),
                    subscriber.answers,
                    self.given.seed,
                    number - 1,
                ),
                behaviours: subscriber.behaviours.clone(),
                profile,
                secrets: vec![key],
                lane,
            });
        }
        drop(first);
        self.figures.traffic_end = self.play.schedule.lasts();
        let later = self.given.scenario.joining();
        (0..self.slots.len())
            .filter(|worker| !later.contains(worker))
            .try_for_each(|worker| self.start(worker))?;
        self.later(0, SimEvent::Sample);
        self.later(self.given.model.upkeep_ns, SimEvent::Upkeep);
        if let Some(due) = self.play.schedule.due().first() {
            self.later(due.at, SimEvent::Emit);
        }
        for place in 0..self.troubles.steps.len() {
            self.later(self.troubles.steps[place].0, SimEvent::Trouble(place));
        }
        Ok(())
    }

    fn birth(&self, worker: usize) -> Birth<'static> {
        let number = u64::try_from(worker).unwrap_or_default();
        let seed = mix(self.given.seed ^ mix(number << 32 | self.slots[worker].generation));
        let (at, wall, mutant) = (self.now, self.wall_of(worker, self.now), self.given.options.mutant);
        let loses = Rc::clone(&self.troubles.loses);
        let alone = self.slots.iter().all(|slot| slot.process.is_none());
        Birth {
            path: Path::new(""),
            at,
            wall,
            seed,
            dead: &[],
            lease: self.given.lease,
            mutant,
            loses,
            alone,
        }
    }

    pub(super) fn start(&mut self, worker: usize) -> Result<(), SimError> {
        if let Some(left) = self.parted_for(worker) {
            // The process starts once it reaches its store.
            self.troubles.starting += 1;
            self.later(left, SimEvent::Start(worker));
            return Ok(());
        }
        if self.now > 0 {
            self.liveness.disturb(self.now);
        }
        let birth = self.birth(worker);
        let path = self.folder.path().join("sender.db");
        let process = Process::start(&Birth { path: &path, dead: &self.troubles.dead, ..birth })?;
        self.process_record(worker, ProcessRecord::Started, None)?;
        self.process_record(worker, ProcessRecord::Ready, None)?;
        let slot = &mut self.slots[worker];
        slot.roster = Arc::clone(process.roster());
        (slot.process, slot.dirty, slot.wake_at) = (Some(process), true, 0);
        slot.stops.clear();
        Ok(())
    }

    fn happen(&mut self, event: SimEvent) -> Result<(), SimError> {
        match event {
            SimEvent::Emit => self.offer(),
            SimEvent::Arrive { exchange, stalled } => self.arrive(exchange, stalled),
            SimEvent::Finish(exchange, what) => self.finish_exchange(exchange, what),
            SimEvent::Heard(exchange, heard) => self.report_end(exchange, heard),
            SimEvent::LeaseOver(exchange) => self.lease_over(exchange),
            SimEvent::Process { worker, generation, event } => self.process(worker, generation, event),
            SimEvent::Trouble(place) => self.trouble(place),
            SimEvent::Start(worker) => {
                self.troubles.starting -= 1;
                self.start(worker)
            }
            SimEvent::StepClock(by) => {
                self.troubles.clock_offset = self.troubles.clock_offset.saturating_add(by);
                Ok(())
            }
            SimEvent::Sample => self.sample(),
            SimEvent::Upkeep => self.run_maintenance(),
        }?;
        self.run_errands()?;
        self.write_later()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_of_this_process_are_removed_and_no_others() {
        let memory = tempfile::tempdir().unwrap();
        let ours = folder_in(memory.path()).unwrap();
        std::fs::write(ours.path().join("sender.db"), "").unwrap();
        let others = memory.path().join("hookproof-sim-1-1-abcdef");
        std::fs::create_dir(&others).unwrap();
        remove_folders_in(memory.path());
        assert!(!ours.path().exists() && others.exists());
    }
}
