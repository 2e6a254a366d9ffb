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

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};

/// More than a process of any sender keeps to its database.
const CONNECTIONS_MAX: usize = 256;
/// What is carried at once.
const PIECE_BYTES: usize = 16 << 10;

/// What a link lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Everything.
    Open,
    /// Nothing, and neither side hears of it; what was said passes once it is open again.
    Silent,
    /// Nothing: connections are closed, and none can be made.
    Cut,
}

/// A link. It ends when this is dropped.
#[derive(Debug)]
pub struct Link {
    folder: PathBuf,
    passage: watch::Sender<Passage>,
    accepting: AbortHandle,
}

impl Link {
    /// Opens one in a folder of its own, which nobody else removes, to the server whose socket is there.
    pub(super) fn open(folder: PathBuf, server: &Path) -> io::Result<Self> {
        std::fs::create_dir(&folder)?;
        // Whoever keeps the server removes what is there, and is somebody else where the harness is root.
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777))?;
        let listener = UnixListener::bind(socket(&folder))?;
        let (passage, passing) = watch::channel(Passage::Open);
        let accepting = tokio::spawn(accept(listener, socket(server), passing)).abort_handle();
        Ok(Self { folder, passage, accepting })
    }

    /// The address of the database by this way.
    #[must_use]
    pub fn address(&self) -> String {
        super::server::address_in(&self.folder)
    }

    /// Says what may pass from now on.
    pub fn let_pass(&self, passage: Passage) {
        self.passage.send_replace(passage);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Where PostgreSQL listens in a folder.
fn socket(folder: &Path) -> PathBuf {
    folder.join(".s.PGSQL.5432")
}

async fn accept(listener: UnixListener, server: PathBuf, passage: watch::Receiver<Passage>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut carried = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Whoever finds no place is closed, and so is who is gone already.
                let (Ok((near, _)), Ok(place)) = (accepted, Arc::clone(&places).try_acquire_owned()) else { continue };
                let (server, passage) = (server.clone(), passage.clone());
                carried.spawn(async move {
                    // How it ends, both sides hear from their sockets.
                    let _ = carry(near, &server, passage).await;
                    drop(place);
                });
            }
            Some(_) = carried.join_next() => {}
        }
    }
}

/// Carries what both sides say, until one of them ends or the link is cut.
async fn carry(near: UnixStream, server: &Path, mut passage: watch::Receiver<Passage>) -> io::Result<()> {
    if open_or_cut(&mut passage).await == Passage::Cut {
        return Ok(());
    }
    let (from_near, to_near) = near.into_split();
    let (from_far, to_far) = UnixStream::connect(server).await?.into_split();
    tokio::select! {
        ended = pass_on(from_near, to_far, passage.clone()) => ended,
        ended = pass_on(from_far, to_near, passage.clone()) => ended,
        _ = passage.wait_for(|passage| *passage == Passage::Cut) => Ok(()),
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut passage: watch::Receiver<Passage>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = from.read(&mut piece).await?;
        // That one side has gone is news that a silent link doesn't carry either.
        if open_or_cut(&mut passage).await == Passage::Cut || read == 0 {
            return Ok(());
        }
        to.write_all(&piece[..read]).await?;
    }
}

/// Waits while the link is silent. One that nobody keeps any more is cut.
async fn open_or_cut(passage: &mut watch::Receiver<Passage>) -> Passage {
    passage.wait_for(|passage| *passage != Passage::Silent).await.map_or(Passage::Cut, |passage| *passage)
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
        link.let_pass(Passage::Silent);
        before.write_all(b"!").await.unwrap();
        let mut during = say(&link).await;
        // Whatever may pass has passed once both have waited for as long as others need.
        for peer in [&mut before, &mut during] {
            let heard = tokio::time::timeout(std::time::Duration::from_millis(50), peer.read_u8()).await;
            assert!(heard.is_err(), "{heard:?}");
        }
        link.let_pass(Passage::Open);
        assert_eq!((before.read_u8().await.unwrap(), during.read_u8().await.unwrap()), (b'!', b'?'));
    }

    #[tokio::test]
    async fn who_is_cut_off_hears_it_at_once_and_comes_back_when_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let link = echoing(folder.path());
        let mut before = say(&link).await;
        before.read_u8().await.unwrap();
        link.let_pass(Passage::Silent);
        link.let_pass(Passage::Cut);
        assert!(before.read_u8().await.is_err(), "the connection is closed");
        let mut during = UnixStream::connect(socket(&link.folder)).await.unwrap();
        assert!(during.read_u8().await.is_err(), "and so is each that is made");
        link.let_pass(Passage::Open);
        assert_eq!(say(&link).await.read_u8().await.unwrap(), b'?');
    }
}
