//! The writer's thread. Arrivals during a commit go into the next one, so that many share one wait for the disk.
//!
//! Results of work do not wait for the disk. The next commit of arrivals syncs them too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tracing::error;

use super::bell::Bell;
use super::file::OpenError;
use super::ledger::Ledger;
use super::queue::{Queue, Round};
use super::{Accepted, Refused};
use crate::clock::Clock;

pub(super) fn start(
    ledger: Ledger,
    queue: Arc<Queue>,
    clock: Clock,
    wake: Bell,
    writes: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, OpenError> {
    let failed =
        |error: std::io::Error| OpenError::Failed { path: "thread".into(), detail: error.to_string() };
    let thread = std::thread::Builder::new().name("inbox-writer".to_owned());
    thread.spawn(move || run(ledger, &queue, (&clock, &wake, &writes))).map_err(failed)
}

fn run(mut ledger: Ledger, queue: &Queue, (clock, wake, writes): (&Clock, &Bell, &AtomicBool)) {
    let _ended = Ended(queue);
    while let Some(round) = queue.next() {
        carry_out(&mut ledger, round, clock, wake, writes);
    }
}

/// Ends the waits of all callers, however the writer ends.
struct Ended<'a>(&'a Queue);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Arrivals first, since their senders wait.
fn carry_out(ledger: &mut Ledger, round: Round, clock: &Clock, wake: &Bell, writes: &AtomicBool) {
    if !round.replies.is_empty() {
        let accepted = record_commit(writes, ledger.accept_if_there(clock.now(), &round.arrivals));
        let answers = accepted.unwrap_or_else(|error| vec![Err(Refused::Disk(error)); round.replies.len()]);
        let is_new = answers.contains(&Ok(Accepted::New));
        // A caller that stopped waiting will retry.
        for ((reply, arrival), answer) in round.replies.into_iter().zip(round.arrivals).zip(answers) {
            let _ = reply.send((arrival, answer));
        }
        if is_new {
            wake.ring();
        }
    }
    if !round.settled.is_empty() {
        let is_noted = record_commit(writes, ledger.settle_if_there(clock.now(), &round.settlements)).is_ok();
        for reply in round.settled {
            let _ = reply.send(is_noted);
        }
    }
}

fn record_commit<T>(writes: &AtomicBool, committed: Result<T, String>) -> Result<T, String> {
    writes.store(committed.is_ok(), Ordering::Relaxed);
    committed.inspect_err(|error| error!(error, "cannot write the inbox"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Millis;
    use crate::inbox::file::{self, Durability, Watched};
    use crate::inbox::reader::{self, Due};
    use crate::inbox::settle::Settlement;
    use crate::inbox::{Arrival, Counting, Options, bell};

    #[test]
    fn arrivals_do_not_suffer_from_what_cannot_be_noted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inbox.db");
        let sql = file::writer(&path, Durability::Process).unwrap();
        let damaged = "INSERT INTO received VALUES (1, 'bad', 1, NULL, NULL, x'');
             CREATE TRIGGER damage BEFORE DELETE ON received BEGIN SELECT RAISE(ABORT, 'it is damaged'); END";
        sql.execute_batch(damaged).unwrap();
        let Ok([Due::Readable(bad)]) = <[_; 1]>::try_from(reader::due(&sql, Millis(1), 9, 9).unwrap()) else {
            panic!("it can be read");
        };
        let watched = Watched::new(&path).unwrap();
        let mut ledger = Ledger::new(sql, watched, &Options::new(&path), Arc::new(Counting)).unwrap();
        let queue = Queue::default();
        let answer = queue.accept(Arrival::new("good", "body")).unwrap();
        let noted = queue.settle(vec![Settlement::new(bad, Ok(()))]);
        let writes = AtomicBool::new(true);
        carry_out(&mut ledger, queue.next().unwrap(), &Clock::wall(), &bell::bell().0, &writes);
        assert_eq!(answer.blocking_recv().unwrap().1, Ok(Accepted::New));
        assert_eq!(noted.blocking_recv(), Ok(false));
        assert!(!writes.into_inner(), "it says that something is wrong");
    }
}
