//! A connection to the database for a thread that blocks on the answers.

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
use crate::StoreError;

pub(super) type Value<'a> = &'a (dyn ToSql + Sync);

pub(super) struct Query<'a> {
    pub(super) text: &'static str,
    pub(super) values: Vec<Value<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Commits and claims. Their plans must not depend on values or table sizes.
    Hot,
    /// Operators' reads. No writes; each statement ends after 10 s.
    Reading,
    /// To examine the server. Sets nothing.
    Looking,
}

impl Purpose {
    pub(super) const fn settings(self) -> &'static str {
        match self {
            Self::Hot => HOT,
            Self::Reading => READING,
            Self::Looking => "",
        }
    }
}

/// Plans must suit any values and use indexes. With few rows in a table, the planner would choose plans that take too
/// long with many rows.
/// A silent transaction holds locks that the next connection needs, and lease locks that all nodes need to renew
/// within a third of a lease. So the server ends it well within the other two thirds, whether it waits for our
/// statement or for us to read.
const HOT: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET enable_bitmapscan = off; SET jit = off; SET lock_timeout = '8s';
    SET statement_timeout = '10s'; SET idle_in_transaction_session_timeout = '2s'; SET tcp_user_timeout = '2s';
    SET client_min_messages = warning";
const READING: &str =
    "SET default_transaction_read_only = on; SET enable_seqscan = off; SET enable_bitmapscan = off;
    SET statement_timeout = '10s'; SET jit = off;
    SET idle_in_transaction_session_timeout = '60s'; SET client_min_messages = warning";

/// Plans are discarded after this many rows, and then after each doubling. A plan made for an almost empty table
/// would scan a table that has grown.
const PLANNED_FOR: u64 = 1_000;

/// Limit for an answer that needs no lock. A connection that stays silent longer is dropped, well within a lease.
pub(super) const SOON: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    carried: AbortHandle,
    answer_within: Cell<Duration>,
    statements: RefCell<HashMap<&'static str, Statement>>,
    changes: Cell<u64>,
    /// Rows asked for or written, and the number at which plans are discarded.
    passed: Cell<u64>,
    planned_for: Cell<u64>,
    runtime: Option<Runtime>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // An ordinary drop would block, which is forbidden in a task of another runtime.
            runtime.shutdown_background();
        }
    }
}

impl Link {
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
                // As in `drop`.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

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

    pub(super) fn soon<T>(&self, ask: impl FnOnce(&Self) -> T) -> T {
        self.within(SOON, ask)
    }

    pub(super) fn within<T>(&self, length: Duration, ask: impl FnOnce(&Self) -> T) -> T {
        let usual = self.answer_within.replace(length);
        let answered = ask(self);
        self.answer_within.set(usual);
        answered
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

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

    pub(super) fn first(
        &self,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        Ok(self.query(text, values)?.into_iter().next())
    }

    pub(super) fn one(&self, text: &'static str, values: &[Value<'_>]) -> Result<Row, tokio_postgres::Error> {
        let statement = self.statement(text)?;
        self.wait(self.client.query_one(&statement, values))
    }

    pub(super) fn exists(
        &self,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<bool, tokio_postgres::Error> {
        Ok(!self.query(text, values)?.is_empty())
    }

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

    pub(super) fn delete(
        &self,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let rows = self.query(text, values)?;
        self.changes.set(self.changes.get() + rows.len() as u64);
        Ok(rows)
    }

    /// At once. The answers come in order.
    pub(super) fn query_all(&self, asks: &[Query<'_>]) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
        let statements = asks.iter().map(|ask| self.statement(ask.text)).collect::<Result<Vec<_>, _>>()?;
        let asked =
            asks.iter().zip(&statements).map(|(ask, statement)| self.client.query(statement, &ask.values));
        self.plan_anew()?;
        let answers = self.wait(try_join_all(asked))?;
        self.pass(answers.iter().map(|rows| rows.len() as u64).sum());
        Ok(answers)
    }

    pub(super) fn execute_all(&self, asks: &[Query<'_>]) -> Result<(), tokio_postgres::Error> {
        let statements = asks.iter().map(|ask| self.statement(ask.text)).collect::<Result<Vec<_>, _>>()?;
        let asked =
            asks.iter().zip(&statements).map(|(ask, statement)| self.client.execute(statement, &ask.values));
        self.plan_anew()?;
        let rows: u64 = self.wait(try_join_all(asked))?.into_iter().sum();
        self.wrote(rows);
        Ok(())
    }

    fn wrote(&self, rows: u64) {
        self.changes.set(self.changes.get() + rows);
        self.pass(rows);
    }

    fn pass(&self, rows: u64) {
        self.passed.set(self.passed.get() + rows);
    }

    /// Discards plans if it is time. Runs before a statement, because a failure after it would hide that it
    /// succeeded.
    fn plan_anew(&self) -> Result<(), tokio_postgres::Error> {
        let passed = self.passed.get();
        if passed < self.planned_for.get() {
            return Ok(());
        }
        self.planned_for.set(passed.saturating_mul(2));
        self.batch("DISCARD PLANS")
    }

    pub(super) fn session(&self) -> Result<Option<String>, tokio_postgres::Error> {
        // Not prepared: through a pooler, a prepared statement may belong to another session.
        let answers = self.wait(self.client.simple_query("SELECT pg_backend_pid()"))?;
        let row = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(row.map(ToOwned::to_owned))
    }

    pub(super) fn batch(&self, text: &str) -> Result<(), tokio_postgres::Error> {
        self.wait(self.client.batch_execute(text))
    }
}

/// A thread that runs async tasks may not block, so another thread waits.
fn wait_on<T: Send>(runtime: &Runtime, answer: impl Future<Output = T> + Send) -> T {
    if Handle::try_current().is_err() {
        return runtime.block_on(answer);
    }
    std::thread::scope(|scope| match scope.spawn(|| runtime.block_on(answer)).join() {
        Ok(answer) => answer,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

type Column<'a> = Box<dyn ToSql + Sync + 'a>;

pub(super) struct Table<'a> {
    text: &'static str,
    columns: Vec<Column<'a>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, columns: Vec::new() }
    }

    pub(super) fn with<T: ToSql + Sync + 'a>(mut self, values: impl Iterator<Item = T>) -> Self {
        self.columns.push(Box::new(values.collect::<Vec<T>>()));
        self
    }

    pub(super) fn query(&self) -> Query<'_> {
        Query { text: self.text, values: self.columns.iter().map(|column| &**column as _).collect() }
    }
}
