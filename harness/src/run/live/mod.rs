//! The page of a run while the run goes on: `server` hands it out, `sketch` draws it from the trace as that is written.
//!
//! Nothing of the run waits for it. It has a thread of its own, and those that this one starts, all of the lowest priority
//! where threads have one; it reads the trace from the disk; and it rests nine times as long as a page took to be judged and
//! drawn, so that it takes a tenth of one processor at most, and that only where nobody else wants it.

mod server;
mod sketch;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::{Clock, Recorder};
use crate::report::{self, Report};
use crate::scenario::{SECOND, Scenario};
use crate::trace::Trace;
use sketch::{Sketch, Sketched};

/// The least time between two pages.
const PAUSE_NS: u64 = SECOND;
/// How many times as long as a page took nothing is drawn after it.
const REST: u64 = 9;

/// Judges what there is of a trace.
pub type Judging = Arc<dyn Fn(&Scenario, &Trace) -> Report + Send + Sync>;

/// Serves pages on one address, until the last copy of it is dropped.
#[derive(Clone, Debug)]
pub struct PageServer(Arc<Serving>);

#[derive(Debug)]
struct Serving {
    address: SocketAddr,
    runtime: Handle,
    page: watch::Sender<Arc<str>>,
    /// Dropped, it ends the thread.
    _stop: oneshot::Sender<()>,
}

impl PageServer {
    /// Listens, and starts the thread.
    ///
    /// # Errors
    /// When the address can't be had, or no thread be started.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (page, shown) = watch::channel(Arc::from(report::html_awaited()));
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new().name("live".to_owned()).spawn(move || {
            step_back();
            runtime.block_on(async {
                tokio::select! {
                    () = server::serve(listener, shown) => {}
                    _ = stopped => {}
                }
            });
            // A page that is being drawn is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self(Arc::new(Serving { address, runtime: handle, page, _stop: stop })))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Shows this from now on.
    pub fn show(&self, page: String) {
        self.0.page.send_replace(Arc::from(page));
    }
}

/// Gives way to every other thread. Those that this one starts do too.
fn step_back() {
    // Elsewhere a priority is the whole process's. Without one the thread shares the machine like any other.
    #[cfg(target_os = "linux")]
    let _as_before = rustix::process::setpriority_process(None, 19);
}

/// How a run is shown while it goes on.
#[derive(Clone)]
pub struct Live {
    /// Where.
    pub server: PageServer,
    /// How it is judged.
    pub judging: Judging,
    /// Where its page will be once it is over.
    pub kept: PathBuf,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("server", &self.server).field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Live {
    /// Draws this run again and again until what is answered is dropped.
    pub(super) fn follow(&self, scenario: &Scenario, trace: &Path, recorder: &Recorder) -> Following {
        let sketch = Sketch::new(self, scenario, trace, recorder);
        let failed = Arc::new(Mutex::new(Vec::new()));
        let drawing = draw(sketch, self.server.clone(), Arc::clone(&failed));
        let task = self.server.0.runtime.spawn(drawing).abort_handle();
        Following { failed, task }
    }
}

/// A run that is being drawn.
#[derive(Debug)]
pub(super) struct Following {
    failed: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl Following {
    /// Checks that have already failed.
    pub(super) fn failed(&self) -> Vec<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn draw(mut sketch: Sketch, server: PageServer, failed: Arc<Mutex<Vec<String>>>) {
    let clock = Clock::begun();
    loop {
        let began = clock.now();
        let drawing = tokio::task::spawn_blocking(move || {
            let sketched = sketch.draw();
            (sketch, sketched)
        });
        // What panicked has said why; the page stays as it was.
        let Ok((back, sketched)) = drawing.await else { return };
        sketch = back;
        match sketched {
            Sketched::Nothing => {}
            Sketched::Page { page, failed: ids, is_last } => {
                server.show(page);
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = ids;
                if is_last {
                    return;
                }
            }
        }
        let took = clock.now().saturating_sub(began);
        clock.pass(took.saturating_mul(REST).max(PAUSE_NS)).await;
    }
}
