//! Each image after a cut has every event acknowledged before the cut. `cargo test -p hookproof-sender --test
//! power_loss` makes 200 images. With `-- --ignored` it makes 20,000, or `HOOKPROOF_IMAGES` images.

mod image;
mod load;
mod program;

use hookproof_power_loss::{Change, Disk, Images, Of, Random, Recording};
use rusqlite::Connection;

use crate::binary::{SERVE, Serving};
use image::{Found, judge, judge_order, subscribers};
use load::{Load, acknowledged};

/// Images of the quick form, over all recordings.
const QUICK: usize = 200;
const LONG: usize = 20_000;
const OF_ONE_RECORDING: usize = 500;

#[test]
fn no_cut_loses_what_was_acknowledged() {
    assert_keeps_all(everything(QUICK / 2, 1, false));
    assert_keeps_all(two_processes(QUICK / 2, 2));
}

#[test]
fn no_cut_while_a_store_is_made_leaves_a_part_of_one() {
    let disk = Disk::new().unwrap();
    drop(Load::begin(&disk, &[], false));
    let recording = disk.recording().unwrap();
    let (mut images, mut random) = (Images::new(&recording), Random::new(6));
    let mut found = [0; 3];
    for cut in 0..=recording.len() {
        found[match subscribers(&disk, &images.after(cut, random.next())) {
            None => 0,
            Some(0) => 1,
            Some(_) => 2,
        }] += 1;
    }
    eprintln!("images without a store, with an empty one, with a subscriber: {found:?}");
    assert!(!found.contains(&0), "{found:?}");
}

#[test]
#[ignore = "takes minutes"]
fn no_cut_of_many_loses_what_was_acknowledged() {
    let images = std::env::var("HOOKPROOF_IMAGES").map_or(LONG, |text| text.parse().unwrap());
    let mut total = Found::default();
    for seed in 0_u64.. {
        let left = images - total.images;
        if left == 0 {
            break;
        }
        let these = left.min(OF_ONE_RECORDING);
        let by_one = everything(these / 2, seed, false);
        total.add(by_one);
        total.add(two_processes(these - these / 2, seed));
        eprintln!("{total:?}");
    }
    assert_keeps_all(total);
}

#[track_caller]
fn assert_keeps_all(found: Found) {
    eprintln!("{found:?}");
    assert!(found.images > 0 && found.acknowledged > 0, "nothing was judged: {found:?}");
    assert_eq!((found.damaged, found.missing), (0, 0), "{found:?}");
}

fn everything(images: usize, seed: u64, lies: bool) -> Found {
    let disk = Disk::new().unwrap();
    let mut load = Load::begin(&disk, &[], lies);
    load.emit(500);
    load.stop();
    let vacuum_from = disk.position().unwrap();
    assert!(load.command(&["vacuum"]).output().unwrap().status.success());
    let recording = disk.recording().unwrap();
    let cuts = cuts(&recording, recording.before(vacuum_from), images, seed);
    judge((&disk, &recording), &cuts, seed, |cut| acknowledged(&load.told, &recording, cut))
}

fn two_processes(images: usize, seed: u64) -> Found {
    let disk = Disk::new().unwrap();
    let mut load = Load::begin(&disk, &[], false);
    load.join();
    load.emit(300);
    load.end();
    load.join();
    load.emit(100);
    load.end();
    let recording = disk.recording().unwrap();
    let cuts = cuts(&recording, recording.len(), images, seed);
    judge((&disk, &recording), &cuts, seed, |cut| acknowledged(&load.told, &recording, cut))
}

/// A quarter during writes of the database, a quarter during creation and vacuum, the rest anywhere.
fn cuts(recording: &Recording, vacuum_from: usize, images: usize, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let databases = recording.files_named(".db");
    let moves = recording.places(|change| match change {
        Change::Write { file, .. } | Change::Sync { file } => databases.contains(file),
        _ => false,
    });
    let place = |random: &mut Random, number: usize| match number % 8 {
        0 | 1 => moves[random.place(moves.len())],
        2 => random.place(150.min(recording.len())),
        3 if vacuum_from < recording.len() => vacuum_from + random.place(recording.len() - vacuum_from),
        _ => random.place(recording.len() + 1),
    };
    let mut cuts: Vec<usize> = (0..images).map(|number| place(&mut random, number)).collect();
    cuts.sort_unstable();
    cuts
}

/// The run moves a part of the log without a sync before it.
fn cuts_after_a_failure(of: Of, seed: u64, options: &'static [&'static str], others: usize) -> Found {
    let disk = Disk::new().unwrap();
    let mut load = Load::begin(&disk, options, false);
    (0..others).for_each(|_| load.join());
    load.emit(150);
    let reader = Connection::open(disk.folder().join("sender.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM events").unwrap();
    load.emit(150);
    drop(reader);
    disk.fail_syncs(of, 1).unwrap();
    assert_eq!(load.emit_until_one_ends(), Some(70));
    load.join();
    load.emit(200);
    load.end();
    let recording = disk.recording().unwrap();
    let failed = recording.places(|change| matches!(change, Change::FailedSync { .. }));
    assert_eq!(failed.len(), 1, "one sync failed");
    let rest = recording.len() - failed[0];
    let cuts: Vec<usize> = (0..=10).map(|number| failed[0] + rest * number / 10).collect();
    judge((&disk, &recording), &cuts, seed, |cut| acknowledged(&load.told, &recording, cut))
}

#[test]
fn a_sync_of_the_database_that_fails_ends_the_sender_and_loses_nothing() {
    let mut total = Found::default();
    (0..4).for_each(|seed| total.add(cuts_after_a_failure(Of::Database, seed, &[], 0)));
    assert_keeps_all(total);
}

#[test]
fn a_sync_of_the_log_that_fails_ends_the_sender_and_loses_nothing() {
    let mut total = Found::default();
    (0..4).for_each(|seed| total.add(cuts_after_a_failure(Of::Log, seed, &[], 0)));
    assert_keeps_all(total);
}

#[test]
fn a_sync_that_fails_loses_nothing_while_another_process_stays_on_the_file() {
    assert_keeps_all(cuts_after_a_failure(Of::Database, 1, &[], 1));
    assert_keeps_all(cuts_after_a_failure(Of::Log, 2, &[], 1));
}

#[test]
fn a_start_whose_syncs_fail_ends_before_anything_is_acknowledged() {
    for (of, count) in [(Of::Folder, u64::MAX), (Of::Database, 1)] {
        let disk = Disk::new().unwrap();
        let mut load = Load::begin(&disk, &[], false);
        load.stop();
        disk.fail_syncs(of, count).unwrap();
        let mut serving = Serving::spawn(load.command(&SERVE));
        assert_eq!(serving.wait_for_line_or_end("\"address\""), None, "{of:?}: it serves");
        assert_eq!(serving.wait().0, Some(70), "{of:?}: {:#?}", serving.lines());
        disk.fail_syncs(of, 0).unwrap();
        load.join();
        load.emit(60);
        load.end();
        let recording = disk.recording().unwrap();
        let cuts = cuts(&recording, recording.len(), 20, 7);
        assert_keeps_all(judge((&disk, &recording), &cuts, 7, |cut| {
            acknowledged(&load.told, &recording, cut)
        }));
    }
}

#[test]
fn durable_against_the_end_of_the_process_alone_a_cut_takes_the_newest_events_alone() {
    let disk = Disk::new().unwrap();
    let mut load = Load::begin(&disk, &["--durability", "process"], false);
    load.emit(500);
    load.end();
    let recording = disk.recording().unwrap();
    let found = judge_order((&disk, &recording), &cuts(&recording, recording.len(), 60, 3), 3);
    eprintln!("{found:?}");
    assert_eq!((found.damaged, found.missing), (0, 0), "{found:?}");
}

#[test]
fn syncs_that_do_nothing_are_caught() {
    let found = everything(60, 4, true);
    assert!(found.damaged + found.missing > 0, "{found:?}");
}
