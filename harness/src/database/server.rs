//! A private PostgreSQL server, kept by a shell script that carries out orders from its standard input and ends with it. So the
//! server ends with the harness, however that ends: nobody else holds the other end.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use super::DatabaseError;
use super::link::Link;
use hookproof_judge::scenario::Durability;

const SCRIPT: &str = include_str!("server.sh");
/// How the script ends where PostgreSQL's programs are not there.
const NO_PROGRAMS: i32 = 3;
/// How long a server may take to do as it is told.
const WITHIN: Duration = Duration::from_secs(60);
/// What is kept of its log.
const LOG_BYTES_MAX: usize = 32 << 20;
/// Lines of its log that nobody has looked at yet; what finds no room is only in the file.
const UNREAD_MAX: usize = 1_024;

/// A server. It ends when this is dropped, or with the harness.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    log: PathBuf,
    orders: Mutex<Orders>,
}

/// Whoever tells the server something has all of it until it is done.
#[derive(Debug)]
struct Orders {
    to: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    log: mpsc::Receiver<String>,
    state: State,
    /// It ends with its input.
    keeper: Child,
}

/// What is to be expected of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was started, so it is there, unless it ended by itself.
    Runs,
    /// It is stopped, or was not started yet.
    Stopped,
    /// It did not do as it was told.
    Lost,
}

impl Server {
    /// Starts one with an empty database, and waits until it answers. What it says goes into `log`.
    pub(super) async fn start(durability: Durability, log: &Path) -> Result<Self, DatabaseError> {
        let (path, kept) = (log.to_owned(), tokio::fs::File::create(log).await?);
        // A process that was killed has written what it acknowledged, if not yet to the disk.
        let fsync = if durability == Durability::PowerLoss { "on" } else { "off" };
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, SCRIPT, fsync]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = command.spawn()?;
        let pipes = (keeper.stdin.take(), keeper.stdout.take(), keeper.stderr.take());
        let (Some(to), Some(answers), Some(said)) = pipes else {
            return Err(DatabaseError::Server("its pipes are gone".to_owned()));
        };
        let (tell, log) = mpsc::channel(UNREAD_MAX);
        tokio::spawn(keep(said, kept, tell));
        let answers = BufReader::new(answers).lines();
        let mut orders = Orders { to, answers, log, state: State::Stopped, keeper };
        let Some(folder) = orders.answer().await? else {
            return Err(orders.end().await);
        };
        orders.begin().await?;
        Ok(Self { folder: folder.into(), log: path, orders: Mutex::new(orders) })
    }

    /// The address of its one database.
    pub(super) fn address(&self) -> String {
        address_in(&self.folder)
    }

    /// A way to it for a process of its own; the folder of that goes with the server's.
    ///
    /// # Errors
    /// When there can't be such a folder, or nobody can listen there.
    pub fn link(&self, number: usize) -> io::Result<Link> {
        Link::open(self.folder.join(format!("link-{number}")), &self.folder)
    }

    /// Ends it, and waits until it is gone.
    ///
    /// # Errors
    /// When it was gone before and nobody had stopped it, or it did not do as it was told.
    pub(super) async fn close(self) -> Result<(), DatabaseError> {
        let is_there = self.is_there().await;
        let Orders { to, state, mut keeper, .. } = self.orders.into_inner();
        drop(to);
        // It ends in any case; how, its log says.
        let _ended = timeout(WITHIN, keeper.wait()).await;
        match state {
            State::Runs if !is_there => Err(DatabaseError::Ended(self.log)),
            State::Lost => Err(DatabaseError::Lost(self.log)),
            State::Runs | State::Stopped => Ok(()),
        }
    }

    /// Whether anybody listens where it is reached.
    async fn is_there(&self) -> bool {
        UnixStream::connect(super::link::socket(&self.folder)).await.is_ok()
    }

    /// Stops it at once, as a crash would, and waits until it is gone.
    ///
    /// # Errors
    /// When it is not there to be stopped, or its keeper is gone or doesn't answer.
    pub async fn stop(&self) -> Result<(), DatabaseError> {
        let mut orders = self.orders.lock().await;
        match orders.state {
            State::Runs if self.is_there().await => {}
            // Started again, it would be as if it had never ended by itself.
            State::Runs => return Err(DatabaseError::Ended(self.log.clone())),
            State::Stopped => return Err(DatabaseError::Stopped),
            State::Lost => return Err(DatabaseError::Lost(self.log.clone())),
        }
        // Whoever breaks this off has wanted it to be stopped.
        orders.state = State::Stopped;
        orders.stop().await.inspect_err(|_| orders.state = State::Lost)
    }

    /// Starts it again, and waits until it answers.
    ///
    /// # Errors
    /// When it doesn't.
    pub async fn begin(&self) -> Result<(), DatabaseError> {
        let mut orders = self.orders.lock().await;
        orders.begin().await.inspect_err(|_| orders.state = State::Lost)
    }
}

/// The address of the one database of a server that listens in a folder.
pub(super) fn address_in(folder: &Path) -> String {
    let host = folder.display().to_string().replace('/', "%2F");
    format!("postgres://hookproof@{host}/postgres")
}

impl Orders {
    async fn give(&mut self, order: &str) -> Result<(), DatabaseError> {
        // What was said until now is no answer to it.
        while self.log.try_recv().is_ok() {}
        self.to.write_all(format!("{order}\n").as_bytes()).await?;
        Ok(self.to.flush().await?)
    }

    /// The keeper's next line; nothing if it has ended.
    async fn answer(&mut self) -> Result<Option<String>, DatabaseError> {
        let line = timeout(WITHIN, self.answers.next_line()).await;
        line.map_err(|_| DatabaseError::Server(format!("nothing was heard of it for {WITHIN:?}")))?
            .map_err(DatabaseError::Io)
    }

    async fn stop(&mut self) -> Result<(), DatabaseError> {
        self.give("stop").await?;
        match self.answer().await? {
            Some(_) => Ok(()),
            None => Err(self.end().await),
        }
    }

    async fn begin(&mut self) -> Result<(), DatabaseError> {
        self.give("start").await?;
        let ready = async {
            while let Some(line) = self.log.recv().await {
                if line.contains("is ready to accept connections") {
                    self.state = State::Runs;
                    return Ok(());
                }
                if line.contains("FATAL:") && !line.contains("the database system is") {
                    return Err(DatabaseError::Server(line));
                }
            }
            Err(DatabaseError::Server("its keeper is gone".to_owned()))
        };
        timeout(WITHIN, ready)
            .await
            .map_err(|_| DatabaseError::Server(format!("it is not ready after {WITHIN:?}")))?
    }

    /// Why the keeper has ended.
    async fn end(&mut self) -> DatabaseError {
        let code = self.keeper.wait().await.ok().as_ref().and_then(ExitStatus::code);
        if code == Some(NO_PROGRAMS) {
            return DatabaseError::Missing;
        }
        let mut last = "it said nothing".to_owned();
        while let Some(line) = self.log.recv().await {
            last = line;
        }
        DatabaseError::Server(last)
    }
}

/// Copies what the server says into its log, as far as there is room, and tells whoever waits for a word of it.
async fn keep(from: impl AsyncRead + Unpin, mut log: tokio::fs::File, tell: mpsc::Sender<String>) {
    let (mut lines, mut kept) = (BufReader::new(from).lines(), 0);
    while let Ok(Some(line)) = lines.next_line().await {
        kept += line.len() + 1;
        if kept <= LOG_BYTES_MAX {
            // A log that can't be written holds up no server.
            let _ = log.write_all(format!("{line}\n").as_bytes()).await;
            let _ = log.flush().await;
        }
        // Where nobody waits for a word, nobody hears it.
        let _ = tell.try_send(line);
    }
}
