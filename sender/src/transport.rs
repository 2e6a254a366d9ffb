//! Makes one attempt: a request over HTTP, and what became of it.
//!
//! What holds here:
//!
//! - **"Unsent" is proven.** [`Made::Unsent`] means that not one byte of the request was handed to a connection. In
//!   doubt it is [`Made::Silent`].
//! - **One attempt is one request.** No redirect is followed, nothing is tried again. A kept connection that turns out
//!   to be dead *before* anything was written is replaced by a new one; that is not a second request.
//! - **What was given up does not arrive later**, as far as that is ours: a connection whose request was not answered
//!   is reset, so that what still waits in this machine is thrown away.
//! - **The guard judges the address that is connected to**, after DNS, for each connection; there is no second lookup
//!   between the two.
//! - **Lanes share nothing** but the bound on all sockets together. Each has its own connections, at most
//!   `connections_max` of them, idle ones included. At the bound an attempt waits for one of its own lane until its
//!   deadline, then it is unsent. Where all lanes together are at theirs, see `sockets`.
//! - **Nothing is written too late**: a request whose deadline is over, or whose lane has withdrawn its consent, is not begun,
//!   whatever it waited for until then.
//! - **Everything ends**: one deadline for all of an attempt, one for its connection, a bound on what is read.
//! - The environment has no say: no proxies, no list of roots, and no compression.

mod attempt;
mod connect;
mod consent;
mod deadline;
mod failure;
mod http1;
mod http2;
mod lane;
mod made;
mod resolve;
mod route;
mod sockets;
mod tls;
mod wire;

use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use connect::Connector;
pub use consent::{Consent, Giver};
use deadline::now;
pub use failure::{Cause, Failure};
use lane::Lanes;
pub use made::{Answered, Made};
pub use resolve::{Resolve, SystemResolver};
use sockets::{Sockets, max_by_limit};
pub use tls::{Roots, RootsError};

use crate::engine::LaneId;
use crate::guard::{Guard, Target};
use crate::sign::Headers;

/// The longest answer's body that is read, in bytes. Of a longer one the status counts, and the rest is not wanted.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The longest answer's head that is read, in bytes.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Makes attempts, and keeps connections between them.
pub struct Transport {
    shared: Arc<Shared>,
    tending: JoinHandle<()>,
}

struct Shared {
    lanes: Lanes,
    connector: Connector,
    idle_max: Duration,
    sockets: Arc<Sockets>,
}

/// What is the same for all attempts.
#[derive(Clone)]
pub struct Settings {
    /// For how long a connection is kept without a request. Shorter than the keep-alive of common servers (5 s, some
    /// 2 s), so that it is mostly this end that closes: a request that meets the endpoint's closing is lost.
    pub idle_max: Duration,
    /// Whom to trust.
    pub roots: Roots,
    /// Knows the addresses of names.
    pub resolver: Arc<dyn Resolve>,
    /// The most connections of all lanes together. If nothing is said, what the process's limit on open files leaves.
    pub connections_max: Option<NonZeroU32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            idle_max: Duration::from_secs(4),
            roots: Roots::default(),
            resolver: Arc::new(SystemResolver),
            connections_max: None,
        }
    }
}

/// One attempt.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Whose connections to use.
    pub lane: LaneId,
    /// Where to.
    pub target: &'a Target,
    /// The signature and what goes with it.
    pub headers: &'a Headers,
    /// The body, as it is.
    pub body: Bytes,
    /// For everything: waiting for a connection, name lookup, connecting, TLS, sending, and the whole answer.
    pub deadline: Duration,
    /// When that is over, counted from when the attempt was decided on rather than from when it gets its turn: whoever
    /// owns the lane next relies on it.
    pub until: Instant,
    /// The right to send; without it nothing is written, and the attempt is withheld.
    pub consent: Consent,
    /// For a new connection: name lookup, connecting and TLS.
    pub connect_deadline: Duration,
    /// The most connections that the lane may have now.
    pub connections_max: NonZeroU32,
}

impl Transport {
    /// A transport without connections.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(settings: Settings, guard: Guard) -> io::Result<Self> {
        let Settings { idle_max, roots, resolver, connections_max } = settings;
        let connector = Connector { guard, resolver, tls: tls::connector(roots)? };
        let sockets = Sockets::new(connections_max.map_or_else(max_by_limit, NonZeroU32::get));
        let lanes = Lanes::new(Arc::clone(&sockets));
        let shared = Arc::new(Shared { lanes, connector, idle_max, sockets });
        let tending = tokio::spawn(tend(Arc::downgrade(&shared), idle_max));
        Ok(Self { shared, tending })
    }

    /// Makes one attempt. Ends by its deadline. Whoever drops the future must take the attempt for silent.
    pub async fn attempt(&self, request: &Request<'_>) -> Made {
        let lane = self.shared.lanes.lane(request.lane);
        match lane.route(request.target) {
            Ok(route) => attempt::make(&self.shared, &lane, &route, request).await,
            Err(failure) => Made::Unsent(failure),
        }
    }

    /// Closes a lane's idle connections, when it is given up. Attempts under way go on.
    pub fn close(&self, lane: LaneId) {
        self.shared.lanes.close(lane);
    }

    /// How many connections a lane has, idle ones included.
    #[must_use]
    pub fn connections(&self, lane: LaneId) -> u32 {
        self.shared.lanes.open(lane)
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.tending.abort();
    }
}

/// Closes connections that have been idle for too long, at most half as long again after that.
async fn tend(shared: Weak<Shared>, idle_max: Duration) {
    let mut ticks = interval((idle_max / 2).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        if let Some(oldest) = now().checked_sub(idle_max) {
            shared.lanes.close_idle(oldest);
        }
    }
}

/// A lock that outlives a panic: what it guards is left whole by every line that holds it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
