//! A proxy socket between one process of the sender and the private database server. A fault may silence, delay or
//! cut it.
//!
//! Bounds: [`CONNECTIONS_MAX`] connections, beyond which new ones are closed; [`PIECES_MAX`] held pieces of
//! [`PIECE_BYTES`] in each direction, beyond which the writer waits.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hookproof_judge::scenario::Partition;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::clock::Clock;

/// A sender's process keeps fewer connections to its database.
const CONNECTIONS_MAX: usize = 256;
const PIECE_BYTES: usize = 16 << 10;
const PIECES_MAX: usize = 64;

/// Active faults by index in the scenario, so that each ends alone. Delays add up.
#[derive(Debug, Default)]
struct Barriers(BTreeMap<u32, Partition>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToProcess,
}

impl Barriers {
    fn has(&self, how: Partition) -> bool {
        self.0.values().any(|one| *one == how)
    }

    fn is_cut(&self) -> bool {
        self.has(Partition::Cut)
    }

    /// Whether messages are held, unnoticed by both sides.
    fn is_silent(&self, direction: Direction) -> bool {
        let one_way = direction == Direction::ToProcess && self.has(Partition::HalfOpen);
        (self.has(Partition::Silence) || one_way) && !self.is_cut()
    }

    fn delay(&self) -> u64 {
        let delay = |how: &Partition| if let Partition::Delay(by) = how { by.0 } else { 0 };
        self.0.values().map(delay).fold(0, u64::saturating_add)
    }
}

#[derive(Debug)]
pub struct Link {
    folder: PathBuf,
    barriers: watch::Sender<Barriers>,
    carried: Arc<AtomicU64>,
    accepting: AbortHandle,
}

impl Link {
    /// Makes a folder for it. The server's socket is in `server`.
    pub(super) fn open(folder: PathBuf, server: &Path) -> io::Result<Self> {
        std::fs::create_dir(&folder)?;
        // The server's keeper removes the content, and is another user if the harness is root.
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777))?;
        let listener = UnixListener::bind(socket(&folder))?;
        let (barriers, passage) = watch::channel(Barriers::default());
        let carried = Arc::default();
        let way =
            Way { server: socket(server), passage, carried: Arc::clone(&carried), clock: Clock::begun() };
        let accepting = tokio::spawn(accept(listener, way)).abort_handle();
        Ok(Self { folder, barriers, carried, accepting })
    }

    #[must_use]
    pub fn address(&self) -> String {
        super::address_in(&self.folder)
    }

    #[must_use]
    pub fn is_used(&self) -> bool {
        self.carried.load(Ordering::Relaxed) > 0
    }

    pub fn bar(&self, fault: u32, how: Partition) {
        self.barriers.send_modify(|barriers| {
            barriers.0.insert(fault, how);
        });
    }

    pub fn unbar(&self, fault: u32) {
        self.barriers.send_if_modified(|barriers| barriers.0.remove(&fault).is_some());
    }

    pub fn open_again(&self) {
        self.barriers.send_replace(Barriers::default());
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

pub(super) fn socket(folder: &Path) -> PathBuf {
    folder.join(".s.PGSQL.5432")
}

#[derive(Clone, Debug)]
struct Way {
    server: PathBuf,
    passage: watch::Receiver<Barriers>,
    carried: Arc<AtomicU64>,
    clock: Clock,
}

async fn accept(listener: UnixListener, way: Way) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut carried = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Without a free place the connection is closed.
                let (Ok((near, _)), Ok(place)) = (accepted, Arc::clone(&places).try_acquire_owned()) else { continue };
                let way = way.clone();
                carried.spawn(async move {
                    // Both sides notice the end on their sockets.
                    let _ = carry(near, way).await;
                    drop(place);
                });
            }
            Some(_) = carried.join_next() => {}
        }
    }
}

/// Ends with one side, or when the link is cut.
async fn carry(near: UnixStream, way: Way) -> io::Result<()> {
    let Way { server, mut passage, carried, clock } = way;
    if !opens(&mut passage, Direction::ToServer).await {
        return Ok(());
    }
    let (from_near, to_near) = near.into_split();
    let (from_far, to_far) = UnixStream::connect(server).await?.into_split();
    carried.fetch_add(1, Ordering::Relaxed);
    let there = OneWay { direction: Direction::ToServer, passage: passage.clone(), clock: clock.clone() };
    let back = OneWay { direction: Direction::ToProcess, passage: passage.clone(), clock };
    tokio::select! {
        ended = there.pass_on(from_near, to_far) => ended,
        ended = back.pass_on(from_far, to_near) => ended,
        _ = passage.wait_for(Barriers::is_cut) => Ok(()),
    }
}

struct Piece {
    due: u64,
    bytes: Box<[u8]>,
}

struct OneWay {
    direction: Direction,
    passage: watch::Receiver<Barriers>,
    clock: Clock,
}

impl OneWay {
    /// Ends after the end has passed too: the end is a message like any other.
    async fn pass_on(self, from: OwnedReadHalf, to: OwnedWriteHalf) -> io::Result<()> {
        let (said, heard) = mpsc::channel(PIECES_MAX);
        let listening = listen(from, said, self.passage.clone(), self.clock.clone());
        let listening = async {
            listening.await;
            Ok(())
        };
        tokio::try_join!(listening, self.write_pieces(heard, to)).map(drop)
    }

    /// Writes each piece when it is due, in order.
    async fn write_pieces(
        mut self,
        mut heard: mpsc::Receiver<Piece>,
        mut to: OwnedWriteHalf,
    ) -> io::Result<()> {
        while let Some(Piece { due, bytes }) = heard.recv().await {
            tokio::select! {
                () = self.clock.until(due) => {}
                _ = self.passage.wait_for(|barriers| barriers.delay() == 0) => {}
            }
            if !opens(&mut self.passage, self.direction).await || bytes.is_empty() {
                return Ok(());
            }
            to.write_all(&bytes).await?;
        }
        Ok(())
    }
}

/// Reads pieces; the last is empty.
async fn listen(
    mut from: OwnedReadHalf,
    said: mpsc::Sender<Piece>,
    passage: watch::Receiver<Barriers>,
    clock: Clock,
) {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        // The other side treats an error as the end.
        let read = from.read(&mut buffer).await.unwrap_or(0);
        let due = clock.now().saturating_add(passage.borrow().delay());
        // The writing side knows the end already.
        if said.send(Piece { due, bytes: buffer[..read].into() }).await.is_err() || read == 0 {
            return;
        }
    }
}

/// Returns whether the link is open then. A dropped link is cut.
async fn opens(passage: &mut watch::Receiver<Barriers>, direction: Direction) -> bool {
    passage.wait_for(|barriers| !barriers.is_silent(direction)).await.is_ok_and(|barriers| !barriers.is_cut())
}

#[cfg(test)]
mod tests {
    use hookproof_judge::scenario::Duration;

    use super::*;

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

    async fn send_byte(link: &Link) -> UnixStream {
        let mut peer = UnixStream::connect(socket(&link.folder)).await.unwrap();
        peer.write_all(b"?").await.unwrap();
        peer
    }

    #[tokio::test]
    async fn bytes_of_a_silence_pass_when_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let link = echoing(folder.path());
        let mut before = send_byte(&link).await;
        assert_eq!(before.read_u8().await.unwrap(), b'?');
        link.bar(0, Partition::Silence);
        before.write_all(b"!").await.unwrap();
        let mut during = send_byte(&link).await;
        for peer in [&mut before, &mut during] {
            let heard = tokio::time::timeout(std::time::Duration::from_millis(50), peer.read_u8()).await;
            assert!(heard.is_err(), "{heard:?}");
        }
        link.unbar(0);
        assert_eq!((before.read_u8().await.unwrap(), during.read_u8().await.unwrap()), (b'!', b'?'));
    }

    #[tokio::test]
    async fn a_cut_client_learns_it_at_once_and_reconnects_after_the_cut() {
        let folder = tempfile::tempdir().unwrap();
        let link = echoing(folder.path());
        let mut before = send_byte(&link).await;
        before.read_u8().await.unwrap();
        link.bar(0, Partition::Silence);
        link.bar(1, Partition::Cut);
        assert!(before.read_u8().await.is_err(), "the connection is closed");
        let mut during = UnixStream::connect(socket(&link.folder)).await.unwrap();
        assert!(during.read_u8().await.is_err(), "and so is each that is made");
        link.open_again();
        assert_eq!(send_byte(&link).await.read_u8().await.unwrap(), b'?');
    }

    #[tokio::test]
    async fn ending_one_barrier_leaves_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let link = echoing(folder.path());
        assert!(!link.is_used());
        let hows = [Partition::Cut, Partition::Silence, Partition::Cut];
        (0..).zip(hows).for_each(|(fault, how)| link.bar(fault, how));
        link.unbar(0);
        // Each end counts once; an unknown fault's end changes nothing.
        link.unbar(0);
        link.unbar(3);
        let mut during = UnixStream::connect(socket(&link.folder)).await.unwrap();
        assert!(during.read_u8().await.is_err(), "one cut lasts");
        link.unbar(2);
        let mut silent = send_byte(&link).await;
        let heard = tokio::time::timeout(std::time::Duration::from_millis(50), silent.read_u8()).await;
        assert!(heard.is_err() && !link.is_used(), "{heard:?}");
        link.unbar(1);
        assert_eq!(silent.read_u8().await.unwrap(), b'?');
        assert!(link.is_used());
    }

    async fn is_silent(peer: &mut UnixStream) -> bool {
        tokio::time::timeout(std::time::Duration::from_millis(50), peer.read_u8()).await.is_err()
    }

    #[tokio::test]
    async fn a_delay_applies_each_way_in_order_and_ends_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let link = echoing(folder.path());
        let (clock, by) = (Clock::begun(), Partition::Delay(Duration::from_millis(60)));
        let mut peer = send_byte(&link).await;
        peer.read_u8().await.unwrap();
        link.bar(0, by);
        let text: Vec<u8> = (0..=255).cycle().take(3 * PIECE_BYTES + 1).collect();
        let began = clock.now();
        let (mut from, mut to) = peer.split();
        let mut heard = vec![0; text.len()];
        let (said, read) = tokio::join!(to.write_all(&text), from.read_exact(&mut heard));
        assert!(said.is_ok() && read.is_ok() && heard == text, "it came whole and in its order");
        assert!(clock.now() - began >= 120_000_000, "{} ns there and back", clock.now() - began);
        let longest = Partition::Delay(Duration::from_secs(3_600));
        link.bar(1, longest);
        peer.write_all(b"!").await.unwrap();
        assert!(is_silent(&mut peer).await);
        link.unbar(1);
        link.unbar(0);
        assert_eq!(peer.read_u8().await.unwrap(), b'!', "an hour is not waited for");
        link.bar(0, longest);
        link.bar(1, Partition::Cut);
        assert!(peer.read_u8().await.is_err(), "a cut is not delayed");
    }

    #[tokio::test]
    async fn a_client_blocks_once_a_delay_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let link = echoing(folder.path());
        let mut peer = send_byte(&link).await;
        peer.read_u8().await.unwrap();
        let longest = Partition::Delay(Duration::from_secs(3_600));
        link.bar(0, longest);
        let text = vec![7; 4 * PIECES_MAX * PIECE_BYTES];
        let (mut from, mut to) = peer.split();
        let mut said = 0;
        let within = std::time::Duration::from_millis(100);
        while let Ok(written) = tokio::time::timeout(within, to.write(&text[said..])).await {
            said += written.unwrap();
        }
        assert!(said < text.len(), "all of it was taken");
        link.unbar(0);
        let mut heard = vec![0; text.len()];
        let (rest, read) = tokio::join!(to.write_all(&text[said..]), from.read_exact(&mut heard));
        assert!(rest.is_ok() && read.is_ok() && heard == text);
    }

    #[tokio::test]
    async fn a_half_open_server_receives_bytes_and_returns_none() {
        let folder = tempfile::tempdir().unwrap();
        let (sent, mut arrived) = mpsc::unbounded_channel();
        let listener = UnixListener::bind(socket(folder.path())).unwrap();
        tokio::spawn(async move {
            let mut peers = JoinSet::new();
            while let Ok((mut peer, _)) = listener.accept().await {
                let sent = sent.clone();
                peers.spawn(async move {
                    while let Ok(byte) = peer.read_u8().await {
                        sent.send(Some(byte)).unwrap();
                        peer.write_u8(byte).await.unwrap();
                    }
                    sent.send(None).unwrap();
                });
            }
        });
        let link = Link::open(folder.path().join("link"), folder.path()).unwrap();
        let mut before = send_byte(&link).await;
        assert_eq!((arrived.recv().await, before.read_u8().await.unwrap()), (Some(Some(b'?')), b'?'));
        link.bar(0, Partition::HalfOpen);
        before.write_all(b"!").await.unwrap();
        assert_eq!(arrived.recv().await, Some(Some(b'!')), "what is said arrives");
        let during = send_byte(&link).await;
        assert_eq!(arrived.recv().await, Some(Some(b'?')), "and connections are made");
        assert!(is_silent(&mut before).await);
        drop(during);
        assert_eq!(arrived.recv().await, Some(None), "that one has gone is said, too");
        link.unbar(0);
        assert_eq!(before.read_u8().await.unwrap(), b'!');
    }
}
