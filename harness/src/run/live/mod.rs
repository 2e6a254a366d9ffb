//! The live page of a run: `server` serves it, `sketch` draws it from the growing trace.
//!
//! The run never waits for it. It reads the trace from disk on threads of the lowest priority, and rests nine
//! times as long as a page took, so it uses at most a tenth of one core.

mod server;
mod sketch;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use crate::clock::Clock;
use hookproof_judge::report::{self, Report};
use hookproof_judge::scenario::{SECOND, Scenario};
use hookproof_judge::trace::Recorder;
use hookproof_judge::trace::Trace;
use sketch::{Sketch, Sketched};

/// The least time between two pages.
const PAUSE_NS: u64 = SECOND;
/// The rest after a page, as a multiple of its own time.
const REST: u64 = 9;

/// Judges an incomplete trace.
pub type Judging = Arc<dyn Fn(&Scenario, &Trace) -> Report + Send + Sync>;

/// Serves pages on one address, until its last clone is dropped.
#[derive(Clone, Debug)]
pub struct PageServer(Arc<Serving>);

#[derive(Debug)]
struct Serving {
    address: SocketAddr,
    runtime: Handle,
    page: watch::Sender<Arc<str>>,
    /// Dropping it ends the thread.
    _stop: oneshot::Sender<()>,
}

impl PageServer {
    /// Listens, and starts the thread.
    ///
    /// # Errors When the address is unavailable, or no thread can start.
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
            // Does not wait for a page that is being drawn.
            runtime.shutdown_background();
        })?;
        Ok(Self(Arc::new(Serving { address, runtime: handle, page, _stop: stop })))
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Replaces the page.
    pub fn show(&self, page: String) {
        self.0.page.send_replace(Arc::from(page));
    }
}

/// Gives this thread and the threads that it starts the lowest priority.
fn step_back() {
    // Only Linux has priorities of threads; elsewhere the thread runs as others do.
    #[cfg(target_os = "linux")]
    let _as_before = rustix::process::setpriority_process(None, 19);
}

/// The settings of a live page.
#[derive(Clone)]
pub struct Live {
    /// The server.
    pub server: PageServer,
    /// The judge.
    pub judging: Judging,
    /// The file of the final report.
    pub kept: PathBuf,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("server", &self.server).field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Live {
    /// Draws this run repeatedly until the result is dropped.
    pub(super) fn follow(&self, scenario: &Scenario, trace: &Path, recorder: &Recorder) -> Following {
        let sketch = Sketch::new(self, scenario, trace, recorder);
        let failed = Arc::new(Mutex::new(Vec::new()));
        let drawing = draw(sketch, self.server.clone(), Arc::clone(&failed));
        let task = self.server.0.runtime.spawn(drawing).abort_handle();
        Following { failed, task }
    }
}

#[derive(Debug)]
pub(super) struct Following {
    failed: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl Following {
    /// The ids of checks that have failed already.
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
        // A panic was reported; the page stays as it was.
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
