//! Keeps the write-ahead log short. Its content moves to the file beside the commits, on a thread and a connection of
//! their own, so that no commit waits for it; only where that cannot keep up does a commit do what is left.
//!
//! As long as commits follow each other without a gap the log is never wholly moved, and so grows: the thread has
//! moved nearly all of it by the time that a commit has to end the matter, which is why that is quick.
//!
//! A checkpoint whose sync fails ends the process: see [`hookproof_failed_sync`]. One that cannot write is tried again, as SQLite does
//! not count as moved what it has not written.
//!
//! A program that reads the database for long keeps the log from beginning anew, and it grows by all that is written. That
//! is said, shown in [`LogSize`], and looked at each second, until the log can be cut. Who reads is blamed only if its content
//! could not be moved for that: a disk that can't keep up makes a long log too.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hookproof_failed_sync::{ends_the_process, move_log};
use rusqlite::hooks::Wal;
use rusqlite::{Connection, Result};

use super::failure::Doing;
use super::reserve::Reserve;
use crate::store::log_size::{LogSize, why_long};

/// Pages of log after which its content begins to move.
const PAGES_BEFORE: i32 = 1_000;

/// Pages of log at which a commit sees to it that the log begins anew: 64 MiB.
const PAGES_MAX: i32 = 16_384;

/// A log so long cannot be cut: somebody keeps reading. It is said from there on.
const PAGES_PINNED: u64 = LogSize::PINNED_BYTES / PAGE_BYTES;

/// How often to look whether a long log can be cut.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often to look otherwise, beside being asked.
const REST: Duration = Duration::from_secs(3_600);

/// What a page takes in the log.
const PAGE_BYTES: u64 = 4_096;

/// How many pages the log has. A negative number says that nobody knows.
fn note_pages(size: &LogSize, pages: i64) {
    if let Ok(pages) = u64::try_from(pages) {
        size.set_bytes(pages.saturating_mul(PAGE_BYTES));
    }
}

const MOVE: &str = "PRAGMA wal_checkpoint(PASSIVE)";
const CUT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Moves the log's content for one writer, for as long as it lives.
#[derive(Debug)]
pub(super) struct LogMover {
    asked: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    pub(super) size: LogSize,
}

impl LogMover {
    /// Watches the commits of `writer`; `beside` is another connection to its file.
    pub(super) fn start(
        writer: &mut Connection,
        beside: Connection,
        reserve: Arc<Reserve>,
    ) -> std::io::Result<Self> {
        // One at a time: whoever asks while it is at work has the next commit to ask again.
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

    /// Ends the thread. The writer must watch no more, or the thread waits for what it may still ask.
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

/// Has `ask` called after each commit that leaves more than `before` pages in the log. At `max`, or if there is nobody
/// to ask, the commit moves them itself.
fn watch(
    writer: &mut Connection,
    before: i32,
    max: i32,
    size: LogSize,
    ask: impl Fn() -> bool + Send + 'static,
) -> Result<()> {
    writer.wal_hook(Some(move |log: &mut Wal, pages: i32| {
        note_pages(&size, i64::from(pages));
        let asked = pages < before || ask();
        if pages >= max || !asked {
            // It may be that somebody else is at it, or that somebody still reads what is there: the next commit tries
            // again. A failed sync becomes the commit's own failure, at which the process ends.
            move_log(log)?;
        }
        Ok(())
    }))
}

fn run(beside: &Connection, asks: &Receiver<()>, size: &LogSize, reserve: &Reserve) {
    // Whether it was told that the log is long, and that somebody holds it up.
    let (mut failing, mut told) = (false, None);
    loop {
        let is_long = size.bytes() / PAGE_BYTES >= u64::from(PAGES_MAX.unsigned_abs());
        match asks.recv_timeout(if is_long { LOOK_EVERY } else { REST }) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // The file grows by what the log has of new pages.
        let moved = || ends_the_process(beside, move_or_cut(beside, size)).doing("move the log");
        match reserve.lend(moved) {
            Ok(()) => failing = false,
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(%error, "the store's log grows, since its content cannot be moved to the file");
            }
            Err(_) => {}
        }
        let is_pinned = size.bytes() / PAGE_BYTES >= PAGES_PINNED;
        let is_held = size.is_held();
        if is_pinned && (told.is_none() || (is_held && told == Some(false))) {
            tracing::error!(bytes = size.bytes(), "the store's log grows, since {}", why_long(is_held));
            told = Some(is_held);
        } else if told.is_some() && !is_pinned {
            tracing::info!(bytes = size.bytes(), "the store's log is short again");
            told = None;
        }
    }
}

/// Moves what may be moved; and where that was all of a long log, cuts it, unless somebody still reads it or writes.
fn move_or_cut(beside: &Connection, size: &LogSize) -> Result<()> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (is_busy, pages, moved): (bool, i64, i64) = beside.query_row(MOVE, [], read)?;
    note_pages(size, pages);
    // Of what was in the log at its beginning, this moves all that nobody still reads.
    // Where somebody else is at it, that is not known anew.
    let mut is_held = if is_busy { size.is_held() } else { moved < pages };
    if pages >= i64::from(PAGES_MAX) && moved >= pages {
        // If somebody else was faster, or writes, the log is as long as it was.
        let (is_busy, pages, _): (bool, i64, i64) = beside.query_row(CUT, [], read)?;
        if !is_busy {
            note_pages(size, pages);
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
    fn what_is_asked_for_is_moved_by_another_thread_which_ends_with_its_writer() {
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
    fn who_reads_is_blamed_for_what_it_holds_up_and_for_nothing_else() {
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
