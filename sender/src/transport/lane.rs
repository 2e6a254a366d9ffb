use std::collections::BTreeMap;
use std::ops::Bound;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::failure::Failure;
use super::http1::Http1;
use super::http2::{Http2, Place};
use super::limit::{SocketLimit, SocketPermit};
use super::lookups::Lookups;
use super::permissions::Permissions;
use super::request::Destination;
use super::route::{Origin, Route};
use super::sockets::Sockets;
use super::timer::{lock, now};
use super::token::Tokens;
use crate::engine::LaneId;

pub(super) struct Lanes {
    by_id: Mutex<BTreeMap<LaneId, Arc<Lane>>>,
    sockets: Arc<Sockets>,
    /// Where the last search stopped, so that lanes lose connections by turns.
    searched: Mutex<LaneId>,
}

/// Lanes share only the count of all sockets.
pub(super) struct Lane {
    sockets: Arc<Sockets>,
    pub(super) limit: Arc<SocketLimit>,
    pub(super) lookups: Lookups,
    /// Requests left with a closer check.
    wary: AtomicU32,
    kept: Mutex<LaneConnections>,
    tokens: OnceLock<Box<Tokens>>,
    permissions: OnceLock<Box<Permissions>>,
}

#[derive(Default)]
struct LaneConnections {
    route: Option<Arc<Route>>,
    /// Last in, first out, so that unused ones close.
    idle: Vec<Idle>,
    shared: Vec<Arc<Http2>>,
}

struct Idle {
    /// Boxed, since it moves often and is part of each attempt.
    connection: Box<Http1>,
    since: Instant,
}

/// Requests with a closer check, once a lane has reason for it. Each costs a system call.
const WARY_FOR: u32 = 1_000;
/// Read under the lock of the map, which all lanes need.
const LANES_AT_ONCE: usize = 256;

pub(super) enum Found {
    AtHand(AtHand),
    Room(SocketPermit),
}

pub(super) enum AtHand {
    Idle(Box<Http1>),
    Shared(Place),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Any,
    /// A kept connection turned out to be dead.
    New,
}

impl Lanes {
    pub(super) fn new(sockets: Arc<Sockets>) -> Self {
        Self { by_id: Mutex::default(), sockets, searched: Mutex::new(LaneId(0)) }
    }

    pub(super) fn lane(&self, id: LaneId) -> Arc<Lane> {
        let new = || Arc::new(Lane::new(Arc::clone(&self.sockets)));
        Arc::clone(lock(&self.by_id).entry(id).or_insert_with(new))
    }

    pub(super) fn close_some_idle(&self, max: usize) -> usize {
        let mut searched = lock(&self.searched);
        let from = *searched;
        let mut closed = 0;
        for (mut begin, end) in
            [(Bound::Excluded(from), Bound::Unbounded), (Bound::Unbounded, Bound::Included(from))]
        {
            loop {
                let lanes = self.some_between(begin, end);
                let Some((last, _)) = lanes.last() else { break };
                begin = Bound::Excluded(*last);
                for (id, lane) in lanes {
                    closed += lane.close_one_idle();
                    *searched = id;
                    if closed >= max {
                        return closed;
                    }
                }
            }
        }
        closed
    }

    fn some_between(&self, begin: Bound<LaneId>, end: Bound<LaneId>) -> Vec<(LaneId, Arc<Lane>)> {
        let by_id = lock(&self.by_id);
        by_id.range((begin, end)).take(LANES_AT_ONCE).map(|(id, lane)| (*id, Arc::clone(lane))).collect()
    }

    /// Closes connections idle since before `oldest`, and forgets unused lanes.
    pub(super) fn close_idle(&self, oldest: Instant) {
        let lanes: Vec<_> = lock(&self.by_id).values().cloned().collect();
        // Closing takes time, so the lock of the map is not held.
        for lane in lanes {
            lane.close_idle(oldest);
        }
        let is_used = |lane: &Arc<Lane>| {
            Arc::strong_count(lane) > 1
                || lane.limit.open() > 0
                || !lane.limit.account.is_full()
                || lane.tokens.get().is_some_and(|tokens| tokens.is_of_use())
                || lane.permissions.get().is_some_and(|permissions| permissions.is_of_use())
        };
        lock(&self.by_id).retain(|_, lane| is_used(lane));
    }

    pub(super) fn close(&self, id: LaneId) {
        let lane = lock(&self.by_id).remove(&id);
        if let Some(lane) = lane {
            lane.close_all();
        }
    }

    pub(super) fn open(&self, id: LaneId) -> u32 {
        lock(&self.by_id).get(&id).map_or(0, |lane| lane.limit.open())
    }
}

impl Lane {
    fn new(sockets: Arc<Sockets>) -> Self {
        let (limit, lookups, wary, kept, tokens, permissions) = Default::default();
        Self { sockets, limit, lookups, wary, kept, tokens, permissions }
    }

    pub(super) fn tokens(&self) -> &Tokens {
        self.tokens.get_or_init(Box::default)
    }

    pub(super) fn permissions(&self) -> &Permissions {
        self.permissions.get_or_init(Box::default)
    }

    /// After a kept connection ended without an answer, or unrequested bytes came, which could pass for the next
    /// answer.
    pub(super) fn be_wary(&self) {
        self.wary.store(WARY_FOR, Ordering::Relaxed);
    }

    pub(super) fn is_wary(&self) -> bool {
        self.wary.load(Ordering::Relaxed) > 0
    }

    pub(super) fn looks_closer(&self) -> bool {
        self.is_wary()
            && self
                .wary
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
    }

    fn close_one_idle(&self) -> usize {
        let mut kept = lock(&self.kept);
        if !kept.idle.is_empty() {
            kept.idle.remove(0);
            return 1;
        }
        let idle = kept.shared.iter().position(|shared| shared.idle_since().is_some());
        idle.map_or(0, |place| {
            kept.shared.remove(place);
            1
        })
    }

    /// Drops connections to the lane's former origin, or with its former identity.
    pub(super) fn route(&self, target: &Destination) -> Result<Arc<Route>, Failure> {
        let mut kept = lock(&self.kept);
        if let Some(route) = kept.route.as_ref().filter(|route| route.leads_to(target)) {
            return Ok(Arc::clone(route));
        }
        let route = Arc::new(Route::to(&target.url, target.tls.as_ref())?);
        if !kept.leads_to(&route.origin) {
            kept.idle.clear();
            kept.shared.clear();
        }
        kept.route = Some(Arc::clone(&route));
        Ok(route)
    }

    /// Waits at the bound until one of the lane is free.
    pub(super) async fn find(
        &self,
        want: Want,
        connections_max: u32,
        idle_max: Duration,
        deadline: Instant,
    ) -> Option<Found> {
        self.limit.set_max(connections_max);
        loop {
            let mut freed = pin!(self.limit.freed.notified());
            // Registers first, so that no freed connection is missed.
            freed.as_mut().enable();
            if let Some(found) = self.take(want, idle_max) {
                return Some(found);
            }
            timeout_at(deadline, freed).await.ok()?;
        }
    }

    pub(super) fn at_hand(&self, connections_max: u32, idle_max: Duration) -> Option<AtHand> {
        self.limit.set_max(connections_max);
        self.reusable_connection(Want::Any, idle_max)
    }

    /// A shared connection, which needs no closer check.
    pub(super) fn shared(&self, connections_max: u32) -> Option<Place> {
        self.limit.set_max(connections_max);
        lock(&self.kept).enter(&self.limit)
    }

    fn take(&self, want: Want, idle_max: Duration) -> Option<Found> {
        let kept = self.reusable_connection(want, idle_max).map(Found::AtHand);
        kept.or_else(|| self.limit.enter().map(Found::Room))
    }

    fn reusable_connection(&self, want: Want, idle_max: Duration) -> Option<AtHand> {
        let mut kept = lock(&self.kept);
        if want == Want::New {
            kept.idle.clear();
        }
        let excess = self.limit.excess().min(kept.idle.len());
        kept.idle.drain(..excess);
        if let Some(place) = kept.enter(&self.limit) {
            return Some(AtHand::Shared(place));
        }
        if let Some(Idle { connection, since }) = kept.idle.pop() {
            if now().duration_since(since) <= idle_max {
                return Some(AtHand::Idle(connection));
            }
            // The others are even older.
            kept.idle.clear();
        }
        None
    }

    pub(super) fn retain_connection(&self, connection: Box<Http1>, origin: &Origin) {
        let mut kept = lock(&self.kept);
        if kept.leads_to(origin) && self.limit.excess() == 0 && !self.sockets.are_wanted() {
            // A lane may never have more than one.
            kept.idle.reserve_exact(1);
            kept.idle.push(Idle { connection, since: now() });
            self.sockets.mark_idle();
            drop(kept);
            self.limit.freed.notify_one();
        }
    }

    pub(super) fn share(&self, connection: &Arc<Http2>, origin: &Origin) {
        let mut kept = lock(&self.kept);
        if kept.leads_to(origin) {
            kept.shared.push(Arc::clone(connection));
            drop(kept);
            self.limit.freed.notify_waiters();
        }
    }

    fn close_idle(&self, oldest: Instant) {
        let mut kept = lock(&self.kept);
        kept.idle.retain(|idle| idle.since >= oldest);
        kept.shared
            .retain(|shared| !shared.is_over() && shared.idle_since().is_none_or(|since| since >= oldest));
    }

    fn close_all(&self) {
        let mut kept = lock(&self.kept);
        kept.idle.clear();
        kept.shared.clear();
    }
}

impl LaneConnections {
    fn enter(&mut self, limit: &Arc<SocketLimit>) -> Option<Place> {
        self.shared.retain(|shared| !shared.is_over());
        self.shared.iter().find_map(|shared| shared.enter(limit))
    }

    fn leads_to(&self, origin: &Origin) -> bool {
        self.route.as_ref().is_some_and(|route| route.origin == *origin)
    }
}
