use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookproof_receiver::clock::{Clock, Millis};
use hookproof_receiver::inbox::{
    Accepted, Arrival, Counting, Delivery, Effects, Failure, Inbox, OpenError, Options, Refused, RetryPolicy,
    Work,
};
use tempfile::TempDir;

struct Shelf {
    folder: TempDir,
    time: Arc<AtomicU64>,
}

impl Shelf {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), time: Arc::new(AtomicU64::new(1_700_000_000_000)) }
    }

    fn options(&self) -> Options {
        let retry =
            RetryPolicy { first: Duration::from_millis(1), attempts_max: 4, ..RetryPolicy::default() };
        Options { retry, ..Options::new(self.folder.path().join("inbox.db")) }
    }

    /// The clock advances by a millisecond at each reading, so that delays pass.
    fn clock(&self) -> Clock {
        let time = Arc::clone(&self.time);
        Clock::new(move || Millis(time.fetch_add(1, Ordering::Relaxed)))
    }

    fn pass(&self, length: Duration) {
        self.time.fetch_add(u64::try_from(length.as_millis()).unwrap(), Ordering::Relaxed);
    }

    fn open(&self, work: impl Work) -> Inbox {
        Inbox::open(self.options(), self.clock(), Arc::new(work)).unwrap()
    }

    fn effects(&self) -> Effects {
        Effects::open(&self.options().path).unwrap()
    }
}

fn accept(inbox: &Inbox, id: &str) -> Result<Accepted, Refused> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(inbox.accept(Arrival::new(id, id.to_owned())))
}

struct Unwilling {
    failures: AtomicUsize,
    panics: bool,
    told: Mutex<Sender<(String, u32)>>,
}

impl Unwilling {
    fn new(failures: usize, panics: bool) -> (Self, Receiver<(String, u32)>) {
        let (told, heard) = channel();
        (Self { failures: AtomicUsize::new(failures), panics, told: Mutex::new(told) }, heard)
    }
}

impl Work for Unwilling {
    fn run(&self, delivery: &Delivery) -> Result<(), Failure> {
        assert_eq!(delivery.body, delivery.id, "the body is the one that came");
        self.told.lock().unwrap().send((delivery.id.clone(), delivery.attempts)).unwrap();
        let fails = self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok();
        assert!(!(fails && self.panics), "the work panics, as it was told to");
        if fails { Err(Failure("not today".to_owned())) } else { Ok(()) }
    }
}

#[test]
fn work_that_fails_or_panics_is_tried_again() {
    for panics in [false, true] {
        let shelf = Shelf::new();
        let (work, heard) = Unwilling::new(2, panics);
        let inbox = shelf.open(work);
        assert_eq!(accept(&inbox, "a"), Ok(Accepted::New));
        let attempts: Vec<_> = heard.iter().take(3).collect();
        assert_eq!(attempts, [0, 1, 2].map(|number| ("a".to_owned(), number)));
        inbox.close();
        assert_eq!(shelf.effects().processed(10).unwrap(), ["a"]);
    }
}

#[test]
fn deliveries_from_a_clock_far_ahead_do_not_wait_for_it() {
    let shelf = Shelf::new();
    let (work, heard) = Unwilling::new(1, false);
    let year = Duration::from_secs(365 * 86_400);
    let ahead = RetryPolicy { first: Duration::from_secs(3_600), ..RetryPolicy::default() };
    shelf.pass(year);
    let options = Options { retry: ahead, ..shelf.options() };
    let inbox = Inbox::open(options, shelf.clock(), Arc::new(work)).unwrap();
    accept(&inbox, "a").unwrap();
    assert_eq!(heard.recv().unwrap(), ("a".to_owned(), 0));
    inbox.close();
    assert_eq!(shelf.effects().standing().unwrap().waiting, 1, "it failed, and is put off by an hour");
    shelf.time.fetch_sub(u64::try_from(year.as_millis()).unwrap(), Ordering::Relaxed);
    let (work, heard) = Unwilling::new(0, false);
    let inbox = shelf.open(work);
    assert_eq!(heard.recv().unwrap(), ("a".to_owned(), 1), "a year too late");
    inbox.close();
    assert_eq!(shelf.effects().processed(10).unwrap(), ["a"]);
}

#[test]
fn work_that_always_fails_is_given_up_and_holds_nobody_up() {
    let shelf = Shelf::new();
    let (work, heard) = Unwilling::new(4, false);
    let inbox = shelf.open(work);
    accept(&inbox, "bad").unwrap();
    assert_eq!(heard.iter().take(4).count(), 4);
    accept(&inbox, "good").unwrap();
    assert_eq!(heard.recv().unwrap().0, "good");
    inbox.close();
    let standing = shelf.effects().standing().unwrap();
    assert_eq!((standing.waiting, standing.given_up, standing.processed), (0, 1, 1));
    assert_eq!(shelf.effects().processed(10).unwrap(), ["good"]);
}

struct Recording {
    failures: AtomicUsize,
    told: Mutex<Sender<()>>,
}

impl Work for Recording {
    fn record(&self, transaction: &rusqlite::Transaction<'_>, delivery: &Delivery) -> rusqlite::Result<()> {
        transaction.execute_batch("CREATE TABLE IF NOT EXISTS mine (id TEXT)")?;
        transaction.execute("INSERT INTO mine VALUES (?1)", [&delivery.id])?;
        self.told.lock().unwrap().send(()).unwrap();
        let fails =
            self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if fails.is_ok() { Err(rusqlite::Error::InvalidQuery) } else { Ok(()) }
    }
}

#[test]
fn a_result_is_recorded_once_despite_failed_writes() {
    for failures in 1..=4 {
        let shelf = Shelf::new();
        let (told, heard) = channel();
        let work = Recording { failures: AtomicUsize::new(failures), told: Mutex::new(told) };
        let inbox = shelf.open(work);
        accept(&inbox, "a").unwrap();
        assert_eq!(heard.iter().take(failures + 1).count(), failures + 1);
        accept(&inbox, "b").unwrap();
        assert_eq!(heard.iter().take(1).count(), 1);
        inbox.close();
        let sql = rusqlite::Connection::open(shelf.options().path).unwrap();
        let recorded: Vec<String> = sql
            .prepare("SELECT id FROM mine ORDER BY id")
            .and_then(|mut ids| ids.query_map([], |row| row.get(0))?.collect())
            .unwrap();
        assert_eq!(recorded, ["a", "b"], "{failures} failures");
        assert_eq!(shelf.effects().processed(10).unwrap(), ["a", "b"]);
    }
}

struct HeldUp(Mutex<Receiver<()>>);

impl Work for HeldUp {
    fn run(&self, _: &Delivery) -> Result<(), Failure> {
        self.0.lock().unwrap().recv().map_err(|_| Failure("nobody lets it go on".to_owned()))
    }
}

#[test]
fn work_holds_no_arrival_up_and_a_full_inbox_refuses_what_is_new() {
    let shelf = Shelf::new();
    let (go_on, held) = channel();
    let options = Options { waiting_max: 2, ..shelf.options() };
    let inbox = Inbox::open(options, shelf.clock(), Arc::new(HeldUp(Mutex::new(held)))).unwrap();
    assert_eq!(accept(&inbox, "a"), Ok(Accepted::New));
    assert_eq!(accept(&inbox, "b"), Ok(Accepted::New));
    assert_eq!(accept(&inbox, "c"), Err(Refused::Full));
    assert_eq!(accept(&inbox, "a"), Ok(Accepted::Known));
    go_on.send(()).unwrap();
    go_on.send(()).unwrap();
    let c = std::iter::repeat_with(|| accept(&inbox, "c")).find(|answer| *answer != Err(Refused::Full));
    assert_eq!(c, Some(Ok(Accepted::New)));
    drop(go_on);
    inbox.close();
}

/// It starts on a signal, and reports the recorded results by then.
struct Slow {
    path: std::path::PathBuf,
    time: Arc<AtomicU64>,
    go_on: Mutex<Receiver<()>>,
    noted: Mutex<Sender<usize>>,
}

impl Work for Slow {
    fn run(&self, _: &Delivery) -> Result<(), Failure> {
        self.go_on.lock().unwrap().recv().map_err(|_| Failure("nobody lets it go on".to_owned()))?;
        let noted = Effects::open(&self.path).unwrap().processed(10).unwrap().len();
        self.noted.lock().unwrap().send(noted).unwrap();
        self.time.fetch_add(60, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn slow_work_is_noted_as_it_goes_on() {
    let shelf = Shelf::new();
    let ((go_on, held), (tell, noted)) = (channel(), channel());
    let (path, time) = (shelf.options().path, Arc::clone(&shelf.time));
    let inbox = shelf.open(Slow { path, time, go_on: Mutex::new(held), noted: Mutex::new(tell) });
    for id in ["a", "b", "c", "d", "e"] {
        accept(&inbox, id).unwrap();
    }
    for _ in 0..5 {
        go_on.send(()).unwrap();
    }
    let noted: Vec<_> = noted.iter().take(5).collect();
    // Two take longer than done work may stay unrecorded.
    assert!(noted.iter().enumerate().all(|(done, noted)| done <= noted + 1), "{noted:?}");
    inbox.close();
}

fn change(shelf: &Shelf, sql: &str) {
    rusqlite::Connection::open(shelf.options().path).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn a_delivery_that_cannot_be_read_is_given_up_and_holds_nobody_up() {
    for (table, damage) in [
        ("received", "id = CAST(x'ff' AS TEXT)"),
        ("received", "received_ms = -1"),
        ("received", "event = CAST(x'ff' AS TEXT)"),
        ("inbox_failed", "id = CAST(x'ff' AS TEXT)"),
        ("inbox_failed", "attempts = -1"),
    ] {
        let shelf = Shelf::new();
        shelf.open(Counting).close();
        change(
            &shelf,
            "INSERT INTO received (seq, id, received_ms, body) VALUES (1, 'bad', 1, x''), (2, 'good', 1, x'')",
        );
        if table == "inbox_failed" {
            let failed = "INSERT INTO inbox_failed
                 SELECT seq, id, received_ms, event, content_type, body, 1, 2, NULL, 'not today' FROM received WHERE seq = 1";
            change(&shelf, &format!("{failed}; DELETE FROM received WHERE seq = 1"));
        }
        change(&shelf, &format!("UPDATE {table} SET {damage} WHERE id = 'bad'"));
        let inbox = shelf.open(Counting);
        while shelf.effects().standing().unwrap().waiting > 0 {
            std::thread::yield_now();
        }
        assert!(inbox.works(), "{table}: {damage}");
        inbox.close();
        assert_eq!(shelf.effects().processed(10).unwrap(), ["good"], "{table}: {damage}");
        assert_eq!(shelf.effects().standing().unwrap().given_up, 1, "{table}: {damage}");
    }
}

#[test]
fn an_inbox_whose_worker_cannot_read_says_so_until_it_can() {
    let shelf = Shelf::new();
    let (go_on, held) = channel();
    let inbox = shelf.open(HeldUp(Mutex::new(held)));
    accept(&inbox, "a").unwrap();
    assert!(inbox.works());
    change(&shelf, "ALTER TABLE received RENAME TO elsewhere");
    go_on.send(()).unwrap();
    while inbox.works() {
        std::thread::yield_now();
    }
    change(&shelf, "ALTER TABLE elsewhere RENAME TO received");
    while !inbox.works() {
        std::thread::yield_now();
    }
    drop(go_on);
    inbox.close();
    assert!(!inbox.works());
}

#[test]
fn bytes_are_bounded_too() {
    let shelf = Shelf::new();
    let (_go_on, held) = channel::<()>();
    let options = Options { waiting_bytes_max: 10, ..shelf.options() };
    let inbox = Inbox::open(options, shelf.clock(), Arc::new(HeldUp(Mutex::new(held)))).unwrap();
    assert_eq!(accept(&inbox, "123456"), Ok(Accepted::New));
    assert_eq!(accept(&inbox, "12345"), Err(Refused::Full));
    assert_eq!(accept(&inbox, "1234"), Ok(Accepted::New));
    drop(_go_on);
    inbox.close();
}

#[test]
fn the_backlog_is_counted_again_at_the_next_start() {
    let shelf = Shelf::new();
    let (go_on, held) = channel::<()>();
    let inbox = shelf.open(HeldUp(Mutex::new(held)));
    accept(&inbox, "a").unwrap();
    drop(go_on);
    inbox.close();
    let (_go_on, held) = channel::<()>();
    let options = Options { waiting_max: shelf.effects().standing().unwrap().waiting, ..shelf.options() };
    assert_eq!(options.waiting_max, 1);
    let inbox = Inbox::open(options, shelf.clock(), Arc::new(HeldUp(Mutex::new(held)))).unwrap();
    assert_eq!(accept(&inbox, "b"), Err(Refused::Full));
    drop(_go_on);
    inbox.close();
}

#[test]
fn a_finished_delivery_is_forgotten_after_its_retention_and_not_before() {
    let shelf = Shelf::new();
    let keep = shelf.options().keep;
    let inbox = shelf.open(Counting);
    accept(&inbox, "a").unwrap();
    let effects = shelf.effects();
    while effects.standing().unwrap().waiting > 0 {
        std::thread::yield_now();
    }
    shelf.pass(keep - Duration::from_secs(60));
    assert_eq!(accept(&inbox, "a"), Ok(Accepted::Known));
    shelf.pass(Duration::from_secs(120));
    accept(&inbox, "b").unwrap();
    assert_eq!(accept(&inbox, "a"), Ok(Accepted::New), "it was forgotten with the commit before");
    inbox.close();
}

#[test]
fn a_closed_inbox_says_so() {
    let shelf = Shelf::new();
    let inbox = shelf.open(Counting);
    inbox.close();
    assert!(!inbox.is_open());
    assert_eq!(accept(&inbox, "a"), Err(Refused::Closed));
    shelf.open(Counting).close();
}

#[test]
fn an_inbox_of_another_version_is_refused_and_left_alone() {
    let shelf = Shelf::new();
    let path = shelf.options().path;
    for found in [0, 2] {
        shelf.open(Counting).close();
        let sql = rusqlite::Connection::open(&path).unwrap();
        sql.execute_batch(&format!("PRAGMA user_version = {found}")).unwrap();
        drop(sql);
        let before = std::fs::read(&path).unwrap();
        let refused = [
            Inbox::open(shelf.options(), shelf.clock(), Arc::new(Counting)).map(drop),
            Effects::open(&path).map(drop),
        ];
        let expected = format!(
            "{} has schema {found}; expected 1: use the version of the program that made it, or another file",
            path.display()
        );
        assert_eq!(refused.map(|refused| refused.unwrap_err().to_string()), [&*expected; 2]);
        assert_eq!(std::fs::read(&path).unwrap(), before);
        std::fs::remove_file(&path).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_file_with_two_names_is_one_file() {
    let shelf = Shelf::new();
    let inbox = shelf.open(Counting);
    let other = shelf.folder.path().join("other.db");
    std::os::unix::fs::symlink(shelf.options().path, &other).unwrap();
    let options = Options { path: other, ..shelf.options() };
    let second = Inbox::open(options, shelf.clock(), Arc::new(Counting));
    assert!(matches!(second, Err(OpenError::InUse { .. })), "{second:?}");
    inbox.close();
}

#[test]
fn a_delivery_of_two_workers_despite_the_lock_is_done_once() {
    let shelf = Shelf::new();
    let (go_on, held) = channel::<()>();
    let first = shelf.open(HeldUp(Mutex::new(held)));
    accept(&first, "a").unwrap();
    std::fs::remove_file(shelf.folder.path().join("inbox.db-lock")).unwrap();
    let second = shelf.open(Counting);
    while shelf.effects().standing().unwrap().waiting > 0 {
        std::thread::yield_now();
    }
    drop(go_on);
    first.close();
    second.close();
    assert_eq!(shelf.effects().processed(10).unwrap(), ["a"]);
}

#[cfg(unix)]
#[test]
fn nothing_is_acknowledged_into_a_file_that_is_gone_and_all_is_well_when_it_is_back() {
    let shelf = Shelf::new();
    let inbox = shelf.open(Counting);
    accept(&inbox, "a").unwrap();
    let (path, aside) = (shelf.options().path, shelf.folder.path().join("aside.db"));
    std::fs::rename(&path, &aside).unwrap();
    assert!(matches!(accept(&inbox, "b"), Err(Refused::Disk(_))));
    assert!(!inbox.is_open());
    std::fs::rename(&aside, &path).unwrap();
    while !inbox.is_open() {
        std::thread::yield_now();
    }
    assert_eq!(accept(&inbox, "b"), Ok(Accepted::New));
    assert_eq!(accept(&inbox, "a"), Ok(Accepted::Known));
    assert_eq!(accept(&inbox, "b"), Ok(Accepted::Known));
    inbox.close();
}
