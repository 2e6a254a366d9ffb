use tokio_postgres::{Error, Row};

use super::link::Link;
use super::values::Count;
use super::{Result, Work};
use crate::commit::token::{TokenRows, names_text, read_names};
use crate::token::StoredToken;

const ALL: &str =
    "SELECT name, digest, scope, created, created_by, expires, subscribers FROM tokens ORDER BY name";

pub(super) fn tokens(sql: &Link) -> std::result::Result<Vec<StoredToken>, Error> {
    let name = |row: &Row| row.try_get::<_, &str>(0).ok().map(Into::into);
    let rows = sql.query(ALL, &[])?;
    Ok(rows.iter().map(|row| read(row).unwrap_or_else(|| StoredToken::unreadable(name(row)))).collect())
}

fn read(row: &Row) -> Option<StoredToken> {
    Some(StoredToken {
        name: row.try_get::<_, &str>(0).ok()?.into(),
        digest: row.try_get::<_, &[u8]>(1).ok()?.try_into().ok()?,
        scope: row.try_get(2).ok()?,
        created: row.try_get(3).ok()?,
        by: row.try_get::<_, &str>(4).ok()?.into(),
        expires: row.try_get(5).ok()?,
        subscribers: read_names(row.try_get(6).ok()?)?,
    })
}

/// `state` is locked, so of two commits with the same name the second finds the first.
impl TokenRows for Work<'_> {
    fn count_tokens(&mut self) -> Result<u64> {
        let found = self.sql.first("SELECT count(*) FROM tokens", &[])?;
        Ok(found.map(|row| row.try_get::<_, Count>(0)).transpose()?.unwrap_or_default().0)
    }

    fn has_token(&mut self, name: &str) -> Result<bool> {
        Ok(self.sql.exists("SELECT 1 FROM tokens WHERE name = $1", &[&name])?)
    }

    fn insert_token(&mut self, token: &StoredToken) -> Result<()> {
        let StoredToken { name, digest, scope, created, by, expires, subscribers } = token;
        let insert = "INSERT INTO tokens VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let names = names_text(subscribers.as_ref());
        self.sql.execute(insert, &[&&**name, &&digest[..], scope, created, &&**by, expires, &names])?;
        Ok(())
    }

    fn delete_token(&mut self, name: &str) -> Result<()> {
        self.sql.execute("DELETE FROM tokens WHERE name = $1", &[&name])?;
        Ok(())
    }
}
