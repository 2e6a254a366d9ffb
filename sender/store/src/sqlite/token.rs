use rusqlite::{Connection, Error, Result, Row, params};

use super::Work;
use crate::commit::token::{TokenRows, names_text, read_names};
use crate::token::StoredToken;

pub(super) fn tokens(sql: &Connection) -> Result<Vec<StoredToken>> {
    let read = |row: &Row<'_>| -> Result<StoredToken> {
        let names = row.get::<_, Option<String>>(6)?;
        Ok(StoredToken {
            name: row.get(0)?,
            digest: row.get(1)?,
            scope: row.get(2)?,
            created: row.get(3)?,
            by: row.get(4)?,
            expires: row.get(5)?,
            subscribers: read_names(names.as_deref()).ok_or(Error::InvalidQuery)?,
        })
    };
    let mut query = sql.prepare_cached(
        "SELECT name, digest, scope, created, created_by, expires, subscribers FROM tokens ORDER BY name",
    )?;
    query
        .query_map([], |row| Ok(read(row).unwrap_or_else(|_| StoredToken::unreadable(row.get(0).ok()))))?
        .collect()
}

impl TokenRows for Work<'_> {
    fn count_tokens(&mut self) -> Result<u64> {
        self.sql.prepare_cached("SELECT count(*) FROM tokens")?.query_row([], |row| row.get(0))
    }

    fn has_token(&mut self, name: &str) -> Result<bool> {
        self.sql.prepare_cached("SELECT 1 FROM tokens WHERE name = ?1")?.exists([name])
    }

    fn insert_token(&mut self, token: &StoredToken) -> Result<()> {
        let StoredToken { name, digest, scope, created, by, expires, subscribers } = token;
        self.sql
            .prepare_cached("INSERT INTO tokens VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![name, digest, scope, created, by, expires, names_text(subscribers.as_ref())])
            .map(drop)
    }

    fn delete_token(&mut self, name: &str) -> Result<()> {
        self.sql.prepare_cached("DELETE FROM tokens WHERE name = ?1")?.execute([name]).map(drop)
    }
}
