//! A file's encryption begins, and old values are sealed.

use std::fmt;
use std::path::Path;

use hookproof_failed_sync::{ends_the_process, leave};
use rusqlite::{Result, Row, TransactionBehavior, params};

use super::backup::alone_on;
use super::failure::Doing;
use super::values::int;
use super::{Options, SqliteFile, Work, open};
use crate::StoreError;
use crate::command::{KeptAnswer, Reseal, SealedTable};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::reply::{Reply, Resealed};
use crate::seal::{Field, Step, Stored};
use crate::vacuum::RestoreError;

const BEGINNING: &str = "encrypt the database";

/// Does nothing if the file is encrypted already.
pub(crate) fn begin_encryption(file: &SqliteFile) -> std::result::Result<(), StoreError> {
    let path = file.path();
    let alone = alone_on(path).map_err(|error| match error {
        RestoreError::Store(error) => error,
        error => refused(path, &error),
    });
    // An encrypted file may be in use.
    let mut sql = match alone {
        Ok(alone) => {
            // Released before SQLite opens the file.
            drop(alone);
            open::writer(path, &Options::default())?
        }
        Err(error) => {
            let sql = open::reader(path)?;
            return if open::proof(&sql).doing(BEGINNING)?.is_some() { Ok(()) } else { Err(error) };
        }
    };
    if open::proof(&sql).doing(BEGINNING)?.is_none()
        && let Some(proof) = file.keys().proof()?
    {
        let tx = sql.transaction_with_behavior(TransactionBehavior::Immediate).doing(BEGINNING)?;
        tx.execute("INSERT OR IGNORE INTO sealing VALUES (1, ?1, 1)", [proof]).doing(BEGINNING)?;
        let begun = tx.commit();
        ends_the_process(&sql, begun).doing(BEGINNING)?;
    }
    leave(&sql).doing(BEGINNING).map(drop)
}

fn refused(path: &Path, why: &dyn fmt::Display) -> StoreError {
    StoreError::Key { path: path.to_owned(), detail: why.to_string() }
}

const fn rows(table: SealedTable) -> [&'static str; 2] {
    match table {
        SealedTable::Events => [
            "SELECT event, body FROM events WHERE event > ?1 AND body IS NOT NULL ORDER BY event LIMIT ?2",
            "UPDATE events SET body = ?2 WHERE event = ?1",
        ],
        SealedTable::FurtherBodies => [
            "SELECT body, bytes FROM further_bodies WHERE body > ?1 ORDER BY body LIMIT ?2",
            "UPDATE further_bodies SET bytes = ?2 WHERE body = ?1",
        ],
        SealedTable::Subscribers => [
            "SELECT lane, settings FROM subscribers WHERE lane > ?1 ORDER BY lane LIMIT ?2",
            "UPDATE subscribers SET settings = ?2 WHERE lane = ?1",
        ],
        SealedTable::Secrets => [
            "SELECT id, secret, lane, created FROM secrets WHERE id > ?1 ORDER BY id LIMIT ?2",
            "UPDATE secrets SET secret = ?2 WHERE id = ?1",
        ],
        // Of a lane there are 64 slots.
        SealedTable::Answers => [
            "SELECT lane << 6 | slot, head, delivery, at, body, cut FROM answers
             WHERE (lane, slot) > (?1 >> 6, ?1 & 63) ORDER BY lane, slot LIMIT ?2",
            "UPDATE answers SET head = ?2, body = ?3 WHERE lane = ?1 >> 6 AND slot = ?1 & 63",
        ],
        SealedTable::Changes => [
            "SELECT number, changed FROM changes WHERE number > ?1 ORDER BY number LIMIT ?2",
            "UPDATE changes SET changed = ?2 WHERE number = ?1",
        ],
        SealedTable::Proof => ["", "UPDATE sealing SET proof = ?1, plain = 0"],
    }
}

fn read(table: SealedTable, row: &Row<'_>) -> Result<(u64, Field, Stored)> {
    let number: u64 = row.get(0)?;
    Ok(match table {
        SealedTable::Events | SealedTable::Proof => {
            (number, Field::EventBody(number), Stored::Bytes(row.get(1)?))
        }
        SealedTable::FurtherBodies => (number, Field::FurtherBody(number), Stored::Bytes(row.get(1)?)),
        SealedTable::Subscribers => (number, Field::Settings(LaneId(number)), Stored::Text(row.get(1)?)),
        SealedTable::Changes => (number, Field::Changed(number), Stored::Text(row.get(1)?)),
        SealedTable::Secrets => (number, Field::Secret(row.get(2)?, row.get(3)?), Stored::Text(row.get(1)?)),
        SealedTable::Answers => {
            let (delivery, at): (DeliveryId, StoreTime) = (row.get(2)?, row.get(3)?);
            let answer = KeptAnswer { head: row.get(1)?, body: row.get(4)?, cut: row.get(5)? };
            (number, Field::AnswerHead(delivery, at), Stored::Answer(answer))
        }
    })
}

impl Work<'_> {
    pub(super) fn reseal_rows(&mut self, &Reseal { from: (table, after), max }: &Reseal) -> Result<Reply> {
        let [select, update] = rows(table);
        let mut update = self.sql.prepare_cached(update)?;
        if table == SealedTable::Proof {
            update.execute([self.seal.proof()?])?;
            return Ok(Reply::Resealed(Resealed::default()));
        }
        let mut step = Step::new(self.seal, table, max);
        let mut select = self.sql.prepare_cached(select)?;
        let mut found = select.query(params![int(after), max])?;
        while !step.is_full()
            && let Some(row) = found.next()?
        {
            let (number, field, stored) = read(table, row)?;
            step.add(number, field, &stored)?;
        }
        drop(found);
        for (row, sealed) in &step.changed {
            let row = int(*row);
            match sealed {
                Stored::Bytes(bytes) => update.execute(params![row, bytes])?,
                Stored::Text(text) => update.execute(params![row, text])?,
                Stored::Answer(answer) => update.execute(params![row, answer.head, answer.body])?,
            };
        }
        Ok(step.reply())
    }
}
