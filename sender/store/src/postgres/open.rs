use std::time::Duration;

use super::address::Address;
use super::failure::failure;
use super::link::{Link, Purpose};
use super::values::Bits;
use crate::StoreError;
use crate::lane::Limits;

const VERSION: i64 = 1;
const SCHEMA: &str = include_str!("schema.sql");

const OPENING: &str = "open the database";

const LOOKS: u32 = 4;

/// Connects, and checks that each connection has its own server session. A pooler that lends sessions for one
/// transaction would give an idle session to both of two connections in turn. Until that is certain nothing is set,
/// because it would affect other clients.
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

pub(super) fn writer(address: &Address, options: &Options) -> Result<Link, StoreError> {
    let link = connect(address, Purpose::Hot)?;
    if !recognise(&link, address)? {
        if !options.create {
            return Err(foreign(address, "it has no Hookproof tables; choose another database"));
        }
        make(&link, options.identity, address)?;
        recognise(&link, address)?;
    }
    Ok(link)
}

pub(super) fn reader(address: &Address) -> Result<Link, StoreError> {
    let link = connect(address, Purpose::Reading)?;
    if !recognise(&link, address)? {
        let detail = "it has no Hookproof tables; `serve` or `subscriber add` creates them";
        return Err(foreign(address, detail));
    }
    Ok(link)
}

fn foreign(address: &Address, detail: &str) -> StoreError {
    StoreError::Foreign { path: address.to_string().into(), detail: detail.to_owned() }
}

/// Whether the tables exist. Fails if they have another version. Writes nothing.
fn recognise(link: &Link, address: &Address) -> Result<bool, StoreError> {
    let failed = |error| failure(OPENING, &error);
    let there = "SELECT to_regclass(current_schema() || '.hookproof_schema') IS NOT NULL";
    let row = link.first(there, &[]).map_err(failed)?;
    let is_there = row.map(|row| row.try_get::<_, Option<bool>>(0)).transpose().map_err(failed)?;
    if is_there.flatten() != Some(true) {
        return Ok(false);
    }
    let row = link.first("SELECT version FROM hookproof_schema", &[]).map_err(failed)?;
    let found: i64 = row.map_or(Ok(0), |row| row.try_get(0)).map_err(failed)?;
    if found != VERSION {
        return Err(StoreError::OtherVersion { path: address.to_string().into(), found, expected: VERSION });
    }
    Ok(true)
}

/// Limit for making the tables, including the wait for another process that makes them.
const MAKING_MAX: Duration = Duration::from_secs(3_600);

/// Makes the tables in one transaction. An advisory lock waits for another process that makes them, because no table
/// exists yet to lock.
fn make(link: &Link, identity: u64, address: &Address) -> Result<(), StoreError> {
    let proof = address.keys().proof()?;
    let made = link.within(MAKING_MAX, |link| make_tables(link, identity, proof.as_deref()));
    if made.is_err() {
        // The connection is dropped after the failure.
        let _ = link.batch("ROLLBACK");
    }
    made.map_err(|error| failure("make the tables", &error))
}

fn make_tables(link: &Link, identity: u64, proof: Option<&str>) -> Result<(), tokio_postgres::Error> {
    let lock = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;
        SELECT pg_advisory_xact_lock(1212960838); SET LOCAL lock_timeout = '8s';
        CREATE TABLE IF NOT EXISTS hookproof_schema (version int8 NOT NULL)";
    link.batch(lock)?;
    if link.first("SELECT version FROM hookproof_schema", &[])?.is_none() {
        link.batch(SCHEMA)?;
        link.execute("INSERT INTO state VALUES (1, $1, 0, 0, 1, 0)", &[&Bits(identity)])?;
        if let Some(proof) = proof {
            link.execute("INSERT INTO sealing VALUES (1, $1, 0)", &[&proof])?;
        }
        link.batch("INSERT INTO totals (writer) VALUES (0)")?;
        link.execute("INSERT INTO hookproof_schema VALUES ($1)", &[&VERSION])?;
    }
    link.batch("COMMIT")
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub limits: Limits,
    pub create: bool,
    /// A random number that a new database keeps for good.
    pub identity: u64,
}
