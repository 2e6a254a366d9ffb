//! Reader threads with a bounded queue, so that slow queries delay no other work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::store::{Database, Reader, StoreError};

const READERS: usize = 4;
const WAITING_MAX: usize = 64;

/// As long as most queries may take.
const STOP_WITHIN: Duration = Duration::from_secs(5);

type Question = Box<dyn FnOnce(Result<&dyn Reader, StoreError>) + Send>;

/// Ends when stopped or dropped; queued queries are still answered.
#[derive(Debug)]
pub(super) struct Readers(Mutex<Option<Running>>);

#[derive(Debug)]
struct Running {
    questions: SyncSender<Question>,
    /// Disconnected once all threads have closed their connections.
    ended: Receiver<()>,
}

impl Readers {
    /// Each thread opens the database at its first query.
    pub(super) fn start(database: &Database) -> std::io::Result<Self> {
        let (questions, waiting) = sync_channel(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        let (end, ended) = channel();
        for number in 1..=READERS {
            let (waiting, database, end) = (Arc::clone(&waiting), database.clone(), end.clone());
            let named = thread::Builder::new().name(format!("reader-{number}"));
            named.spawn(move || answer(&waiting, database, end))?;
        }
        Ok(Self(Mutex::new(Some(Running { questions, ended }))))
    }

    /// Waits until queued queries are answered. False on timeout.
    pub(super) fn stop(&self) -> bool {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Running { questions, ended }) = running else { return true };
        drop(questions);
        ended.recv_timeout(STOP_WITHIN) == Err(RecvTimeoutError::Disconnected)
    }

    pub(super) async fn query<T, F>(&self, question: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let question: Question = Box::new(move |reader| {
            let _ = tell.send(reader.map(question));
        });
        let asked = match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(running) => running.questions.try_send(question),
            None => Err(TrySendError::Disconnected(question)),
        };
        match asked {
            Ok(()) => told.await.unwrap_or_else(|_| {
                let detail = "the question made its reader panic".to_owned();
                Err(StoreError::Broken { doing: "read", detail })
            }),
            Err(TrySendError::Full(_)) => Err(StoreError::Overloaded { waiting: WAITING_MAX }),
            Err(TrySendError::Disconnected(_)) => Err(StoreError::Stopped),
        }
    }
}

fn answer(waiting: &Mutex<Receiver<Question>>, database: Database, end: Sender<()>) {
    // Dropped after the connection, since it is declared before.
    let _end = end;
    let mut open = None;
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(question) = next else { return };
        let reader = match open.take() {
            Some(reader) => Ok(reader),
            None => database.parts().reader(),
        };
        // The panic has reported the defect. The old connection may be in any state.
        open = catch_unwind(AssertUnwindSafe(move || {
            question(reader.as_deref().map_err(Clone::clone));
            reader.ok()
        }))
        .unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::store::Durability;

    fn make(database: &Database) {
        drop(database.parts().writer(Durability::default(), 1).unwrap());
    }

    fn database() -> (tempfile::TempDir, Database) {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("sender.db").into();
        make(&database);
        (folder, database)
    }

    #[tokio::test]
    async fn a_query_beyond_a_full_queue_fails_and_later_ones_are_answered() {
        let (_folder, database) = database();
        let readers = Arc::new(Readers::start(&database).unwrap());
        let (begun, begins) = channel();
        let (go_on, goes_on) = channel::<()>();
        let goes_on = Arc::new(Mutex::new(goes_on));
        let ask = |begun: Option<std::sync::mpsc::Sender<()>>| {
            let (readers, goes_on) = (Arc::clone(&readers), Arc::clone(&goes_on));
            async move {
                readers
                    .query(move |_| {
                        let _ = begun.map(|begun| begun.send(()));
                        let _ = goes_on.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    })
                    .await
            }
        };
        let mut asked = tokio::task::JoinSet::new();
        for _ in 0..READERS {
            asked.spawn(ask(Some(begun.clone())));
        }
        let mut in_hand = 0;
        while in_hand < READERS {
            in_hand += begins.try_iter().count();
            tokio::task::yield_now().await;
        }
        for _ in 0..WAITING_MAX + READERS {
            asked.spawn(ask(None));
        }
        for _ in 0..READERS {
            let refused = asked.join_next().await.unwrap().unwrap();
            assert_eq!(refused, Err(StoreError::Overloaded { waiting: WAITING_MAX }));
        }
        drop(go_on);
        assert!(asked.join_all().await.iter().all(Result::is_ok));
        assert!(readers.query(|reader| reader.glance().is_ok()).await.unwrap());
    }

    #[tokio::test]
    async fn a_question_that_panics_costs_its_answer_and_no_thread() {
        let (_folder, database) = database();
        let readers = Readers::start(&database).unwrap();
        for _ in 0..2 * READERS {
            let answer = readers.query::<(), _>(|_| panic!("a defect")).await;
            assert!(matches!(answer, Err(StoreError::Broken { .. })), "{answer:?}");
        }
        assert!(readers.query(|reader| reader.glance().is_ok()).await.unwrap());
    }

    #[tokio::test]
    async fn a_stop_closes_the_connections_and_takes_no_more_questions() {
        let (folder, database) = database();
        let readers = Readers::start(&database).unwrap();
        assert!(readers.query(|reader| reader.glance().is_ok()).await.unwrap());
        assert!(readers.stop() && readers.stop());
        let files: Vec<_> = folder.path().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(files, ["sender.db"]);
        assert_eq!(readers.query(|_| ()).await, Err(StoreError::Stopped));
    }

    #[tokio::test]
    async fn a_database_that_is_not_there_yet_is_opened_later() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("sender.db").into();
        let readers = Readers::start(&database).unwrap();
        assert!(readers.query(|_| ()).await.is_err());
        make(&database);
        assert_eq!(readers.query(|_| ()).await, Ok(()));
    }
}
