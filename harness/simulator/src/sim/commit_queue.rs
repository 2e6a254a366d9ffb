//! A process's store thread. One commit takes all waiting commands. Claims pass ahead of it if the sender's own rule
//! ([`PendingByLane`]) allows it.

use std::sync::Arc;

use hookproof_sender::dispatch::{Answered, Order};
use hookproof_sender::engine::{LaneId, StoreTime};
use hookproof_sender::store::command::{Claim, Command};
use hookproof_sender::store::reply::{Claimed, Reply};
use hookproof_sender::store::thread::{Ahead, PendingByLane};
use hookproof_sender::store::{Claimer, QuickClaims, Store, StoreError};

use super::ledger::Ledger;

const CLAIMS_MAX: usize = 64;

pub(super) enum Then {
    /// The emitters of these tokens, and the dispatcher for these lanes.
    Emit {
        tokens: Vec<u64>,
        lanes: Vec<Vec<LaneId>>,
    },
    Order(Order),
    /// By the number of the action.
    Operate(u64),
    Nothing,
}

pub(super) struct Request {
    pub(super) commands: Vec<Command>,
    pub(super) then: Then,
}

pub(super) struct CommitQueue {
    waiting: Vec<Request>,
    committing: Vec<Request>,
    pending: PendingByLane,
    /// Pass ahead of the commit.
    claims: Vec<(Order, Claim, Ahead)>,
    claimer: Option<Box<dyn Claimer>>,
    quick: Option<Arc<dyn QuickClaims>>,
    pub(super) failing: Option<u64>,
    pub(super) ledger: Ledger,
    /// A commit may have changed the nodes or handed a lane back since the last call.
    pub(super) nodes_stirred: bool,
}

impl CommitQueue {
    /// Claims are answered beside the commits of `store`.
    pub(super) fn new(store: &dyn Store) -> Result<Self, StoreError> {
        Ok(Self {
            waiting: Vec::new(),
            committing: Vec::new(),
            pending: PendingByLane::default(),
            claims: Vec::new(),
            claimer: store.claimer()?,
            quick: store.quick_claims(),
            failing: None,
            ledger: Ledger::default(),
            nodes_stirred: false,
        })
    }

    pub(super) fn submit(&mut self, commands: Vec<Command>, then: Then) {
        self.pending.begin(&commands);
        self.waiting.push(Request { commands, then });
    }

    /// A claim that may pass is answered beside the next commit.
    pub(super) fn order(&mut self, order: Order, command: Command, now: StoreTime) {
        match command {
            Command::Claim(claim) if self.claimer.is_some() => {
                let command = [Command::Claim(claim.clone())];
                match self.pending.lets_pass(&command, now) {
                    Some(ahead) => self.claims.push((order, claim, ahead)),
                    None => self.submit(command.into(), Then::Order(order)),
                }
            }
            command => self.submit(vec![command], Then::Order(order)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.committing.is_empty()
    }

    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Request> {
        self.committing.iter().chain(&self.waiting)
    }

    pub(super) fn begin_commit(&mut self) -> bool {
        let begins = self.committing.is_empty() && !self.waiting.is_empty();
        if begins {
            self.committing = std::mem::take(&mut self.waiting);
        }
        begins
    }

    /// Leaves the file as after a crash before the answers. Returns the operator actions in it.
    pub(super) fn commit_silently(
        &mut self,
        store: &mut dyn Store,
        now: StoreTime,
    ) -> Result<Vec<u64>, StoreError> {
        let commands: Vec<Command> =
            self.committing.iter().flat_map(|request| request.commands.iter().cloned()).collect();
        self.nodes_stirred |= commands.iter().any(stirs_nodes);
        if !commands.is_empty() {
            let replies = store.commit(now, &commands)?;
            self.ledger.count_commands(&commands, &replies);
        }
        Ok(errands(self.committing.iter()))
    }

    /// Returns each receiver with the store's replies.
    pub(super) fn commit(
        &mut self,
        store: &mut dyn Store,
        now: StoreTime,
    ) -> Result<Vec<(Then, Vec<Reply>)>, StoreError> {
        let requests = std::mem::take(&mut self.committing);
        let counts: Vec<usize> = requests.iter().map(|request| request.commands.len()).collect();
        let (commands, thens): (Vec<_>, Vec<_>) =
            requests.into_iter().map(|request| (request.commands, request.then)).unzip();
        let commands: Vec<Command> = commands.into_iter().flatten().collect();
        let replies = store.commit(now, &commands)?;
        self.nodes_stirred |= commands.iter().any(stirs_nodes);
        self.pending.end(&commands);
        self.ledger.count_commands(&commands, &replies);
        let mut replies = replies.into_iter();
        let told = thens.into_iter().zip(counts);
        Ok(told.map(|(then, count)| (then, replies.by_ref().take(count).collect())).collect())
    }

    /// A claim that needs a commit after all goes into the next one.
    pub(super) fn claim(&mut self, now: StoreTime) -> Result<Vec<Answered>, StoreError> {
        let mut orders = std::mem::take(&mut self.claims);
        let mut told = Vec::with_capacity(orders.len());
        if let Some(quick) = &self.quick {
            orders.retain(|(order, claim, ahead)| {
                let claimed = quick.claim(ahead.moment(now), claim);
                let is_open = claimed.is_none();
                told.extend(claimed.map(|claimed| claimed_to(*order, *ahead, claimed)));
                is_open
            });
        }
        for some in orders.chunks(CLAIMS_MAX) {
            let claims: Vec<Claim> = some.iter().map(|(_, claim, _)| claim.clone()).collect();
            let moment = some.iter().map(|(.., ahead)| ahead.moment(now)).min().unwrap_or(now);
            let claimed = match &mut self.claimer {
                Some(claimer) => claimer.claim(moment, &claims)?,
                None => None,
            };
            match claimed {
                Some(claimed) => {
                    let each = some.iter().zip(claimed);
                    told.extend(each.map(|((order, _, ahead), rows)| claimed_to(*order, *ahead, rows)));
                }
                // A claim after the commands that it would have passed.
                None => some.iter().for_each(|(order, claim, _)| {
                    self.submit(vec![Command::Claim(claim.clone())], Then::Order(*order));
                }),
            }
        }
        Ok(told)
    }
}

fn stirs_nodes(command: &Command) -> bool {
    match command {
        Command::Persist(persist) => persist.hand_back,
        Command::Renew(renew) => renew.announce.is_some(),
        Command::Evict(_) | Command::Retire(_) | Command::Drain(_) => true,
        _ => false,
    }
}

fn claimed_to(order: Order, ahead: Ahead, mut claimed: Claimed) -> Answered {
    ahead.set_next_claim(&mut claimed);
    Answered { order, reply: Ok(Reply::Claimed(claimed)), moment: None }
}

pub(super) fn errands<'a>(requests: impl Iterator<Item = &'a Request>) -> Vec<u64> {
    let errand = |request: &Request| match request.then {
        Then::Operate(errand) => Some(errand),
        _ => None,
    };
    requests.filter_map(errand).collect()
}
