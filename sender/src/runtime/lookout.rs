//! How a process learns of other processes' commits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::dispatch::Event;
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::roster::{Roster, RosterKeeper};
use crate::store::StoreError;
use crate::store::lane::OwnerId;
use crate::store::read::{Glance, Owner, Reader};
use crate::store::token::StoredToken;

/// Events emitted elsewhere wait half of it on average.
pub const LOOK_EVERY: Duration = Duration::from_millis(4);
pub(super) const LOOKS_BETWEEN_OWNERS: u32 = 250;
/// The interval of checks for dead owners: about one second.
pub const OWNERS_EVERY: Duration = LOOK_EVERY.saturating_mul(LOOKS_BETWEEN_OWNERS);
const ROWS_MAX: u32 = 1_000;

/// The tokens of the database, as this process last read them. They hold while the database cannot be read.
#[derive(Clone, Debug, Default)]
pub struct KnownTokens {
    pub tokens: Arc<[StoredToken]>,
    /// Whether this process ever saw one. Then it never again answers without one.
    pub were_seen: bool,
}

pub(super) type TokenCache = Arc<watch::Sender<KnownTokens>>;

#[derive(Debug)]
pub struct Lookout {
    seen: Glance,
    keeper: RosterKeeper,
    tokens: TokenCache,
    /// The version of the subscriber set with which the tokens were read.
    tokens_of: Option<u64>,
}

impl Lookout {
    #[must_use]
    pub fn new(seen: Glance, keeper: RosterKeeper) -> Self {
        Self { seen, keeper, tokens: TokenCache::default(), tokens_of: None }
    }

    pub(super) fn with_tokens(
        seen: Glance,
        keeper: RosterKeeper,
        reader: &dyn Reader,
    ) -> Result<(Self, TokenCache), StoreError> {
        let mut lookout = Self::new(seen, keeper);
        lookout.read_tokens(reader, &seen)?;
        let tokens = Arc::clone(&lookout.tokens);
        Ok((lookout, tokens))
    }

    #[must_use]
    pub const fn roster(&self) -> &Arc<Roster> {
        self.keeper.present()
    }

    /// Events go to `tell` in order. `recorded_here` says whether this process itself recorded all deliveries after the
    /// first id up to the second. After an error, the next poll finds the rest.
    pub fn poll(
        &mut self,
        reader: &dyn Reader,
        now: StoreTime,
        recorded_here: impl FnOnce(DeliveryId, DeliveryId) -> bool,
        mut tell: impl FnMut(Event),
    ) -> Result<Glance, StoreError> {
        let glance = reader.glance()?;
        // A process that knows a version of the set knows its tokens too, unless they cannot be read.
        let tokens = self.read_tokens(reader, &glance);
        let caught_up = self.catch_up(reader, now, &glance, &mut tell);
        let is_late = glance.late != self.seen.late;
        // Settled ids may belong to deliveries committed late.
        if glance.last != self.seen.last || glance.settled != self.seen.settled || is_late {
            if is_late || !recorded_here(self.seen.settled, glance.last) {
                self.find_new_work(reader, &mut tell)?;
            }
            (self.seen.last, self.seen.settled) = (glance.last, glance.settled);
            self.seen.late = glance.late;
        }
        if glance.nodes != self.seen.nodes {
            tell(Event::Nodes(reader.nodes()?));
            self.seen.nodes = glance.nodes;
        }
        if glance.stirred != self.seen.stirred {
            self.find_stirred_work(reader, &mut tell)?;
            self.seen.stirred = glance.stirred;
        }
        tokens.and(caught_up).map(|()| glance)
    }

    /// An unreadable change does not stop deliveries.
    fn catch_up(
        &mut self,
        reader: &dyn Reader,
        now: StoreTime,
        glance: &Glance,
        tell: &mut impl FnMut(Event),
    ) -> Result<(), StoreError> {
        if glance.roster != self.seen.roster {
            self.keeper.catch_up(reader, now)?;
            tell(Event::Roster(Arc::clone(self.keeper.reach(glance.roster))));
            self.seen.roster = glance.roster;
        }
        Ok(())
    }

    /// A change of a token makes a new version of the subscriber set.
    fn read_tokens(&mut self, reader: &dyn Reader, glance: &Glance) -> Result<(), StoreError> {
        if self.tokens_of != Some(glance.roster) {
            let tokens: Arc<[StoredToken]> = reader.tokens()?.into();
            self.tokens.send_modify(|known| {
                known.were_seen |= !tokens.is_empty();
                known.tokens = tokens;
            });
            self.tokens_of = Some(glance.roster);
        }
        Ok(())
    }

    fn find_new_work(&self, reader: &dyn Reader, tell: &mut impl FnMut(Event)) -> Result<(), StoreError> {
        let mut after = self.seen.settled;
        loop {
            let work = reader.work_after(after, ROWS_MAX)?;
            after = work.last;
            tell(Event::Work(work.lanes));
            if !work.more {
                return Ok(());
            }
        }
    }

    fn find_stirred_work(&self, reader: &dyn Reader, tell: &mut impl FnMut(Event)) -> Result<(), StoreError> {
        let lanes: Vec<LaneId> = self.roster().lanes().collect();
        for some in lanes.chunks(ROWS_MAX as usize) {
            tell(Event::Work(reader.heads(some)?));
        }
        Ok(())
    }
}

/// The dead owners that still count. Their lanes need not wait for their leases.
pub fn dead_owners(
    owners: Vec<Owner>,
    ourselves: OwnerId,
    is_dead: impl Fn(OwnerId) -> bool,
) -> impl Iterator<Item = Owner> {
    let counts = move |owner: &Owner| owner.owner != ourselves && counts(owner);
    owners.into_iter().filter(move |owner| counts(owner) && is_dead(owner.owner))
}

/// It has lanes, or may be assigned lanes because it was not evicted.
pub(super) fn counts(owner: &Owner) -> bool {
    owner.lanes > 0 || owner.until > StoreTime(0)
}
