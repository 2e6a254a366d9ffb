//! The writer's transactions, independent of threads and queues.

use std::sync::Arc;
use std::time::Duration;

use hookproof_failed_sync::ends_the_process;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::file::{Durability, Watched, write_nothing_new};
use super::ids::{self, Ids};
use super::settle::{CommitError, Guard, Notes, Settlement};
use super::work::{RetryPolicy, Work};
use super::{Accepted, Arrival, Options, Refused};
use crate::clock::Millis;

const SWEEP_EVERY: Duration = Duration::from_secs(30);
const SWEEP_ROWS_MAX: u32 = 2_000;

pub(super) struct Ledger {
    sql: Connection,
    watched: Watched,
    work: Arc<dyn Work>,
    retry: RetryPolicy,
    keep: Duration,
    waiting_max: Amount,
    /// Whether commits of arrivals wait for the disk, and the next commit does.
    durability: Durability,
    syncs: bool,
    ids: Ids,
    waiting: Amount,
    swept: Option<Millis>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    rows: u64,
    bytes: u64,
}

impl Amount {
    fn of(body: &[u8]) -> Self {
        Self { rows: 1, bytes: u64::try_from(body.len()).unwrap_or(u64::MAX) }
    }

    const fn add(self, other: Self) -> Self {
        Self { rows: self.rows.saturating_add(other.rows), bytes: self.bytes.saturating_add(other.bytes) }
    }

    const fn take(self, other: Self) -> Self {
        Self { rows: self.rows.saturating_sub(other.rows), bytes: self.bytes.saturating_sub(other.bytes) }
    }
}

impl Ledger {
    pub(super) fn new(
        sql: Connection,
        watched: Watched,
        options: &Options,
        work: Arc<dyn Work>,
    ) -> rusqlite::Result<Self> {
        let sum = "SELECT count(*), ifnull(sum(bytes), 0) FROM (SELECT length(body) AS bytes FROM received
             UNION ALL SELECT length(body) FROM inbox_failed WHERE due_ms IS NOT NULL)";
        let waiting = sql.query_row(sum, [], |row| Ok(Amount { rows: row.get(0)?, bytes: row.get(1)? }))?;
        let waiting_max = Amount { rows: options.waiting_max, bytes: options.waiting_bytes_max };
        let (retry, keep) = (options.retry, options.keep);
        let durability = options.durability;
        let syncs = durability == Durability::PowerLoss;
        let (ids, swept) = (Ids::default(), None);
        Ok(Self { sql, watched, work, retry, keep, waiting_max, durability, syncs, ids, waiting, swept })
    }

    /// [`Self::accept`], if the file is still there.
    pub(super) fn accept_if_there(
        &mut self,
        now: Millis,
        arrivals: &[Arrival],
    ) -> Result<Vec<Result<Accepted, Refused>>, String> {
        self.watched.is_there()?;
        self.accept(now, arrivals).map_err(|error| error.to_string())
    }

    pub(super) fn settle_if_there(&mut self, now: Millis, settlements: &[Settlement]) -> Result<(), String> {
        self.watched.is_there()?;
        self.settle(now, settlements).map_err(|error| error.to_string())
    }

    /// Its answers are durable.
    fn accept(
        &mut self,
        now: Millis,
        arrivals: &[Arrival],
    ) -> rusqlite::Result<Vec<Result<Accepted, Refused>>> {
        self.sync(true)?;
        let sweeping = self.is_time_to_sweep(now);
        let (mut ids, mut waiting) = (self.ids.take(), self.waiting);
        let transaction = self.sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
        ids.refresh(&transaction)?;
        let answers = take(&transaction, now, arrivals, &mut ids, (&mut waiting, self.waiting_max))?;
        let swept_all = !sweeping || sweep(&transaction, &mut ids, now.before(self.keep))?;
        let committed = transaction.commit();
        ends_the_process(&self.sql, committed)?;
        (self.ids, self.waiting) = (ids, waiting);
        if sweeping && swept_all {
            self.swept = Some(now);
        }
        Ok(answers)
    }

    /// Without results, it writes a page anyway, to test whether writing works.
    fn settle(&mut self, now: Millis, settlements: &[Settlement]) -> Result<(), CommitError> {
        // If a power cut loses results, the work is repeated.
        self.sync(settlements.is_empty())?;
        // Savepoints cost more than records, and few records fail.
        match self.try_settle(now, settlements, Guard::Transaction) {
            Err(CommitError::Spoilt) => self.try_settle(now, settlements, Guard::Savepoint),
            done => done,
        }
    }

    fn try_settle(
        &mut self,
        now: Millis,
        settlements: &[Settlement],
        guard: Guard,
    ) -> Result<(), CommitError> {
        let sweeping = self.is_time_to_sweep(now);
        let mut waiting = self.waiting;
        let transaction = self.sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let notes = Notes { transaction: &transaction, now, work: &*self.work, guard, retry: self.retry };
        for ended in notes.settle_all(settlements)? {
            waiting = waiting.take(Amount { rows: 1, bytes: ended.body_bytes });
        }
        if settlements.is_empty() {
            write_nothing_new(&transaction)?;
        }
        let mut ids = self.ids.take();
        ids.index_many(&transaction)?;
        let swept_all = !sweeping || sweep(&transaction, &mut ids, now.before(self.keep))?;
        let committed = transaction.commit();
        ends_the_process(&self.sql, committed)?;
        (self.ids, self.waiting) = (ids, waiting);
        if sweeping && swept_all {
            self.swept = Some(now);
        }
        Ok(())
    }

    fn sync(&mut self, syncs: bool) -> rusqlite::Result<()> {
        let syncs = syncs && self.durability == Durability::PowerLoss;
        if self.syncs != syncs {
            self.sql.execute_batch(if syncs {
                "PRAGMA synchronous = FULL"
            } else {
                "PRAGMA synchronous = NORMAL"
            })?;
            self.syncs = syncs;
        }
        Ok(())
    }

    fn is_time_to_sweep(&self, now: Millis) -> bool {
        self.swept.is_none_or(|swept| now < swept || now.since(swept) >= SWEEP_EVERY)
    }
}

fn take(
    transaction: &Transaction<'_>,
    now: Millis,
    arrivals: &[Arrival],
    ids: &mut Ids,
    (waiting, max): (&mut Amount, Amount),
) -> rusqlite::Result<Vec<Result<Accepted, Refused>>> {
    let mut index = ids::index(transaction)?;
    let insert = "INSERT INTO received (seq, id, received_ms, event, content_type, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut insert = transaction.prepare_cached(insert)?;
    let mut answers = Vec::with_capacity(arrivals.len());
    for Arrival { id, event, content_type, body, .. } in arrivals {
        let after = waiting.add(Amount::of(body));
        answers.push(if ids.know(id, &mut index)? {
            Ok(Accepted::Known)
        } else if after.rows > max.rows || after.bytes > max.bytes {
            Err(Refused::Full)
        } else {
            insert.execute(params![ids.add(id), id, now.0, event, content_type, &body[..]])?;
            *waiting = after;
            Ok(Accepted::New)
        });
    }
    Ok(answers)
}

/// Returns whether all that finished before `before` are deleted.
fn sweep(transaction: &Transaction<'_>, ids: &mut Ids, before: Millis) -> rusqlite::Result<bool> {
    // First, so that deleting ids from the index is enough.
    ids.index(transaction)?;
    let mut all = true;
    for (table, finished) in [("effects", "done_ms"), ("inbox_failed", "finished_ms")] {
        let old = format!("FROM {table} WHERE {finished} < ?1 ORDER BY {finished}, seq LIMIT ?2");
        let old_ids = format!("DELETE FROM inbox_ids WHERE id IN (SELECT id {old})");
        transaction.prepare_cached(&old_ids)?.execute(params![before.0, SWEEP_ROWS_MAX])?;
        let old_rows = format!("DELETE FROM {table} WHERE seq IN (SELECT seq {old})");
        let rows = transaction.prepare_cached(&old_rows)?.execute(params![before.0, SWEEP_ROWS_MAX])?;
        all &= rows < SWEEP_ROWS_MAX as usize;
    }
    // Later rows may reuse the numbers of deleted ones.
    ids::mark(transaction)?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::test_runner::{TestCaseResult, TestError, TestRunner};
    use tempfile::TempDir;

    use super::*;
    use crate::inbox::reader::{self, Due};
    use crate::inbox::work::{Counting, Failure};
    use crate::inbox::{Effects, file};

    const KEEP: Duration = Duration::from_secs(3_600);
    /// Small, so that histories reach the index.
    const RECENT_MAX: usize = 3;

    #[derive(Clone, Debug)]
    enum Step {
        /// Arrivals in one commit, which fails if true.
        Arrive(Vec<u8>, bool),
        /// Work on the first due deliveries.
        Work(Vec<Outcome>),
        /// Another receiver stores these despite the lock.
        Intrude(Vec<u8>),
        /// Seconds pass.
        Pass(u16),
        /// The process is killed and restarted.
        Kill,
    }

    #[derive(Clone, Copy, Debug)]
    enum Outcome {
        Done,
        Failed,
        GivenUp,
    }

    fn step() -> impl Strategy<Value = Step> {
        let ids = || vec(0..12_u8, 1..6);
        let outcome = prop_oneof![Just(Outcome::Done), Just(Outcome::Failed), Just(Outcome::GivenUp)];
        prop_oneof![
            6 => (ids(), prop::bool::weighted(0.1)).prop_map(|(ids, fails)| Step::Arrive(ids, fails)),
            4 => vec(outcome, 0..6).prop_map(Step::Work),
            1 => ids().prop_map(Step::Intrude),
            2 => (0..2_000_u16).prop_map(Step::Pass),
            2 => Just(Step::Kill),
        ]
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Bug {
        None,
        /// The index is recorded as complete when it is not.
        MarksTooMuch,
        /// Commits of other processes are ignored.
        LooksAtNothing,
        /// Ids of a failed commit stay in memory.
        KeepsWhatFailed,
    }

    struct World {
        folder: TempDir,
        ledger: Ledger,
        now: Millis,
        bug: Bug,
        waiting: BTreeSet<String>,
        finished: BTreeMap<String, Millis>,
    }

    fn open(path: &Path) -> Ledger {
        let retry = RetryPolicy { attempts_max: u32::MAX, ..RetryPolicy::default() };
        let options = Options { keep: KEEP, retry, ..Options::new(path) };
        let sql = file::writer(path, Durability::Process).unwrap();
        let watched = Watched::new(path).unwrap();
        let ledger = Ledger::new(sql, watched, &options, Arc::new(Counting)).unwrap();
        Ledger { ids: Ids::of(RECENT_MAX), ..ledger }
    }

    fn arrivals(ids: &[u8]) -> Vec<Arrival> {
        ids.iter().map(|id| Arrival::new(format!("id-{id}"), "body")).collect()
    }

    impl World {
        fn new(bug: Bug) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let ledger = open(&folder.path().join("inbox.db"));
            let now = Millis(1_700_000_000_000);
            let (waiting, finished) = (BTreeSet::new(), BTreeMap::new());
            Self { folder, ledger, now, bug, waiting, finished }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("inbox.db")
        }

        fn take(&mut self, step: Step) -> TestCaseResult {
            match step {
                Step::Arrive(ids, true) => self.fail(&arrivals(&ids)),
                Step::Arrive(ids, false) => {
                    if self.bug == Bug::LooksAtNothing && self.ledger.ids.version.is_some() {
                        self.ledger.ids.version = Some(version(&self.ledger.sql));
                    }
                    let arrivals = arrivals(&ids);
                    let answers = self.ledger.accept_if_there(self.now, &arrivals);
                    self.check(&arrivals, answers)?;
                }
                Step::Work(outcomes) => self.work(&outcomes),
                Step::Intrude(ids) => {
                    let arrivals = arrivals(&ids);
                    let answers = open(&self.path()).accept_if_there(self.now, &arrivals);
                    self.check(&arrivals, answers)?;
                }
                Step::Pass(seconds) => self.now = self.now.after(Duration::from_secs(seconds.into())),
                Step::Kill => self.kill(),
            }
            if self.bug == Bug::MarksTooMuch {
                mark(&self.ledger.sql);
            }
            self.check_what_is_due()
        }

        fn fail(&mut self, arrivals: &[Arrival]) {
            self.ledger.sql.commit_hook(Some(|| true)).unwrap();
            self.ledger.accept_if_there(self.now, arrivals).unwrap_err();
            self.ledger.sql.commit_hook(None::<fn() -> bool>).unwrap();
            if self.bug == Bug::KeepsWhatFailed {
                self.ledger.ids.version = Some(version(&self.ledger.sql));
                for arrival in arrivals {
                    self.ledger.ids.add(&arrival.id);
                }
            }
        }

        /// New unless in the backlog or finished recently.
        fn check(
            &mut self,
            arrivals: &[Arrival],
            answers: Result<Vec<Result<Accepted, Refused>>, String>,
        ) -> TestCaseResult {
            for (Arrival { id, .. }, answer) in arrivals.iter().zip(answers.map_err(TestCaseError::fail)?) {
                let is_old = self.finished.get(id).is_some_and(|at| self.now.since(*at) > KEEP);
                let is_known = self.waiting.contains(id) || self.finished.contains_key(id);
                let accepted = answer.map_err(|refused| TestCaseError::fail(refused.to_string()))?;
                let expected = if is_known { Accepted::Known } else { Accepted::New };
                // Sweeps are periodic, so old ids may still be known.
                prop_assert!(accepted == expected || is_old, "{id} is {accepted:?}");
                if accepted == Accepted::New {
                    self.finished.remove(id);
                    self.waiting.insert(id.clone());
                }
            }
            Ok(())
        }

        fn due(&self) -> Vec<crate::inbox::Delivery> {
            let later = self.now.after(Duration::from_secs(1_000_000));
            let due = reader::due(&self.ledger.sql, later, 100, 1_000).unwrap();
            let readable = due.into_iter().map(|due| match due {
                Due::Readable(delivery) => delivery,
                Due::Unreadable(unreadable) => panic!("{}", unreadable.why),
            });
            readable.collect()
        }

        fn work(&mut self, outcomes: &[Outcome]) {
            let mut settlements = Vec::new();
            for (delivery, outcome) in self.due().into_iter().zip(outcomes) {
                let id = delivery.id.clone();
                let done = match outcome {
                    Outcome::Done => Ok(()),
                    Outcome::Failed | Outcome::GivenUp => Err(Failure("as it was told".to_owned())),
                };
                let mut settlement = Settlement::new(delivery, done);
                settlement.is_final = matches!(outcome, Outcome::GivenUp);
                settlements.push(settlement);
                if !matches!(outcome, Outcome::Failed) {
                    self.waiting.remove(&id);
                    self.finished.insert(id, self.now);
                }
            }
            self.ledger.settle_if_there(self.now, &settlements).unwrap();
        }

        /// Puts back the files as they were before the inbox was closed, in their places.
        fn kill(&mut self) {
            let files = ["inbox.db", "inbox.db-wal"].map(|name| {
                let path = self.folder.path().join(name);
                (std::fs::read(&path).unwrap(), path)
            });
            self.ledger = open(&self.folder.path().join("meanwhile.db"));
            for (bytes, path) in files {
                std::fs::write(path, bytes).unwrap();
            }
            self.ledger = open(&self.path());
        }

        /// The worker finds each once, and each effect exists once.
        fn check_what_is_due(&self) -> TestCaseResult {
            let due: Vec<_> = self.due().into_iter().map(|delivery| delivery.id).collect();
            prop_assert_eq!(due.len(), self.waiting.len());
            prop_assert_eq!(&due.into_iter().collect::<BTreeSet<_>>(), &self.waiting);
            let standing = Effects::open(&self.path()).unwrap().standing().unwrap();
            prop_assert_eq!(standing.waiting, self.waiting.len() as u64);
            prop_assert!(standing.processed + standing.given_up <= self.finished.len() as u64);
            Ok(())
        }
    }

    fn version(sql: &Connection) -> i64 {
        sql.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap()
    }

    fn mark(sql: &Connection) {
        let all =
            "UPDATE inbox_indexed SET delivery = 1000000, effect = (SELECT ifnull(max(seq), 0) FROM effects)";
        sql.execute(all, []).unwrap();
    }

    fn histories(bug: Bug, cases: u32) -> Result<(), TestError<Vec<Step>>> {
        let config =
            ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 200, ..Default::default() };
        TestRunner::new(config).run(&vec(step(), 1..30), |steps| {
            let mut world = World::new(bug);
            steps.into_iter().try_for_each(|step| world.take(step))
        })
    }

    #[test]
    fn an_id_is_taken_once_for_as_long_as_it_is_remembered_whatever_happens() {
        histories(Bug::None, 100).unwrap();
    }

    /// Their ids are not in the index yet.
    #[test]
    fn rows_that_cannot_be_read_any_more_do_not_stop_what_comes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inbox.db");
        let now = Millis(1_700_000_000_000);
        let mut ledger = Ledger { ids: Ids::default(), ..open(&path) };
        let mut accept = |numbers: std::ops::Range<u32>, at: Millis| {
            let arrival = |number| Arrival::new(format!("id-{number:03}-"), vec![b'x'; 500]);
            let answers = ledger.accept_if_there(at, &numbers.map(arrival).collect::<Vec<_>>()).unwrap();
            let truncate = "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA shrink_memory";
            ledger.sql.execute_batch(truncate).unwrap();
            answers
        };
        // The first commit sweeps, which adds its ids to the index.
        assert_eq!(accept(0..1, now), [Ok(Accepted::New)]);
        assert!(accept(1..100, now).iter().all(|answer| *answer == Ok(Accepted::New)));
        let bytes = std::fs::read(&path).unwrap();
        let row = bytes.windows(7).position(|window| window == b"id-050-").unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0xff], row as u64 / 4_096 * 4_096).unwrap();
        for sweeps in 1..=3 {
            let answers = accept(0..101, now.after(SWEEP_EVERY * sweeps));
            let (newest, others) = answers.split_last().unwrap();
            assert!(others.iter().all(|answer| *answer == Ok(Accepted::Known)));
            assert_eq!(*newest == Ok(Accepted::New), sweeps == 1);
        }
    }

    #[test]
    fn an_inbox_that_forgets_ids_or_makes_them_up_is_found_out() {
        for bug in [Bug::MarksTooMuch, Bug::LooksAtNothing, Bug::KeepsWhatFailed] {
            let found = histories(bug, 1_000);
            assert!(matches!(found, Err(TestError::Fail(..))), "{bug:?}: {found:?}");
        }
    }
}
