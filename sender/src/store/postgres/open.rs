//! Opening a database: is it ours, do we know its version?

use std::time::Duration;

use super::Options;
use super::address::Address;
use super::failure::failure;
use super::link::{Link, Purpose};
use super::values::Bits;
use crate::store::StoreError;

/// The first step makes this version, each further one the next. Released ones never change.
const FIRST: i64 = 2;
const MIGRATIONS: [&str; 5] = [
    include_str!("schema.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
];

const OPENING: &str = "open the store";

/// How often two connections are compared.
const LOOKS: u32 = 4;

/// Connects, and makes sure that connections have sessions of the server to themselves: a pooler that lends sessions out for a
/// transaction at a time lends one that nobody needs to both of two that take turns. Before that is known nothing is set, since
/// it would be set for others.
pub(super) fn connect(address: &Address, purpose: Purpose) -> Result<Link, StoreError> {
    let doing = "connect to the database";
    let (link, other) = (Link::open(address, Purpose::Looking)?, Link::open(address, Purpose::Looking)?);
    let session = |link: &Link| link.session().map_err(|error| failure(doing, &error));
    let first = session(&link)?;
    for _ in 0..LOOKS {
        if session(&other)? == first || session(&link)? != first {
            return Err(StoreError::Pooled { doing, address: address.to_string() });
        }
    }
    link.batch(purpose.settings()).map_err(|error| failure(doing, &error))?;
    Ok(link)
}

/// Opens a database to write to, made or migrated if need be.
pub(super) fn writer(address: &Address, options: &Options) -> Result<Link, StoreError> {
    let link = connect(address, Purpose::Hot)?;
    if recognise(&link, address)? < known() {
        if !options.create {
            return Err(foreign(address, "there are no tables of ours in it; choose another database"));
        }
        migrate(&link, address, options.identity)?;
        recognise(&link, address)?;
    }
    Ok(link)
}

/// Opens a database to read from.
pub(super) fn reader(address: &Address) -> Result<Link, StoreError> {
    let link = connect(address, Purpose::Reading)?;
    if recognise(&link, address)? < known() {
        return Err(foreign(
            address,
            "there are no tables of ours in it, or of a version before; `serve` or `subscriber add` makes them",
        ));
    }
    Ok(link)
}

fn foreign(address: &Address, detail: &str) -> StoreError {
    StoreError::Foreign { path: address.to_string().into(), detail: detail.to_owned() }
}

/// The newest version known.
fn known() -> i64 {
    FIRST - 1 + i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX - FIRST)
}

/// The schema's version, 0 if there is none; an error if it is too new, or from before the first. Writes nothing.
fn recognise(link: &Link, address: &Address) -> Result<i64, StoreError> {
    let failed = |error| failure(OPENING, &error);
    let there = "SELECT to_regclass(current_schema() || '.hookproof_schema') IS NOT NULL";
    let row = link.first(there, &[]).map_err(failed)?;
    let is_there = row.map(|row| row.try_get::<_, Option<bool>>(0)).transpose().map_err(failed)?;
    if is_there.flatten() != Some(true) {
        return Ok(0);
    }
    let row = link.first("SELECT version FROM hookproof_schema", &[]).map_err(failed)?;
    let found: i64 = row.map_or(Ok(0), |row| row.try_get(0)).map_err(failed)?;
    if found > known() {
        return Err(StoreError::Newer { path: address.to_string().into(), found, known: known() });
    }
    if (1..FIRST).contains(&found) {
        let detail = format!(
            "its tables are of version {found}, and the oldest known is {FIRST}: have the program that made them move \
             it to a file"
        );
        return Err(foreign(address, &detail));
    }
    Ok(found)
}

/// How long a step may take: an index is made of a table of any size. Whoever is in the way of its locks is waited for as long as for
/// those of any commit, since everybody else waits as well.
const STEP_MAX: Duration = Duration::from_secs(3_600);

/// Takes the steps that the database has not taken, all in one transaction. Another process may be taking them: this one
/// waits for it, by the one lock that is free before there is any table.
fn migrate(link: &Link, address: &Address, identity: u64) -> Result<(), StoreError> {
    let migrated = link.within(STEP_MAX, |link| take_steps(link, identity));
    if !matches!(migrated, Ok(true)) {
        // The connection is given up with the failure.
        let _ = link.batch("ROLLBACK");
    }
    match migrated {
        // Another process, which knows more, was faster.
        Ok(false) => recognise(link, address).map(drop),
        Ok(true) => Ok(()),
        Err(error) => Err(failure("migrate the store", &error)),
    }
}

/// False if the database is newer than all steps, and stays so.
fn take_steps(link: &Link, identity: u64) -> Result<bool, tokio_postgres::Error> {
    let lock = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;
        SELECT pg_advisory_xact_lock(1212960838); SET LOCAL lock_timeout = '8s';
        CREATE TABLE IF NOT EXISTS hookproof_schema (version int8 NOT NULL)";
    link.batch(lock)?;
    let row = link.first("SELECT coalesce(max(version), 0) FROM hookproof_schema", &[])?;
    let done: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
    if done > known() {
        return Ok(false);
    }
    if done >= FIRST {
        // As every commit does, whatever the steps begin with: who has locked lanes goes on, and who has not waits with nothing in hand.
        link.batch("LOCK TABLE lanes IN ACCESS EXCLUSIVE MODE")?;
    }
    let taken = usize::try_from((done - FIRST + 1).max(0)).unwrap_or(usize::MAX);
    for step in MIGRATIONS.iter().skip(taken) {
        link.batch(step)?;
    }
    if done == 0 {
        link.execute("INSERT INTO state VALUES (1, $1, 0, 0, 1, 0)", &[&Bits(identity)])?;
        link.batch("INSERT INTO totals (writer) VALUES (0)")?;
        link.batch("INSERT INTO hookproof_schema VALUES (0)")?;
    }
    link.execute("UPDATE hookproof_schema SET version = $1", &[&known()])?;
    link.batch("COMMIT")?;
    Ok(true)
}
