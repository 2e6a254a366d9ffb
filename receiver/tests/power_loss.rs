//! The inbox on disks that lose power: each image after a cut opens, and knows every delivery acknowledged before.
//!
//! `cargo test -p hookproof-receiver --test power_loss` makes 200 images. With `-- --ignored` it makes 20,000, or
//! `HOOKPROOF_IMAGES` images.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hookproof_power_loss::{Change, Disk, Images, Of, Random, Recording};
use hookproof_receiver::clock::Clock;
use hookproof_receiver::inbox::{Accepted, Arrival, Counting, Inbox, Options};

/// The recorded process's inbox; its first and last delivery, and their size in bytes.
const DATABASE: &str = "POWER_LOSS_INBOX";
const NUMBERS: [&str; 3] = ["POWER_LOSS_FROM", "POWER_LOSS_TO", "POWER_LOSS_BYTES"];

const AT_ONCE: usize = 8;

const QUICK: usize = 200;
const LONG: usize = 20_000;
const OF_ONE_RECORDING: usize = 500;

#[test]
#[ignore = "is the process of the other tests"]
fn the_inbox() {
    let Ok(path) = std::env::var(DATABASE) else { return };
    let [from, to, bytes] = NUMBERS.map(|name| std::env::var(name).unwrap().parse::<usize>().unwrap());
    let inbox = Inbox::open(Options::new(path), Clock::wall(), Arc::new(Counting)).unwrap();
    let numbers: Vec<usize> = (from..to).collect();
    for some in numbers.chunks(AT_ONCE) {
        for (number, accepted) in some.iter().zip(offer(&inbox, some, bytes)) {
            if accepted == Some(Accepted::New) {
                println!("took {number}");
            }
        }
        std::io::stdout().flush().unwrap();
    }
    // The next accepted delivery syncs done work.
    inbox.close();
}

fn offer(inbox: &Inbox, numbers: &[usize], bytes: usize) -> Vec<Option<Accepted>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let offered: Vec<_> = numbers
            .iter()
            .map(|number| {
                let arrival = Arrival::new(format!("delivery-{number}"), vec![b'x'; bytes]);
                let inbox = inbox.clone();
                tokio::spawn(async move { inbox.accept(arrival).await })
            })
            .collect();
        let mut answers = Vec::new();
        for answer in offered {
            answers.push(answer.await.unwrap().ok());
        }
        answers
    })
}

struct Shelf {
    disk: Disk,
    told: Vec<(usize, u64)>,
}

impl Shelf {
    fn new() -> Self {
        Self { disk: Disk::new().unwrap(), told: Vec::new() }
    }

    fn start(&self, numbers: [usize; 3], lies: bool) -> Child {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "the_inbox", "--nocapture", "--ignored"]).stdout(Stdio::piped());
        program.env(DATABASE, self.disk.folder().join("inbox.db"));
        program.envs(NUMBERS.into_iter().zip(numbers.map(|number| number.to_string())));
        if lies {
            self.disk.attach_lying(&mut program);
        } else {
            self.disk.attach(&mut program);
        }
        program.spawn().unwrap()
    }

    fn take(&mut self, [from, to, bytes]: [usize; 3], lies: bool, fails: Option<(Of, usize)>) -> Option<i32> {
        let mut program = self.start([from, to, bytes], lies);
        for line in BufReader::new(program.stdout.take().unwrap()).lines().map_while(Result::ok) {
            let Some((_, number)) = line.rsplit_once("took ") else { continue };
            let number = number.parse().unwrap();
            self.told.push((number, self.disk.position().unwrap()));
            if let Some((of, after)) = fails
                && number == after
            {
                self.disk.fail_syncs(of, 1).unwrap();
            }
        }
        program.wait().unwrap().code()
    }

    fn judge(&self, recording: &Recording, cuts: &[usize], seed: u64) -> [usize; 3] {
        let (mut images, mut random) = (Images::new(recording), Random::new(seed));
        let [mut damaged, mut missing] = [0; 2];
        for cut in cuts {
            let image = images.after(*cut, random.next());
            self.disk.restart(&image).unwrap();
            let told = self.told.iter().filter(|(_, position)| recording.before(*position) <= *cut);
            let told: Vec<usize> = told.map(|(number, _)| *number).collect();
            match lacks(&self.disk.folder().join("inbox.db"), &told) {
                Ok(0) => continue,
                Ok(lacking) => missing += lacking,
                Err(error) => {
                    damaged += 1;
                    eprintln!("{error}");
                }
            }
            eprintln!(
                "cut {cut} of {}, seed {}: damaged {damaged}, missing {missing}",
                recording.len(),
                image.seed
            );
        }
        [cuts.len(), damaged, missing]
    }
}

fn lacks(path: &Path, told: &[usize]) -> Result<usize, String> {
    let inbox = Inbox::open(Options::new(path), Clock::wall(), Arc::new(Counting));
    let inbox = inbox.map_err(|error| error.to_string())?;
    let sql = rusqlite::Connection::open(path).unwrap();
    let whole = sql.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    let answers = offer(&inbox, told, 10);
    inbox.close();
    match whole {
        Ok(whole) if whole == "ok" => {
            Ok(answers.iter().filter(|answer| **answer != Some(Accepted::Known)).count())
        }
        other => Err(format!("{other:?}").chars().take(200).collect()),
    }
}

fn at_work(images: usize, seed: u64, lies: bool) -> [usize; 3] {
    let mut shelf = Shelf::new();
    shelf.take([0, 200, 2_000], lies, None);
    shelf.take([200, 300, 2_000], lies, None);
    assert_eq!(shelf.told.len(), 300, "all were acknowledged");
    let recording = shelf.disk.recording().unwrap();
    let databases = recording.files_named(".db");
    let moves = recording.places(|change| match change {
        Change::Write { file, .. } | Change::Sync { file } => databases.contains(file),
        _ => false,
    });
    let mut random = Random::new(seed);
    let cut = |number: usize| match number % 4 {
        0 => moves[random.place(moves.len())],
        1 => random.place(80.min(recording.len())),
        _ => random.place(recording.len() + 1),
    };
    let mut cuts: Vec<usize> = (0..images).map(cut).collect();
    cuts.sort_unstable();
    shelf.judge(&recording, &cuts, seed)
}

#[test]
fn an_inbox_whose_log_has_no_durable_name_takes_nothing() {
    let mut shelf = Shelf::new();
    shelf.take([0, 20, 10], false, None);
    let taken = shelf.told.len();
    assert!(taken > 0);
    shelf.disk.fail_syncs(Of::Folder, u64::MAX).unwrap();
    shelf.take([20, 40, 10], false, None);
    assert_eq!(shelf.told.len(), taken);
}

#[test]
fn no_cut_loses_what_was_acknowledged() {
    assert_eq!(at_work(QUICK, 1, false), [QUICK, 0, 0], "images, damaged, missing");
}

#[test]
#[ignore = "takes minutes"]
fn no_cut_of_many_loses_what_was_acknowledged() {
    let images = std::env::var("HOOKPROOF_IMAGES").map_or(LONG, |text| text.parse().unwrap());
    let mut total = [0; 3];
    for seed in 0_u64.. {
        if total[0] == images {
            break;
        }
        let found = at_work((images - total[0]).min(OF_ONE_RECORDING), seed, false);
        total.iter_mut().zip(found).for_each(|(total, found)| *total += found);
        eprintln!("images, damaged, missing: {total:?}");
    }
    assert_eq!(total, [images, 0, 0], "images, damaged, missing");
}

#[test]
fn syncs_that_do_nothing_are_caught() {
    let [_, damaged, missing] = at_work(40, 2, true);
    assert!(damaged + missing > 0, "nothing was lost");
}

#[track_caller]
fn check_failure(of: Of, bytes: usize, count: usize, images: usize) {
    let mut shelf = Shelf::new();
    let code = shelf.take([0, count, bytes], false, Some((of, AT_ONCE - 1)));
    assert_eq!(code, Some(70), "the process ends");
    shelf.take([count, count + 50, 2_000], false, None);
    let recording = shelf.disk.recording().unwrap();
    let failed = recording.places(|change| matches!(change, Change::FailedSync { .. }));
    assert_eq!(failed.len(), 1, "one sync failed");
    let rest = recording.len() - failed[0];
    let cuts: Vec<usize> = (1..=images).map(|number| failed[0] + rest * number / images).collect();
    assert_eq!(shelf.judge(&recording, &cuts, 3), [images, 0, 0], "images, damaged, missing");
}

#[test]
fn a_sync_of_the_log_that_fails_ends_the_process_and_loses_nothing() {
    check_failure(Of::Log, 2_000, 400, 20);
}

#[test]
fn a_sync_of_the_database_that_fails_ends_the_process_and_loses_nothing() {
    check_failure(Of::Database, 400_000, 150, 4);
}
