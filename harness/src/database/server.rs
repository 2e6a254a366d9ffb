//! A private PostgreSQL server. A shell script keeps it, and ends with its standard input: so the server ends with
//! the harness, however that ends.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use hookproof_judge::scenario::Durability;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use super::DatabaseError;
use super::link::Link;

const SCRIPT: &str = include_str!("server.sh");
const NO_PROGRAMS: i32 = 3;
const WITHIN: Duration = Duration::from_secs(60);
const LOG_BYTES_MAX: usize = 32 << 20;
/// The most unread log lines; others are only in the file.
const UNREAD_MAX: usize = 1_024;

#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    log: PathBuf,
    orders: Mutex<Orders>,
}

/// Exclusive for each order.
#[derive(Debug)]
struct Orders {
    to: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    log: mpsc::Receiver<String>,
    state: State,
    /// It ends with its input.
    keeper: Child,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It may have ended by itself.
    Runs,
    /// It was stopped, or not started yet.
    Stopped,
    /// It did not obey.
    Lost,
}

impl Server {
    /// Starts one with an empty database, and waits until it answers. It logs into `log`.
    pub(super) async fn start(durability: Durability, log: &Path) -> Result<Self, DatabaseError> {
        let (path, kept) = (log.to_owned(), tokio::fs::File::create(log).await?);
        // A killed process leaves its acknowledged writes in the page cache.
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
        tokio::spawn(copy_output(said, kept, tell));
        let answers = BufReader::new(answers).lines();
        let mut orders = Orders { to, answers, log, state: State::Stopped, keeper };
        let Some(folder) = orders.answer().await? else {
            return Err(orders.end().await);
        };
        orders.begin().await?;
        Ok(Self { folder: folder.into(), log: path, orders: Mutex::new(orders) })
    }

    pub(super) fn address(&self) -> String {
        super::address_in(&self.folder)
    }

    /// Fails when the folder or the socket can't be created.
    pub fn link(&self, number: usize) -> io::Result<Link> {
        Link::open(self.folder.join(format!("link-{number}")), &self.folder)
    }

    /// Waits until it is gone. Fails when it had ended by itself or did not obey.
    pub(super) async fn close(self) -> Result<(), DatabaseError> {
        let is_there = self.is_there().await;
        let Orders { to, state, mut keeper, .. } = self.orders.into_inner();
        drop(to);
        // Its log has the reason.
        let _ended = timeout(WITHIN, keeper.wait()).await;
        match state {
            State::Runs if !is_there => Err(DatabaseError::Ended(self.log)),
            State::Lost => Err(DatabaseError::Lost(self.log)),
            State::Runs | State::Stopped => Ok(()),
        }
    }

    async fn is_there(&self) -> bool {
        UnixStream::connect(super::link::socket(&self.folder)).await.is_ok()
    }

    /// Stops it at once, as a crash would. Fails when it is not running, or its keeper does not answer.
    pub async fn stop(&self) -> Result<(), DatabaseError> {
        let mut orders = self.orders.lock().await;
        match orders.state {
            State::Runs if self.is_there().await => {}
            State::Runs => return Err(DatabaseError::Ended(self.log.clone())),
            State::Stopped => return Err(DatabaseError::Stopped),
            State::Lost => return Err(DatabaseError::Lost(self.log.clone())),
        }
        // A cancelled call counts as a stop.
        orders.state = State::Stopped;
        orders.stop().await.inspect_err(|_| orders.state = State::Lost)
    }

    /// Starts it again, and waits until it answers.
    pub async fn begin(&self) -> Result<(), DatabaseError> {
        let mut orders = self.orders.lock().await;
        orders.begin().await.inspect_err(|_| orders.state = State::Lost)
    }
}

impl Orders {
    async fn send_order(&mut self, order: &str) -> Result<(), DatabaseError> {
        // Earlier lines are no answer.
        while self.log.try_recv().is_ok() {}
        self.to.write_all(format!("{order}\n").as_bytes()).await?;
        Ok(self.to.flush().await?)
    }

    /// The keeper's next line; none if it has ended.
    async fn answer(&mut self) -> Result<Option<String>, DatabaseError> {
        let line = timeout(WITHIN, self.answers.next_line()).await;
        line.map_err(|_| DatabaseError::Server(format!("no line in its log for {WITHIN:?}")))?
            .map_err(DatabaseError::Io)
    }

    async fn stop(&mut self) -> Result<(), DatabaseError> {
        self.send_order("stop").await?;
        match self.answer().await? {
            Some(_) => Ok(()),
            None => Err(self.end().await),
        }
    }

    async fn begin(&mut self) -> Result<(), DatabaseError> {
        self.send_order("start").await?;
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
            Err(DatabaseError::Server("the task that watches it has ended".to_owned()))
        };
        timeout(WITHIN, ready)
            .await
            .map_err(|_| DatabaseError::Server(format!("it is not ready after {WITHIN:?}")))?
    }

    async fn end(&mut self) -> DatabaseError {
        let code = self.keeper.wait().await.ok().as_ref().and_then(ExitStatus::code);
        if code == Some(NO_PROGRAMS) {
            return DatabaseError::Missing;
        }
        let mut last = "its log is empty".to_owned();
        while let Some(line) = self.log.recv().await {
            last = line;
        }
        DatabaseError::Server(last)
    }
}

/// Logs as far as there is room, and forwards the lines.
async fn copy_output(from: impl AsyncRead + Unpin, mut log: tokio::fs::File, tell: mpsc::Sender<String>) {
    let (mut lines, mut kept) = (BufReader::new(from).lines(), 0);
    while let Ok(Some(line)) = lines.next_line().await {
        kept += line.len() + 1;
        if kept <= LOG_BYTES_MAX {
            // An unwritable log must not block the server.
            let _ = log.write_all(format!("{line}\n").as_bytes()).await;
            let _ = log.flush().await;
        }
        let _ = tell.try_send(line);
    }
}
