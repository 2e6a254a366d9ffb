use std::collections::HashSet;

use hookproof_power_loss::{Disk, Image, Images, Random, Recording};
use hookproof_sender::store::sqlite::{Options, SqliteStore};
use rusqlite::Connection;

#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) images: usize,
    pub(crate) damaged: usize,
    pub(crate) acknowledged: usize,
    pub(crate) missing: usize,
    pub(crate) first: Option<String>,
}

impl Found {
    pub(crate) fn add(&mut self, other: Self) {
        self.images += other.images;
        self.damaged += other.damaged;
        self.acknowledged += other.acknowledged;
        self.missing += other.missing;
        self.first = self.first.take().or(other.first);
    }
}

pub(crate) fn judge<'t>(
    (disk, recording): (&Disk, &Recording),
    cuts: &[usize],
    seed: u64,
    acknowledged: impl Fn(usize) -> Vec<&'t str>,
) -> Found {
    each((disk, recording), cuts, seed, |cut, there| {
        let (there, told) = (there.into_iter().collect::<HashSet<_>>(), acknowledged(cut));
        (told.len(), told.into_iter().filter(|id| !there.contains(*id)).count())
    })
}

/// A cut may lose events, but none that came before a surviving one.
pub(crate) fn judge_order((disk, recording): (&Disk, &Recording), cuts: &[usize], seed: u64) -> Found {
    let whole = open(disk, &Images::new(recording).whole()).unwrap();
    each((disk, recording), cuts, seed, |_, there| {
        (there.len(), there.iter().zip(&whole).filter(|(found, expected)| found != expected).count())
    })
}

/// `weigh` returns the number of events that an image should have, and of those that it lacks.
fn each(
    (disk, recording): (&Disk, &Recording),
    cuts: &[usize],
    seed: u64,
    mut weigh: impl FnMut(usize, Vec<String>) -> (usize, usize),
) -> Found {
    let (mut images, mut random, mut found) = (Images::new(recording), Random::new(seed), Found::default());
    for cut in cuts {
        let image = images.after(*cut, random.next());
        found.images += 1;
        let wrong = match open(disk, &image) {
            Err(error) => {
                found.damaged += 1;
                error
            }
            Ok(there) => {
                let (acknowledged, missing) = weigh(*cut, there);
                found.acknowledged += acknowledged;
                found.missing += missing;
                if missing == 0 {
                    continue;
                }
                format!("{missing} missing")
            }
        };
        found.first.get_or_insert(format!("cut {cut} of {}, seed {}: {wrong}", recording.len(), image.seed));
    }
    found
}

fn open(disk: &Disk, image: &Image) -> Result<Vec<String>, String> {
    disk.restart(image).unwrap();
    let path = disk.folder().join("sender.db");
    let options = Options { create: true, ..Options::default() };
    let store = SqliteStore::open(&path, &options).map_err(|error| error.to_string())?;
    let sql = Connection::open(&path).unwrap();
    let text = |error: rusqlite::Error| error.to_string();
    let whole: String = sql.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(text)?;
    if whole != "ok" {
        return Err(whole.lines().take(2).collect());
    }
    let mut query = sql.prepare("SELECT id FROM events ORDER BY event").map_err(text)?;
    let ids = query.query_map([], |row| row.get(0)).map_err(text)?.collect::<Result<_, _>>().map_err(text)?;
    drop(store);
    Ok(ids)
}

/// Nothing, or a store with so many subscribers.
pub(crate) fn subscribers(disk: &Disk, image: &Image) -> Option<u32> {
    disk.restart(image).unwrap();
    let path = disk.folder().join("sender.db");
    path.exists().then(|| {
        let tables = "SELECT count(*) FROM sqlite_schema";
        let tables: u32 = Connection::open(&path).unwrap().query_row(tables, [], |row| row.get(0)).unwrap();
        assert!(tables > 0, "cut {}: a file without tables has the name", image.cut);
        let store = SqliteStore::open(&path, &Options::default()).unwrap();
        let count = "SELECT count(*) FROM subscribers";
        let count = Connection::open(&path).unwrap().query_row(count, [], |row| row.get(0)).unwrap();
        drop(store);
        count
    })
}
