//! A plain SQLite program with one defect: the judge must find it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use hookproof_power_loss::{Change, Disk, Images, Of, Random};
use rusqlite::Connection;

/// Set only in the program's own process.
const DATABASE: &str = "POWER_LOSS_PROGRAM";
const DEFECT: &str = "POWER_LOSS_DEFECT";
const ROWS: usize = 1_500;
/// A reader starts and ends after so many rows; the next sync of the database then fails.
const READ_FROM: usize = 380;
const READ_TO: usize = 600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    SyncsNothing,
    GoesOnAfterAFailure,
    /// As SQLite does of the folder that names the log.
    IgnoresTheFolder,
}

/// Prints each row once it is committed. Runs checkpoints beside the commits, as the sender does.
#[test]
#[ignore = "is the program of the other test"]
fn the_program() {
    let Ok(path) = std::env::var(DATABASE) else { return };
    let defect = std::env::var(DEFECT).unwrap();
    let sql = Connection::open(&path).unwrap();
    let synchronous = if defect == "SyncsNothing" { "OFF" } else { "FULL" };
    let settings = format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0;
         CREATE TABLE rows (row INTEGER PRIMARY KEY, bytes BLOB)"
    );
    sql.execute_batch(&settings).unwrap();
    let beside = Connection::open(&path).unwrap();
    beside.execute_batch(&format!("PRAGMA synchronous = {synchronous}")).unwrap();
    let reader = Connection::open(&path).unwrap();
    for row in 0..ROWS {
        sql.execute("INSERT INTO rows VALUES (?1, randomblob(2000))", [row]).unwrap();
        println!("row {row}");
        std::io::stdout().flush().unwrap();
        match row {
            READ_FROM => reader.execute_batch("BEGIN; SELECT count(*) FROM rows").unwrap(),
            READ_TO => {
                reader.execute_batch("COMMIT").unwrap();
                // Waits until the test has made the next sync fail.
                assert_eq!(std::io::stdin().read_line(&mut String::new()).unwrap(), 0);
            }
            _ => {}
        }
        if row % 100 == 99 {
            let _ = beside.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }
    std::process::abort();
}

fn spoilt(defect: Defect) -> (usize, usize) {
    let disk = Disk::new().unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "power_loss::program::the_program", "--nocapture", "--ignored"]);
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    program.env(DATABASE, disk.folder().join("rows.db")).env(DEFECT, format!("{defect:?}"));
    disk.attach(&mut program);
    if defect == Defect::IgnoresTheFolder {
        disk.fail_syncs(Of::Folder, u64::MAX).unwrap();
    }
    let mut program = program.spawn().unwrap();
    let mut committed = Vec::new();
    for line in BufReader::new(program.stdout.take().unwrap()).lines().map_while(Result::ok) {
        let Some((_, row)) = line.rsplit_once("row ") else { continue };
        let row: usize = row.parse().unwrap();
        committed.push(disk.position().unwrap());
        if row == READ_TO {
            if defect == Defect::GoesOnAfterAFailure {
                disk.fail_syncs(Of::Database, 1).unwrap();
            }
            drop(program.stdin.take());
        }
    }
    program.wait().unwrap();
    assert_eq!(committed.len(), ROWS);
    let recording = disk.recording().unwrap();
    let fails = recording.places(|change| matches!(change, Change::FailedSync { .. })).len();
    match defect {
        Defect::None | Defect::SyncsNothing => assert_eq!(fails, 0),
        Defect::GoesOnAfterAFailure => assert_eq!(fails, 1),
        Defect::IgnoresTheFolder => assert!(fails > 0),
    }
    let (mut images, mut random, mut spoilt) = (Images::new(&recording), Random::new(5), 0);
    for number in 0..=40 {
        let cut = recording.len() * number / 40;
        let rows = committed.iter().filter(|position| recording.before(**position) <= cut).count();
        let folder = tempfile::tempdir().unwrap();
        images.after(cut, random.next()).write(folder.path()).unwrap();
        spoilt += usize::from(!holds(&folder.path().join("rows.db"), rows));
    }
    (spoilt, 41)
}

fn holds(path: &Path, rows: usize) -> bool {
    let sql = Connection::open(path).unwrap();
    let whole = sql.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    let found = sql.query_row("SELECT count(*) FROM rows", [], |row| row.get::<_, usize>(0));
    whole.is_ok_and(|whole| whole == "ok") && found.unwrap_or(0) >= rows
}

#[test]
fn the_disk_images_reveal_a_faulty_program() {
    for defect in [Defect::None, Defect::SyncsNothing, Defect::GoesOnAfterAFailure, Defect::IgnoresTheFolder]
    {
        let (spoilt, images) = spoilt(defect);
        eprintln!("{defect:?}: {spoilt} of {images} images");
        assert_eq!(spoilt > 0, defect != Defect::None, "{defect:?}: {spoilt} of {images} images");
    }
}
