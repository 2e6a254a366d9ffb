//! Rows of the outbox become events, or are set aside.

use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::warn;

use super::{Accepted, Chunk, EmitError, Emitter, Failed, Unrecorded, submit};
use crate::engine::LaneId;
use crate::event::Offer;
use crate::roster::Roster;
use crate::store::command::{Command, Emit, RejectOutbox};
use crate::store::read::OutboxRow;
use crate::store::reply::Reply;

/// What became of an outbox row.
#[derive(Clone, Debug)]
pub(in crate::runtime) enum Outboxed {
    /// It is an event, or set aside.
    Gone,
    /// It stays: these lanes can't take it now.
    Waits { lanes: Vec<LaneId>, error: EmitError },
    /// It stays: whoever asked did not want it tried, since it is for these lanes.
    Passed(Vec<LaneId>),
    /// It stays: subscribers changed meanwhile, and it is to be matched anew.
    Stale,
    /// It stays: the store took nothing.
    Failed(EmitError),
}

/// What is to be done with a row.
enum Plan {
    Emit(Emit),
    Reject(String),
    Leave(Outboxed),
}

/// What becomes of a row by the answer to its event; why to set it aside, if it would wait for ever, and all that come
/// after it.
fn fate(answer: Result<Accepted, Unrecorded>) -> Result<Outboxed, String> {
    match answer {
        Ok(_) => Ok(Outboxed::Gone),
        Err(Unrecorded::StaleRoster) => Ok(Outboxed::Stale),
        Err(Unrecorded::For(error)) if !error.may_pass() => Err(error.to_string()),
        Err(Unrecorded::For(EmitError::Full(full))) => {
            let lanes = full.iter().map(|full| full.lane).collect();
            Ok(Outboxed::Waits { lanes, error: EmitError::Full(full) })
        }
        Err(Unrecorded::For(error)) => Ok(Outboxed::Failed(error)),
    }
}

impl Emitter {
    /// Makes events of those outbox rows whose lanes are wanted, in their order, about one commit's worth at a time,
    /// and waits until that is durable. What became of each. For a thread of its own.
    pub(in crate::runtime) fn emit_outbox(
        self: &Arc<Self>,
        rows: &[OutboxRow],
        wanted: impl Fn(&[LaneId]) -> bool,
    ) -> Vec<Outboxed> {
        let roster = self.roster();
        let mut fates = vec![Outboxed::Gone; rows.len()];
        let mut rejects = Vec::new();
        let mut left = rows.iter().enumerate();
        let mut over = None;
        while over.is_none() {
            let mut chunk = Chunk::default();
            while !chunk.is_full()
                && let Some((place, row)) = left.next()
            {
                match self.plan(&roster, row, &wanted) {
                    Plan::Emit(emit) => chunk.add(place, emit),
                    Plan::Reject(why) => rejects.push((place, RejectOutbox { id: row.id, why })),
                    Plan::Leave(fate) => fates[place] = fate,
                }
            }
            if chunk.is_empty() {
                break;
            }
            for (place, answer) in self.record(chunk) {
                match fate(answer) {
                    Ok(fate) => fates[place] = fate,
                    Err(why) => rejects.push((place, RejectOutbox { id: rows[place].id, why })),
                }
                if matches!(fates[place], Outboxed::Stale | Outboxed::Failed(_)) {
                    over = Some(fates[place].clone());
                }
            }
        }
        // None overtakes those that the store did not take.
        if let Some(over) = over {
            left.for_each(|(place, _)| fates[place] = over.clone());
        }
        let (places, rejects): (Vec<usize>, Vec<RejectOutbox>) = rejects.into_iter().unzip();
        if let Err(error) = self.reject(rejects) {
            for place in places {
                fates[place] = Outboxed::Failed(error.clone());
            }
        }
        fates
    }

    /// Records events, and waits until that is durable.
    fn record(
        self: &Arc<Self>,
        mut chunk: Chunk,
    ) -> impl Iterator<Item = (usize, Result<Accepted, Unrecorded>)> + use<> {
        let places = std::mem::take(&mut chunk.places);
        let told = self.submit(chunk);
        let answers = told.answers.blocking_recv().unwrap_or(told.unanswered);
        places.into_iter().zip(answers)
    }

    fn plan(&self, roster: &Roster, row: &OutboxRow, wanted: impl Fn(&[LaneId]) -> bool) -> Plan {
        if let Some(why) = &row.unreadable {
            return Plan::Reject(why.clone());
        }
        let (id, key) = (row.event.as_deref(), row.key.as_deref());
        let offer = match Offer::from_parts(id, &row.kind, key, row.data.as_bytes(), &self.limits) {
            Ok(offer) => offer,
            Err(refusal) => return Plan::Reject(refusal.to_string()),
        };
        let lanes: Vec<LaneId> = match roster.in_the_way(&offer.event_type) {
            Some((broken, _)) => vec![broken.lane()],
            None => roster.matching(&offer.event_type).into_iter().map(|(lane, _)| lane).collect(),
        };
        if !wanted(&lanes) {
            return Plan::Leave(Outboxed::Passed(lanes));
        }
        match self.prepare(roster, &offer, Some(row.id)) {
            Ok(emit) => Plan::Emit(emit),
            Err(error) => Plan::Leave(Outboxed::Waits { lanes, error }),
        }
    }

    /// Sets aside rows that can't become events, and waits until that is durable: else the next look would find them,
    /// and complain of them, again.
    fn reject(&self, rejects: Vec<RejectOutbox>) -> Result<(), EmitError> {
        if rejects.is_empty() {
            return Ok(());
        }
        let (tell, told) = oneshot::channel();
        let commands = rejects.iter().cloned().map(Command::RejectOutbox).collect();
        // The watcher waits below; it is gone only with the process.
        submit(&self.store, commands, move |result| drop(tell.send(result)));
        let replies = told.blocking_recv().unwrap_or(Err(Failed::Stopped))?;
        for (RejectOutbox { id, why }, reply) in rejects.iter().zip(replies) {
            // Another process may have been there first, and said so.
            if matches!(reply, Reply::Done) {
                warn!(row = id.0, refusal = %why, "set aside an outbox row");
            }
        }
        Ok(())
    }
}
