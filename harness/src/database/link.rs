//! The way from one process of the sender to the private database server: a socket of the harness's own, whose bytes it carries on.
//! A fault may silence it, as a network does that loses everything, or cut it.
//!
//! Bounds: [`CONNECTIONS_MAX`] connections, more are closed at once; what is read and may not pass yet is at most one
//! buffer for each direction, and its writer waits.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};

/// More than a process of any sender keeps to its database.
const CONNECTIONS_MAX: usize = 256;
/// What is carried at once.
const PIECE_BYTES: usize = 16 << 10;

/// What is done to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// Nothing passes, and neither side hears of it; what was said passes once it is open again.
    Silence,
    /// Nothing passes: connections are closed, and none can be made.
    Cut,
}

/// What is done to a link now: the same may be done to it several times over, and ends as often.
#[derive(Clone, Copy, Debug, Default)]
struct Barriers {
    silences: u32,
    cuts: u32,
}

impl Barriers {
    const fn of(&mut self, barrier: Barrier) -> &mut u32 {
        match barrier {
            Barrier::Silence => &mut self.silences,
            Barrier::Cut => &mut self.cuts,
        }
    }

    const fn is_cut(&self) -> bool {
        self.cuts > 0
    }

    const fn is_silent(&self) -> bool {
        self.silences > 0 && !self.is_cut()
    }
}

/// A link. It ends when this is dropped.
#[derive(Debug)]
pub struct Link {
    folder: PathBuf,
    barriers: watch::Sender<Barriers>,
    /// Connections that it has carried.
    carried: Arc<AtomicU64>,
    accepting: AbortHandle,
}

impl Link {
    /// Opens one in a folder of its own, which nobody else removes, to the server whose socket is there.
    pub(super) fn open(folder: PathBuf, server: &Path) -> io::Result<Self> {
        std::fs::create_dir(&folder)?;
        // Whoever keeps the server removes what is there, and is somebody else where the harness is root.
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777))?;
        let listener = UnixListener::bind(socket(&folder))?;
        let (barriers, passage) = watch::channel(Barriers::default());
        let carried = Arc::default();
        let way = Way { server: socket(server), passage, carried: Arc::clone(&carried) };
        let accepting = tokio::spawn(accept(listener, way)).abort_handle();
        Ok(Self { folder, barriers, carried, accepting })
    }

    /// The address of the database by this way.
    #[must_use]
    pub fn address(&self) -> String {
        super::server::address_in(&self.folder)
    }

    /// Whether anybody has ever come by this way.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.carried.load(Ordering::Relaxed) > 0
    }

    /// Begins to let nothing pass.
    pub fn bar(&self, barrier: Barrier) {
        self.barriers.send_modify(|barriers| *barriers.of(barrier) += 1);
    }

    /// Ends what was begun so; what else was begun lasts.
    pub fn unbar(&self, barrier: Barrier) {
        self.barriers.send_modify(|barriers| {
            let count = barriers.of(barrier);
            *count = count.saturating_sub(1);
        });
    }

    /// Ends all that was begun.
    pub fn open_again(&self) {
        self.barriers.send_replace(Barriers::default());
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Where PostgreSQL listens in a folder.
pub(super) fn socket(folder: &Path) -> PathBuf {
    folder.join(".s.PGSQL.5432")
}

/// Where a link leads to, and what may pass.
#[derive(Clone, Debug)]
struct Way {
    server: PathBuf,
    passage: watch::Receiver<Barriers>,
    carried: Arc<AtomicU64>,
}

async fn accept(listener: UnixListener, way: Way) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut carried = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Whoever finds no place is closed, and so is who is gone already.
                let (Ok((near, _)), Ok(place)) = (accepted, Arc::clone(&places).try_acquire_owned()) else { continue };
                let way = way.clone();
                carried.spawn(async move {
                    // How it ends, both sides hear from their sockets.
                    let _ = carry(near, way).await;
                    drop(place);
                });
            }
            Some(_) = carried.join_next() => {}
        }
    }
}

/// Carries what both sides say, until one of them ends or the link is cut.
async fn carry(near: UnixStream, way: Way) -> io::Result<()> {
    let Way { server, mut passage, carried } = way;
    if !opens(&mut passage).await {
        return Ok(());
    }
    let (from_near, to_near) = near.into_split();
    let (from_far, to_far) = UnixStream::connect(server).await?.into_split();
    carried.fetch_add(1, Ordering::Relaxed);
    tokio::select! {
        ended = pass_on(from_near, to_far, passage.clone()) => ended,
        ended = pass_on(from_far, to_near, passage.clone()) => ended,
        _ = passage.wait_for(Barriers::is_cut) => Ok(()),
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut passage: watch::Receiver<Barriers>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = from.read(&mut piece).await?;
        // That one side has gone is news that a silent link doesn't carry either.
        if !opens(&mut passage).await || read == 0 {
            return Ok(());
        }
        to.write_all(&piece[..read]).await?;
    }
}

/// Waits while the link is silent, and answers whether it is open then. One that nobody keeps any more is cut.
async fn opens(passage: &mut watch::Receiver<Barriers>) -> bool {
    passage.wait_for(|barriers| !barriers.is_silent()).await.is_ok_and(|barriers| !barriers.is_cut())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says back what it hears, and a link to it.
    fn echoing(folder: &Path) -> Link {
        let listener = UnixListener::bind(socket(folder)).unwrap();
        tokio::spawn(async move {
            let mut peers = JoinSet::new();
            while let Ok((peer, _)) = listener.accept().await {
                let (mut from, mut to) = peer.into_split();
                peers.spawn(async move { tokio::io::copy(&mut from, &mut to).await });
            }
        });
        Link::open(folder.join("link"), folder).unwrap()
    }

    async fn say(link: &Link) -> UnixStream {
        let mut peer = UnixStream::connect(socket(&link.folder)).await.unwrap();
        peer.write_all(b"?").await.unwrap();
        peer
    }

    #[tokio::test]
    async fn what_is_said_in_silence_passes_when_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let link = echoing(folder.path());
        let mut before = say(&link).await;
        assert_eq!(before.read_u8().await.unwrap(), b'?');
        link.bar(Barrier::Silence);
        before.write_all(b"!").await.unwrap();
        let mut during = say(&link).await;
        // Whatever may pass has passed once both have waited for as long as others need.
        for peer in [&mut before, &mut during] {
            let heard = tokio::time::timeout(std::time::Duration::from_millis(50), peer.read_u8()).await;
            assert!(heard.is_err(), "{heard:?}");
        }
        link.unbar(Barrier::Silence);
        assert_eq!((before.read_u8().await.unwrap(), during.read_u8().await.unwrap()), (b'!', b'?'));
    }

    #[tokio::test]
    async fn who_is_cut_off_hears_it_at_once_and_comes_back_when_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let link = echoing(folder.path());
        let mut before = say(&link).await;
        before.read_u8().await.unwrap();
        link.bar(Barrier::Silence);
        link.bar(Barrier::Cut);
        assert!(before.read_u8().await.is_err(), "the connection is closed");
        let mut during = UnixStream::connect(socket(&link.folder)).await.unwrap();
        assert!(during.read_u8().await.is_err(), "and so is each that is made");
        link.open_again();
        assert_eq!(say(&link).await.read_u8().await.unwrap(), b'?');
    }

    #[tokio::test]
    async fn what_ends_is_what_was_begun_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let link = echoing(folder.path());
        assert!(!link.is_used());
        [Barrier::Cut, Barrier::Silence, Barrier::Cut].into_iter().for_each(|barrier| link.bar(barrier));
        link.unbar(Barrier::Cut);
        let mut during = UnixStream::connect(socket(&link.folder)).await.unwrap();
        assert!(during.read_u8().await.is_err(), "one cut lasts");
        link.unbar(Barrier::Cut);
        let mut silent = say(&link).await;
        let heard = tokio::time::timeout(std::time::Duration::from_millis(50), silent.read_u8()).await;
        assert!(heard.is_err() && !link.is_used(), "{heard:?}");
        link.unbar(Barrier::Silence);
        assert_eq!(silent.read_u8().await.unwrap(), b'?');
        assert!(link.is_used());
    }
}
