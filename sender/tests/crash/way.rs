use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use tempfile::TempDir;

const SOCKET: &str = ".s.PGSQL.5432";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    Open,
    /// Holds all bytes; neither side is notified. They pass later.
    Silent,
    Cut,
}

pub(crate) struct Way {
    folder: TempDir,
    shared: Arc<Shared>,
}

struct Shared {
    server: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    passage: Passage,
    open: BTreeMap<u64, [UnixStream; 2]>,
}

impl Way {
    pub(crate) fn to(server: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let state = Mutex::new(State { passage: Passage::Open, open: BTreeMap::new() });
        let shared = Arc::new(Shared { server: server.join(SOCKET), state, changed: Condvar::new() });
        let ours = Arc::clone(&shared);
        std::thread::spawn(move || {
            for (number, near) in (0..).zip(listener.incoming()) {
                // While the server is away, new connections are closed.
                let _ = carry(&ours, number, near.unwrap());
            }
        });
        Self { folder, shared }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn let_pass(&self, passage: Passage) {
        let mut state = self.shared.state.lock().unwrap();
        state.passage = passage;
        if passage == Passage::Cut {
            std::mem::take(&mut state.open).values().for_each(close);
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

/// Either end may be closed already.
fn close(ends: &[UnixStream; 2]) {
    for end in ends {
        let _ = end.shutdown(Shutdown::Both);
    }
}

fn carry(shared: &Arc<Shared>, number: u64, near: UnixStream) -> std::io::Result<()> {
    let far = UnixStream::connect(&shared.server)?;
    let ways = [(near.try_clone()?, far.try_clone()?), (far.try_clone()?, near.try_clone()?)];
    let mut state = shared.state.lock().unwrap();
    if state.passage == Passage::Cut {
        return Ok(());
    }
    state.open.insert(number, [near, far]);
    drop(state);
    for (from, to) in ways {
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            // Close both sides in every case.
            let _ = shared.pass_on(from, to);
            if let Some(ends) = shared.state.lock().unwrap().open.remove(&number) {
                close(&ends);
            }
        });
    }
    Ok(())
}

impl Shared {
    fn pass_on(&self, mut from: UnixStream, mut to: UnixStream) -> std::io::Result<()> {
        let mut piece = vec![0; 1 << 16];
        loop {
            let read = from.read(&mut piece)?;
            let state = self.state.lock().unwrap();
            // A silent way does not carry the end of a connection.
            drop(self.changed.wait_while(state, |state| state.passage == Passage::Silent).unwrap());
            if read == 0 {
                return Ok(());
            }
            to.write_all(&piece[..read])?;
        }
    }
}
