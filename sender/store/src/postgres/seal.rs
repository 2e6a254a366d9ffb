//! A database's encryption: its keys are checked, it begins, and old values are sealed.

use tokio_postgres::Row;

use super::address::Address;
use super::clock::server_clock;
use super::failure::failure;
use super::link::{Link, Purpose};
use super::values::{Count, int};
use super::{Result, Stop, Work, open};
use crate::StoreError;
use crate::command::{KeptAnswer, Reseal, SealedTable};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::reply::{Reply, Resealed};
use crate::seal::{Field, Seal, SealError, Step, Stored};

const BEGINNING: &str = "encrypt the database";

/// No process may start meanwhile, so that each has the key.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '10s'; LOCK TABLE owners, nodes, state, sealing";
/// A process that delivers.
pub(crate) const ALIVE: &str = concat!(
    "SELECT n.name FROM nodes n JOIN owners o USING (owner) WHERE o.until > (SELECT ",
    server_clock!(),
    ") ORDER BY n.name LIMIT 1"
);

impl From<SealError> for Stop {
    fn from(error: SealError) -> Self {
        tracing::error!(%error, "a stored value cannot be sealed or opened");
        Self::Broken("a sealed value does not open; the log names it")
    }
}

type Read<T> = std::result::Result<T, tokio_postgres::Error>;

fn proof(link: &Link) -> Read<Option<(String, bool)>> {
    let row = link.first("SELECT proof, plain <> 0 FROM sealing", &[])?;
    row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
}

pub(super) fn unlock(link: &Link, address: &Address) -> std::result::Result<Seal, StoreError> {
    let proof = proof(link).map_err(|error| failure("open the database", &error))?;
    address.keys().unlock(address, proof)
}

/// Does nothing if the database is encrypted already.
pub(crate) fn begin_encryption(address: &Address) -> std::result::Result<(), StoreError> {
    let failed = |error| failure(BEGINNING, &error);
    let link = open::connect(address, Purpose::Hot)?;
    let Some(ours) = address.keys().proof()? else { return Ok(()) };
    if proof(&link).map_err(failed)?.is_some() {
        return Ok(());
    }
    link.batch(BEGIN).map_err(failed)?;
    if let Some(row) = link.first(ALIVE, &[]).map_err(failed)? {
        let name: String = row.try_get(0).map_err(failed)?;
        let detail = format!("it is in use ({name}); end every process that has it open first");
        return Err(StoreError::Key { path: address.to_string().into(), detail });
    }
    let begin = "INSERT INTO sealing VALUES (1, $1, 1) ON CONFLICT (id) DO NOTHING";
    link.execute(begin, &[&ours]).map_err(failed)?;
    link.batch("COMMIT").map_err(failed)
}

const fn rows(table: SealedTable) -> [&'static str; 2] {
    match table {
        SealedTable::Events => [
            "SELECT event, bytes FROM events WHERE event > $1 AND bytes IS NOT NULL ORDER BY event LIMIT $2 FOR UPDATE",
            "UPDATE events SET bytes = $2 WHERE event = $1",
        ],
        SealedTable::FurtherBodies => [
            "SELECT body, bytes FROM bodies WHERE body > $1 ORDER BY body LIMIT $2 FOR UPDATE",
            "UPDATE bodies SET bytes = $2 WHERE body = $1",
        ],
        SealedTable::Subscribers => [
            "SELECT lane, settings FROM subscribers WHERE lane > $1 ORDER BY lane LIMIT $2 FOR UPDATE",
            "UPDATE subscribers SET settings = $2 WHERE lane = $1",
        ],
        SealedTable::Secrets => [
            "SELECT id, secret, lane, created FROM secrets WHERE id > $1 ORDER BY id LIMIT $2 FOR UPDATE",
            "UPDATE secrets SET secret = $2 WHERE id = $1",
        ],
        // Of a lane there are 64 slots.
        SealedTable::Answers => [
            "SELECT lane << 6 | slot, head, delivery, at, body, cut FROM answers
             WHERE (lane, slot) > ($1::int8 >> 6, $1::int8 & 63) ORDER BY lane, slot LIMIT $2 FOR UPDATE",
            "UPDATE answers SET head = $2, body = $3 WHERE lane = $1::int8 >> 6 AND slot = $1::int8 & 63",
        ],
        SealedTable::Changes => [
            "SELECT number, changed FROM changes WHERE number > $1 ORDER BY number LIMIT $2 FOR UPDATE",
            "UPDATE changes SET changed = $2 WHERE number = $1",
        ],
        SealedTable::Proof => ["", "UPDATE sealing SET proof = $1, plain = 0"],
    }
}

fn read(table: SealedTable, row: &Row) -> Result<(u64, Field, Stored)> {
    let Count(number) = row.try_get(0)?;
    Ok(match table {
        SealedTable::Events | SealedTable::Proof => {
            (number, Field::EventBody(number), Stored::Bytes(row.try_get(1)?))
        }
        SealedTable::FurtherBodies => (number, Field::FurtherBody(number), Stored::Bytes(row.try_get(1)?)),
        SealedTable::Subscribers => (number, Field::Settings(LaneId(number)), Stored::Text(row.try_get(1)?)),
        SealedTable::Changes => (number, Field::Changed(number), Stored::Text(row.try_get(1)?)),
        SealedTable::Secrets => {
            (number, Field::Secret(row.try_get(2)?, row.try_get(3)?), Stored::Text(row.try_get(1)?))
        }
        SealedTable::Answers => {
            let (delivery, at): (DeliveryId, StoreTime) = (row.try_get(2)?, row.try_get(3)?);
            let answer = KeptAnswer { head: row.try_get(1)?, body: row.try_get(4)?, cut: row.try_get(5)? };
            (number, Field::AnswerHead(delivery, at), Stored::Answer(answer))
        }
    })
}

impl Work<'_> {
    pub(super) fn reseal_rows(&mut self, &Reseal { from: (table, after), max }: &Reseal) -> Result<Reply> {
        let [select, text] = rows(table);
        if table == SealedTable::Proof {
            self.sql.execute(text, &[&self.seal.proof()?])?;
            return Ok(Reply::Resealed(Resealed::default()));
        }
        let mut step = Step::new(self.seal, table, max);
        for row in self.sql.query(select, &[&int(after), &i64::from(max)])? {
            if step.is_full() {
                break;
            }
            let (number, field, stored) = read(table, &row)?;
            step.add(number, field, &stored)?;
        }
        for (row, sealed) in &step.changed {
            let row = int(*row);
            match sealed {
                Stored::Bytes(bytes) => self.sql.execute(text, &[&row, bytes])?,
                Stored::Text(sealed) => self.sql.execute(text, &[&row, sealed])?,
                Stored::Answer(answer) => self.sql.execute(text, &[&row, &answer.head, &answer.body])?,
            };
        }
        Ok(step.reply())
    }
}
