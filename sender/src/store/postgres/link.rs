//! One connection to the database, asked by a thread that waits for the answers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, SimpleQueryMessage, Statement};

use super::address::Address;
use crate::store::StoreError;

/// A value that a statement is given.
pub(super) type Value<'a> = &'a (dyn ToSql + Sync);

/// A statement with its values, to be asked together with others.
pub(super) struct Ask<'a> {
    pub(super) text: &'static str,
    pub(super) values: Vec<Value<'a>>,
}

/// What one connection to the database is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Commits and claims: statements whose plan must never change.
    Hot,
    /// Whatever operators ask. It writes nothing, and each question ends after some seconds.
    Reading,
    /// To find out what is there.
    Looking,
}

impl Purpose {
    /// What is set on a connection of that purpose.
    pub(super) const fn settings(self) -> &'static str {
        match self {
            Self::Hot => HOT,
            Self::Reading => READING,
            Self::Looking => "",
        }
    }
}

/// What the server may do on a connection, and for how long. Plans of hot statements are made for any values, by indexes: with few
/// rows in a table the planner would otherwise choose ways that take for ever when there are many. A transaction of which nothing more is heard
/// has locks that the next connection needs, whether the server waits to hear from us or to be rid of an answer; and all other nodes
/// need those of leases, which they renew each third of one: so it is ended well within the other two thirds.
const HOT: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET enable_bitmapscan = off; SET jit = off; SET lock_timeout = '8s';
    SET statement_timeout = '10s'; SET idle_in_transaction_session_timeout = '2s'; SET tcp_user_timeout = '2s';
    SET client_min_messages = warning";
const READING: &str =
    "SET default_transaction_read_only = on; SET enable_seqscan = off; SET enable_bitmapscan = off;
    SET statement_timeout = '10s'; SET jit = off;
    SET idle_in_transaction_session_timeout = '60s'; SET client_min_messages = warning";

/// After so many rows that were asked for or written plans are made anew, and each time that these are twice as many. A table that had
/// next to none when the server analysed it is read whole to find any row, and what has a plan keeps it.
const PLANNED_FOR: u64 = 1_000;

/// How long the server may take for what it has at hand, without a lock. A connection that alone falls silent is given up after that,
/// well within a lease.
pub(super) const SOON: Duration = Duration::from_secs(2);

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    /// Whatever carries the connection on.
    carried: AbortHandle,
    answer_within: Cell<Duration>,
    statements: RefCell<HashMap<&'static str, Statement>>,
    /// Rows written so far.
    changes: Cell<u64>,
    /// Rows asked for or written so far, and at how many plans are made anew.
    passed: Cell<u64>,
    planned_for: Cell<u64>,
    /// The connection lives on it.
    runtime: Option<Runtime>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropped in the ordinary way it would wait, which tasks of another runtime may not.
            runtime.shutdown_background();
        }
    }
}

impl Link {
    /// Connects.
    pub(super) fn open(address: &Address, purpose: Purpose) -> Result<Self, StoreError> {
        let doing = "connect to the database";
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::Io { doing, detail: error.to_string() })?;
        let connected = wait_on(&runtime, address.connect(purpose.settings()));
        match connected {
            Ok((client, carried)) => Ok(Self {
                client,
                carried,
                answer_within: Cell::new(address.answer_within()),
                statements: RefCell::default(),
                changes: Cell::new(0),
                passed: Cell::new(0),
                planned_for: Cell::new(PLANNED_FOR),
                runtime: Some(runtime),
            }),
            Err(error) => {
                // As when a link is dropped.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Waits for an answer. Where a network swallows everything none may ever come: then the connection is lost.
    fn wait<T: Send, E: Send>(&self, answer: impl Future<Output = Result<T, E>> + Send) -> Result<T, E> {
        let (carried, within) = (&self.carried, self.answer_within.get());
        let bounded = async move {
            let mut answer = pin!(answer);
            match timeout(within, &mut answer).await {
                Ok(answer) => answer,
                Err(_) => {
                    carried.abort();
                    answer.await
                }
            }
        };
        wait_on(self.runtime.as_ref().expect("only dropping takes it"), bounded)
    }

    /// Asks what the server has at hand.
    pub(super) fn soon<T>(&self, ask: impl FnOnce(&Self) -> T) -> T {
        self.within(SOON, ask)
    }

    /// Asks what is to be answered so soon.
    pub(super) fn within<T>(&self, length: Duration, ask: impl FnOnce(&Self) -> T) -> T {
        let usual = self.answer_within.replace(length);
        let answered = ask(self);
        self.answer_within.set(usual);
        answered
    }

    /// Whether the connection is lost.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Rows written over this connection so far.
    pub(super) const fn changes(&self) -> u64 {
        self.changes.get()
    }

    fn statement(&self, text: &'static str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(known) = self.statements.borrow().get(text) {
            return Ok(known.clone());
        }
        let statement = self.wait(self.client.prepare(text))?;
        self.statements.borrow_mut().insert(text, statement.clone());
        Ok(statement)
    }

    /// All rows of an answer.
    pub(super) fn query(
        &self,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.statement(text)?;
        self.plan_anew()?;
        let rows = self.wait(self.client.query(&statement, values))?;
        self.pass(rows.len() as u64);
        Ok(rows)
    }

    /// The first row of an answer, if it has any.
    pub(super) fn first(
        &self,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        Ok(self.query(text, values)?.into_iter().next())
    }

    /// The only row of an answer.
    pub(super) fn one(&self, text: &'static str, values: &[Value<'_>]) -> Result<Row, tokio_postgres::Error> {
        let statement = self.statement(text)?;
        self.wait(self.client.query_one(&statement, values))
    }

    /// Whether an answer has a row.
    pub(super) fn exists(
        &self,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<bool, tokio_postgres::Error> {
        Ok(!self.query(text, values)?.is_empty())
    }

    /// Writes; how many rows.
    pub(super) fn execute(
        &self,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64, tokio_postgres::Error> {
        let statement = self.statement(text)?;
        let rows = self.wait(self.client.execute(&statement, values))?;
        self.wrote(rows);
        Ok(rows)
    }

    /// Deletes; what its `RETURNING` tells of each row.
    pub(super) fn delete(
        &self,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let rows = self.query(text, values)?;
        self.changes.set(self.changes.get() + rows.len() as u64);
        Ok(rows)
    }

    /// Several questions at once, on their way together: the answers in their order.
    pub(super) fn query_all(&self, asks: &[Ask<'_>]) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
        let statements = asks.iter().map(|ask| self.statement(ask.text)).collect::<Result<Vec<_>, _>>()?;
        let asked =
            asks.iter().zip(&statements).map(|(ask, statement)| self.client.query(statement, &ask.values));
        self.plan_anew()?;
        let answers = self.wait(try_join_all(asked))?;
        self.pass(answers.iter().map(|rows| rows.len() as u64).sum());
        Ok(answers)
    }

    /// Several statements that write, on their way together.
    pub(super) fn execute_all(&self, asks: &[Ask<'_>]) -> Result<(), tokio_postgres::Error> {
        let statements = asks.iter().map(|ask| self.statement(ask.text)).collect::<Result<Vec<_>, _>>()?;
        let asked =
            asks.iter().zip(&statements).map(|(ask, statement)| self.client.execute(statement, &ask.values));
        self.plan_anew()?;
        let rows: u64 = self.wait(try_join_all(asked))?.into_iter().sum();
        self.wrote(rows);
        Ok(())
    }

    /// Counts them.
    fn wrote(&self, rows: u64) {
        self.changes.set(self.changes.get() + rows);
        self.pass(rows);
    }

    fn pass(&self, rows: u64) {
        self.passed.set(self.passed.get() + rows);
    }

    /// Has the server forget its plans, if it is time. That comes before a statement, whose failure tells what became of it.
    fn plan_anew(&self) -> Result<(), tokio_postgres::Error> {
        let passed = self.passed.get();
        if passed < self.planned_for.get() {
            return Ok(());
        }
        self.planned_for.set(passed.saturating_mul(2));
        self.batch("DISCARD PLANS")
    }

    /// The server's number for the session that this is carried on.
    pub(super) fn session(&self) -> Result<Option<String>, tokio_postgres::Error> {
        // Not prepared: where the session may be another's, a prepared statement may be another one.
        let answers = self.wait(self.client.simple_query("SELECT pg_backend_pid()"))?;
        let row = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(row.map(ToOwned::to_owned))
    }

    /// Statements without values.
    pub(super) fn batch(&self, text: &str) -> Result<(), tokio_postgres::Error> {
        self.wait(self.client.batch_execute(text))
    }
}

/// Waits for an answer. A thread that itself carries out tasks may not wait so: another one waits for it.
fn wait_on<T: Send>(runtime: &Runtime, answer: impl Future<Output = T> + Send) -> T {
    if Handle::try_current().is_err() {
        return runtime.block_on(answer);
    }
    std::thread::scope(|scope| match scope.spawn(|| runtime.block_on(answer)).join() {
        Ok(answer) => answer,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
