//! The live page of a run: the growing trace, judged. The run never waits for it: it reads the trace from disk at the
//! lowest priority, and uses at most a tenth of one core.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use hookproof_judge::check::Status;
use hookproof_judge::report::{self, Report, html_live, html_unjudged};
use hookproof_judge::scenario::{SECOND, Scenario};
use hookproof_judge::trace::{Growing, Recorder, Trace, TraceError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::AbortHandle;

use crate::clock::Clock;

/// The least time between two pages.
const PAUSE_NS: u64 = SECOND;
/// The rest after a page, as a multiple of its own time.
const REST: u64 = 9;

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
    /// Fails when the address is unavailable, or no thread can start.
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
                    () = serve(listener, shown) => {}
                    _ = stopped => {}
                }
            });
            // Does not wait for a page that is being drawn.
            runtime.shutdown_background();
        })?;
        Ok(Self(Arc::new(Serving { address, runtime: handle, page, _stop: stop })))
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    pub fn show(&self, page: String) {
        self.0.page.send_replace(Arc::from(page));
    }
}

/// Gives this thread and the threads that it starts the lowest priority.
fn step_back() {
    // Elsewhere than on Linux the thread runs as others do.
    #[cfg(target_os = "linux")]
    let _as_before = rustix::process::setpriority_process(None, 19);
}

#[derive(Clone)]
pub struct Live {
    pub server: PageServer,
    pub judging: Judging,
    /// The final report's file.
    pub kept: PathBuf,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("server", &self.server).field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Live {
    /// Draws this run until the result is dropped.
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
        // After a panic, which was reported, the page stays.
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

/// Further connections are closed at once.
const CONNECTIONS_MAX: usize = 8;
const HEAD_MAX: usize = 8 << 10;
const WITHIN_NS: u64 = 5 * SECOND;
/// The pause after a failed accept: file descriptors may be short.
const ACCEPT_PAUSE_NS: u64 = SECOND / 10;
/// The page may show itself and reload itself.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async fn serve(listener: std::net::TcpListener, page: watch::Receiver<Arc<str>>) {
    // On an error the page is unavailable.
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let (clock, room) = (Clock::begun(), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            clock.pass(ACCEPT_PAUSE_NS).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let (clock, page) = (clock.clone(), page.clone());
        tokio::spawn(async move {
            tokio::select! {
                // The client may be gone.
                _ = answer(stream, &page) => {}
                () = clock.pass(WITHIN_NS) => {}
            }
            drop(permit);
        });
    }
}

async fn answer(mut stream: TcpStream, page: &watch::Receiver<Arc<str>>) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(1_024);
    let status = loop {
        match status_for(&head) {
            Some(status) => break status,
            None if head.len() >= HEAD_MAX => break "431 Request Header Fields Too Large",
            None => {}
        }
        let mut some = [0; 1_024];
        match stream.read(&mut some).await? {
            0 => return Ok(()),
            length => head.extend_from_slice(&some[..length]),
        }
    };
    let page = page.borrow().clone();
    let body = if status == OK { &*page } else { status };
    let kind = if status == OK { "text/html" } else { "text/plain" };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}; charset=utf-8\r\ncontent-length: {length}\r\n\
         content-security-policy: {POLICY}\r\nx-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n\
         cache-control: no-store\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

const OK: &str = "200 OK";

/// None while the head is incomplete.
fn status_for(head: &[u8]) -> Option<&'static str> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Err(_) => return Some("400 Bad Request"),
        Ok(httparse::Status::Complete(_)) => {}
    }
    let mut hosts = request.headers.iter().filter(|one| one.name.eq_ignore_ascii_case("host"));
    // A foreign name resolved to loopback would let its pages read this one (DNS rebinding).
    let is_here = hosts.next().is_some_and(|host| is_loopback(host.value)) && hosts.next().is_none();
    Some(match (request.method, request.path) {
        _ if !is_here => "421 Misdirected Request",
        (Some("GET"), Some("/")) => OK,
        (Some("GET"), _) => "404 Not Found",
        _ => "405 Method Not Allowed",
    })
}

fn is_loopback(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if let Ok(address) = host.parse::<std::net::SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let address = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    address || name.eq_ignore_ascii_case("localhost") || host == "[::1]"
}

struct Sketch {
    scenario: Scenario,
    trace: PathBuf,
    recorder: Recorder,
    judging: Judging,
    kept: PathBuf,
    growing: Option<Growing>,
}

enum Sketched {
    Nothing,
    Page { page: String, failed: Vec<String>, is_last: bool },
}

impl Sketch {
    fn new(live: &Live, scenario: &Scenario, trace: &Path, recorder: &Recorder) -> Self {
        Self {
            scenario: scenario.clone(),
            trace: trace.to_owned(),
            recorder: recorder.clone(),
            judging: live.judging.clone(),
            kept: live.kept.clone(),
            growing: None,
        }
    }

    fn draw(&mut self) -> Sketched {
        self.recorder.flush();
        self.drawn().unwrap_or_else(|error| {
            let why = format!("{error}; the run continues, and is judged at its end");
            let page = html_unjudged(&hookproof_judge::report::Unjudged {
                subject: self.scenario.name.clone(),
                why,
            });
            Sketched::Page { page, failed: Vec::new(), is_last: true }
        })
    }

    fn drawn(&mut self) -> Result<Sketched, TraceError> {
        if self.growing.is_none() {
            self.growing = Growing::open(&self.trace)?;
        }
        let Some(growing) = &mut self.growing else { return Ok(Sketched::Nothing) };
        let report = (self.judging)(&self.scenario, growing.catch_up()?);
        let verdicts = report.judgement.verdicts.iter();
        let failed = verdicts.filter(|one| one.status == Status::Fail).map(|one| one.id.clone()).collect();
        let is_last = growing.is_full();
        Ok(Sketched::Page { page: html_live(&report, &self.kept, is_last), failed, is_last })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hookproof_judge::check::{Strictness, judge};
    use hookproof_judge::report::Report;
    use hookproof_judge::trace::Trace;

    use super::*;
    use crate::run::PageServer;

    #[test]
    fn only_a_whole_request_of_this_machine_gets_the_page() {
        let rows = [
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:4321\r\n\r\n", Some(OK)),
            ("GET / HTTP/1.1\r\nhost: localhost:4321\r\n\r\n", Some(OK)),
            ("GET / HTTP/1.1\r\nhost: [::1]:4321\r\n\r\n", Some(OK)),
            ("GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n", None),
            ("", None),
            ("GET / HTTP/1.1\r\n\r\n", Some("421 Misdirected Request")),
            ("GET / HTTP/1.1\r\nhost: evil.example:4321\r\n\r\n", Some("421 Misdirected Request")),
            (
                "GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n",
                Some("421 Misdirected Request"),
            ),
            ("GET /trace HTTP/1.1\r\nhost: localhost\r\n\r\n", Some("404 Not Found")),
            ("POST / HTTP/1.1\r\nhost: localhost\r\n\r\n", Some("405 Method Not Allowed")),
            ("\u{1}\u{2} / HTTP/1.1\r\n\r\n", Some("400 Bad Request")),
        ];
        for (head, expected) in rows {
            assert_eq!(status_for(head.as_bytes()), expected, "{head:?}");
        }
    }

    fn failed(name: &str, lines: impl Iterator<Item = usize>) -> Vec<(usize, Vec<String>)> {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/traces").join(name);
        let text = std::fs::read_to_string(&shipped).unwrap();
        let header = Trace::open(&shipped).unwrap().header;
        let scenario = Scenario::from_text(&header.scenario_toml, name).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        let live = Live {
            server: PageServer::open("127.0.0.1:0".parse().unwrap()).unwrap(),
            judging: Arc::new(|scenario, trace| {
                Report::new(scenario, trace, judge(scenario, trace, Strictness::Usual), String::new())
            }),
            kept: PathBuf::from("report.html"),
        };
        let recorder = Recorder::new(1).0;
        let mut sketch = Sketch::new(&live, &scenario, &path, &recorder);
        let seen = lines.map(|count| {
            let some: Vec<&str> = text.lines().take(count).collect();
            std::fs::write(&path, some.join("\n") + "\n").unwrap();
            match sketch.draw() {
                Sketched::Nothing => (count, Vec::new()),
                Sketched::Page { page, failed, .. } => {
                    let told = if count < text.lines().count() { "Running, " } else { "28 passed" };
                    assert!(page.contains(told) || !failed.is_empty(), "{count}: {page}");
                    (count, failed)
                }
            }
        });
        seen.collect()
    }

    #[test]
    fn no_beginning_of_a_run_that_passes_has_failed() {
        let count = failed("good.jsonl", std::iter::once(usize::MAX)).len();
        assert_eq!(count, 1);
        for (lines, ids) in failed("good.jsonl", 1..200) {
            assert_eq!(ids, Vec::<String>::new(), "after {lines} lines");
        }
    }

    #[test]
    fn a_check_has_failed_from_the_first_breach_on() {
        let failed = failed("over-rate.jsonl", 1..200);
        let first = failed.iter().position(|(_, ids)| ids.contains(&"rate.envelope".to_owned())).unwrap();
        assert!(failed[..first].iter().all(|(_, ids)| ids.is_empty()));
        assert!(failed[first..].iter().all(|(_, ids)| ids.contains(&"rate.envelope".to_owned())));
    }
}
