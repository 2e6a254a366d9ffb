//! Detects changes of a file: at once on SIGHUP, or when two polls agree.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Watch {
    file: PathBuf,
    hangups: Signal,
    ticks: Interval,
    looks: Looks,
}

impl Watch {
    /// The caller reads the file afterwards, so that no change is missed.
    pub(super) fn new(file: &Path) -> io::Result<Self> {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let now = std::fs::metadata(file).ok().map(|metadata| fingerprint(&metadata));
        let looks = Looks { reported: now, last: now };
        Ok(Self { file: file.to_owned(), hangups: signal(SignalKind::hangup())?, ticks, looks })
    }

    pub(super) async fn changed(&mut self) {
        loop {
            let asked = tokio::select! {
                _ = self.hangups.recv() => true,
                _ = self.ticks.tick() => false,
            };
            // Reading it later reports errors.
            let now = tokio::fs::metadata(&self.file).await.ok().map(|metadata| fingerprint(&metadata));
            if self.looks.report(now, asked) {
                return;
            }
        }
    }
}

/// Inode, length, time of modification. `None` without a file.
type Look = Option<(u64, u64, i64, i64)>;

fn fingerprint(metadata: &Metadata) -> (u64, u64, i64, i64) {
    (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

struct Looks {
    reported: Look,
    last: Look,
}

impl Looks {
    /// Waits while the file is being written, unless asked.
    fn report(&mut self, now: Look, asked: bool) -> bool {
        let settled = now == self.last;
        self.last = now;
        let report = asked || (settled && now != self.reported);
        if report {
            self.reported = now;
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_reported_once_and_only_when_nobody_writes_it_any_more() {
        let state = |bytes| Some((1, bytes, 0, 0));
        let mut looks = Looks { reported: state(0), last: state(0) };
        let rows = [
            ("nothing has changed", state(0), false, false),
            ("it is being written", state(1), false, false),
            ("it is still being written", state(2), false, false),
            ("it has settled", state(2), false, true),
            ("that was reported", state(2), false, false),
            ("somebody asks", state(2), true, true),
            ("it is being written, and somebody asks", state(3), true, true),
            ("that was reported, too", state(3), false, false),
            ("it is gone", None, false, false),
            ("it stays away", None, false, true),
            ("it is back as it was", state(3), false, false),
            ("and stays", state(3), false, true),
        ];
        for (what, now, asked, expected) in rows {
            assert_eq!(looks.report(now, asked), expected, "{what}");
        }
    }
}
