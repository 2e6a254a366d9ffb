use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use crate::exchange::Failure;
use crate::{figures, now, offer};

const BYTES_WANTED: f64 = 500.0;
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Smaller tables and indexes are not listed, in bytes for a delivery.
const TREE_BYTES_TOLD: f64 = 1.0;

/// Whether a sweep has reached the newest delivery. It records expiry in the order of deliveries, all of which wait.
const ALL_NOTED: &str =
    "SELECT count(*) FROM (SELECT delivery, expires FROM deliveries ORDER BY delivery DESC LIMIT 1)
    JOIN expiring USING (expires, delivery)";
const TREES: &str = "SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE ORDER BY pgsize DESC";
const BODY: &str = "SELECT bytes FROM deliveries ORDER BY delivery DESC LIMIT 1";

/// The record of expiry needs space too.
pub(crate) fn wait_until_noted(file: &Path) -> Result<(), Failure> {
    let sql = Connection::open(file)?;
    while sql.query_row(ALL_NOTED, [], |row| row.get::<_, u64>(0))? == 0 {
        offer::wait_until(now() + LOOK_EVERY);
    }
    Ok(())
}

pub(crate) fn print(file: &Path, deliveries: u64) -> Result<(), Failure> {
    let each = |bytes: u64| figures::float(bytes) / figures::float(deliveries);
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let [file_bytes, log_bytes] =
        [file.to_owned(), PathBuf::from(log)].map(|path| std::fs::metadata(path).map(|found| found.len()));
    let (file_bytes, log_bytes) = (file_bytes?, log_bytes?);
    figures::count("the file, MiB", figures::float(file_bytes >> 20));
    figures::count("its log, which is bounded, MiB", figures::float(log_bytes >> 20));
    let sql = Connection::open(file)?;
    let body_bytes = sql.query_row(BODY, [], |row| row.get(0))?;
    figures::count("the body of each, bytes", figures::float(body_bytes));
    figures::wanted("the file for a waiting delivery, bytes", each(file_bytes), BYTES_WANTED);
    let mut trees = sql.prepare(TREES)?;
    let mut rows = trees.query([])?;
    while let Some(row) = rows.next()? {
        let (name, bytes): (String, u64) = (row.get(0)?, row.get(1)?);
        if each(bytes) >= TREE_BYTES_TOLD {
            figures::count(&format!("  of which {name}"), each(bytes));
        }
    }
    Ok(())
}
