//! Makes one attempt: a request over HTTP and its result.
//!
//! Invariants:
//!
//! - **"Unsent" is proven.** [`AttemptResult::Unsent`] means that no byte of the request was handed to a connection. In
//!   doubt, the result is [`AttemptResult::Silent`].
//! - **One attempt is one request.** No redirect is followed, nothing is retried. A kept connection that is dead
//!   *before* anything was written is replaced.
//! - **A request that was given up does not arrive later**, as far as this machine decides it. Its connection is reset,
//!   which drops unsent bytes. A shared HTTP/2 connection is reset with its last request, or after `late_max`: requests
//!   that this cuts off are in doubt, and do not count against the endpoint.
//! - **The guard judges the address that is connected to**, after DNS, for each connection. A proxy is told this address.
//! - **Lanes share nothing** except the bounds on all sockets (see `sockets`), name lookups and readers of `tls` files. At its
//!   own bound of `connections_max`, a lane's attempt waits until its deadline, and is then unsent.
//! - **Nothing leaves after its time.** The first write checks the deadline, the lane's consent and its lease, on a
//!   clock that counts suspended time ([`SendPermit`]). Later writes check the deadline and the lease.
//! - **Everything ends.** Limits apply to the attempt, to connecting, to the bytes of an answer, and to the traffic
//!   beside answers (`traffic`). Timers run for a second at most.
//! - The environment is ignored: no proxies but [`Settings::proxy`], no system root list, no compression.

mod answer_reader;
mod attempt;
mod attempt_result;
mod backpressure;
mod connect;
mod failure;
mod frames;
mod http1;
mod http2;
mod lane;
mod limit;
mod lookups;
mod outlet;
mod permissions;
mod permit;
mod proxy;
mod request;
mod route;
mod sockets;
mod timer;
mod tls;
mod token;
mod traffic;
mod wire;
mod write_tracker;

use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

use attempt::Shared;
pub use attempt_result::{ANSWER_BYTES_MAX, Answered, AttemptResult, HEAD_BYTES_MAX};
use connect::Connector;
pub use failure::{Cause, Failure};
use lane::Lanes;
use lookups::Asker;
pub use lookups::{Addresses, DnsResolver, Resolve, Resolving};
pub use outlet::Outlet;
pub use permit::{Lease, SendPermit};
pub(crate) use proxy::percent_decoded;
pub use proxy::{EgressProxy, ProxyError};
pub use request::{Destination, Request};
use sockets::{Sockets, max_by_limit};
use timer::now;
use tls::Tls;
pub use tls::{Roots, RootsError};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
pub use tokio_util::sync::CancellationToken;

use crate::boot_clock::BootClock;
use crate::engine::LaneId;
use crate::guard::Guard;
use crate::spans::Spans;
use crate::store::command::Details;

pub struct Transport {
    shared: Arc<Shared>,
    tending: JoinHandle<()>,
}

#[derive(Clone)]
pub struct Settings {
    /// How long an idle connection is kept. Shorter than the keep-alive of common servers (5 s, some 2 s),
    /// because a request that meets the endpoint's close is lost.
    pub idle_max: Duration,
    pub roots: Roots,
    pub resolver: Arc<dyn Resolve>,
    /// Default: the share that the limit on open files leaves.
    pub connections_max: Option<NonZeroU32>,
    /// Whether the details of an attempt include its answer.
    pub keep_answers: bool,
    pub clock: BootClock,
    pub proxy: Option<Arc<EgressProxy>>,
    pub spans: Option<Spans>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            idle_max: Duration::from_secs(4),
            roots: Roots::default(),
            resolver: Arc::new(DnsResolver::system()),
            connections_max: None,
            keep_answers: true,
            clock: BootClock::default(),
            proxy: None,
            spans: None,
        }
    }
}

impl Settings {
    /// For a database with this identity.
    #[must_use]
    pub fn of_database(self, identity: u64) -> Self {
        Self { spans: self.spans.map(|spans| spans.of_database(identity)), ..self }
    }
}

impl Transport {
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(settings: Settings, guard: Guard) -> Self {
        let Settings { idle_max, roots, resolver, connections_max, keep_answers, clock, proxy, spans: _ } =
            settings;
        let sockets = Sockets::new(connections_max.map_or_else(max_by_limit, NonZeroU32::get));
        let asker = Asker::new(resolver, max_by_limit());
        let tls = Tls::new(roots);
        let connector = Connector { guard, asker, tls, sockets: Arc::clone(&sockets), proxy };
        let lanes = Lanes::new(Arc::clone(&sockets));
        let shared = Arc::new(Shared { lanes, connector, idle_max, sockets, keep_answers, clock });
        let tending = tokio::spawn(tend(Arc::downgrade(&shared), idle_max));
        Self { shared, tending }
    }

    /// A caller that drops the future must count the attempt as silent.
    pub async fn attempt(&self, request: &Request<'_>, details: &mut Details) -> AttemptResult {
        let lane = self.shared.lanes.lane(request.lane);
        match lane.route(request.target) {
            Ok(route) => attempt::make(&self.shared, &lane, &route, request, details).await,
            Err(failure) => AttemptResult::Unsent(failure),
        }
    }

    /// Closes a lane's idle connections only.
    pub fn close(&self, lane: LaneId) {
        self.shared.lanes.close(lane);
    }

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

/// Idle connections exceed `idle_max` by half of it at most.
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
