//! Keeps the write-ahead log short. A separate thread and connection move its content to the file, so that commits do
//! not wait.
//!
//! Under continuous commits the log is never completely moved, and grows, until a commit finishes the move. By then
//! the thread has done nearly all of it, so that is quick.
//!
//! - A failed sync ends the process: see [`hookproof_failed_sync`]. A failed write is retried, because SQLite counts
//!   only written pages as moved.
//! - A long read by another program prevents the log from starting again. The thread then logs it, shows it in
//!   [`LogSize`], and tries each second until it can truncate the log. It blames a reader only if that reader blocked
//!   the move: a slow disk makes a long log too.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hookproof_failed_sync::{ends_the_process, move_log};
use rusqlite::hooks::Wal;
use rusqlite::{Connection, Result};

use super::failure::Doing;
use super::reserve::Reserve;
use crate::log_size::{LogSize, why_long};

/// Pages in the log at which the thread starts to move.
const PAGES_BEFORE: i32 = 1_000;

/// Pages in the log at which a commit makes it start again: 64 MiB.
const PAGES_MAX: i32 = 16_384;

const PAGES_PINNED: u64 = LogSize::PINNED_BYTES / PAGE_BYTES;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often to look otherwise, besides requests.
const REST: Duration = Duration::from_secs(3_600);

const PAGE_BYTES: u64 = 4_096;

/// Notes the log's length. SQLite reports a negative number if it is unknown.
fn record_pages(size: &LogSize, pages: i64) {
    if let Ok(pages) = u64::try_from(pages) {
        size.set_bytes(pages.saturating_mul(PAGE_BYTES));
    }
}

const MOVE: &str = "PRAGMA wal_checkpoint(PASSIVE)";
const CUT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

#[derive(Debug)]
pub(super) struct LogMover {
    asked: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    pub(super) size: LogSize,
}

impl LogMover {
    /// Watches the commits of `writer`. `beside` is another connection to its file.
    pub(super) fn start(
        writer: &mut Connection,
        beside: Connection,
        reserve: Arc<Reserve>,
    ) -> std::io::Result<Self> {
        // One request at a time: if the thread is busy, the next commit asks again.
        let (asked, asks) = sync_channel(1);
        let size = LogSize::default();
        let found = size.clone();
        let thread = std::thread::Builder::new()
            .name("store-log".to_owned())
            .spawn(move || run(&beside, &asks, &found, &reserve))?;
        let ask = asked.clone();
        let watching = watch(writer, PAGES_BEFORE, PAGES_MAX, size.clone(), move || match ask.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => true,
            Err(TrySendError::Disconnected(())) => false,
        });
        watching.map_err(std::io::Error::other)?;
        Ok(Self { asked: Some(asked), thread: Some(thread), size })
    }

    /// Ends the thread. The writer's hook is removed first, because the thread runs while it can be asked.
    pub(super) fn stop(&mut self, writer: &mut Connection) {
        if let Err(error) = writer.wal_hook(None::<fn(&mut Wal, i32) -> Result<()>>) {
            tracing::warn!(%error, "the log's thread is left to itself");
            return;
        }
        self.asked = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the log's thread panicked");
        }
    }
}

/// Calls `ask` after each commit that leaves more than `before` pages in the log. At `max` pages, or if `ask` fails,
/// the commit moves them itself.
fn watch(
    writer: &mut Connection,
    before: i32,
    max: i32,
    size: LogSize,
    ask: impl Fn() -> bool + Send + 'static,
) -> Result<()> {
    writer.wal_hook(Some(move |log: &mut Wal, pages: i32| {
        record_pages(&size, i64::from(pages));
        let asked = pages < before || ask();
        if pages >= max || !asked {
            // Another process may be moving or reading; then the next commit tries again.
            move_log(log)?;
        }
        Ok(())
    }))
}

fn run(beside: &Connection, asks: &Receiver<()>, size: &LogSize, reserve: &Reserve) {
    let (mut failing, mut told) = (false, None);
    loop {
        let is_long = size.bytes() / PAGE_BYTES >= u64::from(PAGES_MAX.unsigned_abs());
        match asks.recv_timeout(if is_long { LOOK_EVERY } else { REST }) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let moved = || ends_the_process(beside, move_or_cut(beside, size)).doing("checkpoint the log");
        match reserve.lend(moved) {
            Ok(()) => failing = false,
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(%error, "the database's write-ahead log grows, since its checkpoint fails");
            }
            Err(_) => {}
        }
        let is_pinned = size.bytes() / PAGE_BYTES >= PAGES_PINNED;
        let is_held = size.is_held();
        if is_pinned && (told.is_none() || (is_held && told == Some(false))) {
            tracing::error!(
                bytes = size.bytes(),
                "the database's write-ahead log grows: {}",
                why_long(is_held)
            );
            told = Some(is_held);
        } else if told.is_some() && !is_pinned {
            tracing::info!(bytes = size.bytes(), "the database's write-ahead log is truncated again");
            told = None;
        }
    }
}

/// Moves pages. If that was all of a long log, truncates it, unless another program reads or writes.
fn move_or_cut(beside: &Connection, size: &LogSize) -> Result<()> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (is_busy, pages, moved): (bool, i64, i64) = beside.query_row(MOVE, [], read)?;
    record_pages(size, pages);
    // This moves all pages that no reader needs. If another process is moving, the last result stays.
    let mut is_held = if is_busy { size.is_held() } else { moved < pages };
    if pages >= i64::from(PAGES_MAX) && moved >= pages {
        // If another process was faster or writes, the log keeps its length.
        let (is_busy, pages, _): (bool, i64, i64) = beside.query_row(CUT, [], read)?;
        if !is_busy {
            record_pages(size, pages);
        }
        is_held |= is_busy && size.is_held();
    }
    size.set_held(is_held);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const PAGE: u64 = 4_096;
    /// Bytes of the log besides each page.
    const FRAME: u64 = 24;

    fn writer(path: &Path) -> Connection {
        let sql = Connection::open(path).unwrap();
        sql.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE x (bytes BLOB)")
            .unwrap();
        sql
    }

    fn commit(sql: &Connection) {
        sql.execute("INSERT INTO x VALUES (zeroblob(8000))", []).unwrap();
    }

    fn log_pages(path: &Path) -> u64 {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        std::fs::metadata(log).unwrap().len() / (PAGE + FRAME)
    }

    #[test]
    fn a_log_whose_mover_does_nothing_stays_bounded_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut sql = writer(&path);
        let asked = Arc::new(AtomicU32::new(0));
        let asks = Arc::clone(&asked);
        watch(&mut sql, 10, 100, LogSize::default(), move || asks.fetch_add(1, Ordering::Relaxed) < u32::MAX)
            .unwrap();
        (0..500).for_each(|_| commit(&sql));
        assert!(asked.load(Ordering::Relaxed) > 100);
        // A commit writes only a few pages.
        assert!((100..120).contains(&log_pages(&path)), "{} pages", log_pages(&path));
    }

    #[test]
    fn without_anybody_to_ask_every_commit_moves_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut sql = writer(&path);
        watch(&mut sql, 10, 1_000, LogSize::default(), || false).unwrap();
        (0..500).for_each(|_| commit(&sql));
        assert!(log_pages(&path) < 30, "{} pages", log_pages(&path));
    }

    #[test]
    fn a_requested_checkpoint_runs_on_a_thread_that_ends_with_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut sql = writer(&path);
        let mut mover = {
            let reserve = Arc::new(Reserve::beside(&path));
            LogMover::start(&mut sql, Connection::open(&path).unwrap(), reserve).unwrap()
        };
        (0..1_000).for_each(|_| commit(&sql));
        mover.stop(&mut sql);
        let pages = std::fs::metadata(&path).unwrap().len() / PAGE;
        assert!(pages > 300, "{pages} pages of the log have reached the file");
    }

    #[test]
    fn a_reader_is_blamed_only_for_a_checkpoint_that_it_holds_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let sql = writer(&path);
        let beside = Connection::open(&path).unwrap();
        let look = |size: &LogSize| {
            move_or_cut(&beside, size).unwrap();
            (size.bytes() / PAGE, size.is_held())
        };
        let size = LogSize::default();
        commit(&sql);
        assert!(!look(&size).1, "nobody reads");
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM x").unwrap();
        (0..6_000).for_each(|_| commit(&sql));
        let (pages, is_held) = look(&size);
        assert!(is_held && pages > 16_384, "{pages} pages");
        reader.execute_batch("COMMIT; BEGIN; SELECT count(*) FROM x").unwrap();
        // Everything can be moved now, but the log cannot be truncated.
        let (still, _) = look(&size);
        assert_eq!(still, pages, "a log that was not cut is as long as it was");
        reader.execute_batch("COMMIT").unwrap();
        assert_eq!(look(&size), (0, false));
    }
}
