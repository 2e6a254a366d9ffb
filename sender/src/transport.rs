//! Makes one attempt: a request over HTTP, and what became of it.
//!
//! What holds here:
//!
//! - **"Unsent" is proven.** [`AttemptResult::Unsent`] means that not one byte of the request was handed to a connection. In
//!   doubt it is [`AttemptResult::Silent`].
//! - **One attempt is one request.** No redirect is followed, nothing is tried again. A kept connection that turns out
//!   to be dead *before* anything was written is replaced by a new one; that is not a second request.
//! - **What was given up does not arrive later**, as far as that is ours: a connection whose request was not answered
//!   is reset, so that what still waits in this machine is thrown away. Over HTTP/2 others may share it: then it is reset with the
//!   last of them, or when the lane takes it that nothing given up arrives any more, whichever comes first. Those that are cut
//!   off by that are in doubt, and nothing is held against the endpoint.
//! - **The guard judges the address that is connected to**, after DNS, for each connection; there is no second lookup
//!   between the two.
//! - **Lanes share nothing** but the bounds on all sockets and on all look-ups of names together. Each has its own connections, at most
//!   `connections_max` of them, idle ones included. At the bound an attempt waits for one of its own lane until its
//!   deadline, then it is unsent. Where all lanes together are at theirs, see `sockets`.
//! - **Nothing leaves after its time**: the first write of a request looks at the attempt's deadline, the lane's consent and
//!   the end of the lane's lease together, on a clock that also counts a suspended machine ([`SendPermit`]). Later bytes of a
//!   request look at the lease again.
//! - **Everything ends**: one deadline for all of an attempt, one for its connection, a bound on what is read, and one on what a lane's
//!   endpoint sends beside its answers, in requests and between them (`traffic`). Timers run for a
//!   second at most, so that an attempt ends about then after the machine was suspended past its time.
//! - The environment has no say: no proxies, no list of roots, and no compression.

mod answer_reader;
mod attempt;
mod attempt_result;
mod backpressure;
mod chunks;
mod connect;
mod failure;
mod frames;
mod http1;
mod http2;
mod lane;
mod limit;
mod lookups;
mod permit;
mod request;
mod resolve;
mod route;
mod sockets;
mod sync;
mod timer;
mod tls;
mod traffic;
mod wire;
mod write_tracker;

use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use attempt::Shared;
pub use attempt_result::{ANSWER_BYTES_MAX, Answered, AttemptResult, HEAD_BYTES_MAX};
use connect::Connector;
pub use failure::{Cause, Failure};
use lane::Lanes;
use lookups::Asker;
pub use permit::{Lease, SendPermit};
pub use request::{Destination, Request};
pub use resolve::{Addresses, DnsResolver, Resolve, Resolving};
use sockets::{Sockets, max_by_limit};
use timer::now;
pub use tls::{Roots, RootsError};
pub use tokio_util::sync::CancellationToken;

use crate::boot_clock::BootClock;
use crate::engine::LaneId;
use crate::guard::Guard;

/// Makes attempts, and keeps connections between them.
pub struct Transport {
    shared: Arc<Shared>,
    tending: JoinHandle<()>,
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
    /// By which deadlines and leases are judged.
    pub clock: BootClock,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            idle_max: Duration::from_secs(4),
            roots: Roots::default(),
            resolver: Arc::new(DnsResolver::system()),
            connections_max: None,
            clock: BootClock::default(),
        }
    }
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
        let Settings { idle_max, roots, resolver, connections_max, clock } = settings;
        let sockets = Sockets::new(connections_max.map_or_else(max_by_limit, NonZeroU32::get));
        let asker = Asker::new(resolver, max_by_limit());
        let connector =
            Connector { guard, asker, tls: tls::connector(roots)?, sockets: Arc::clone(&sockets) };
        let lanes = Lanes::new(Arc::clone(&sockets));
        let shared = Arc::new(Shared { lanes, connector, idle_max, sockets, clock });
        let tending = tokio::spawn(tend(Arc::downgrade(&shared), idle_max));
        Ok(Self { shared, tending })
    }

    /// Makes one attempt. Ends by its deadline. Whoever drops the future must take the attempt for silent.
    pub async fn attempt(&self, request: &Request<'_>) -> AttemptResult {
        let lane = self.shared.lanes.lane(request.lane);
        match lane.route(&request.target.url) {
            Ok(route) => attempt::make(&self.shared, &lane, &route, request).await,
            Err(failure) => AttemptResult::Unsent(failure),
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
