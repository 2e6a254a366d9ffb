//! Outbox rows become events, or are set aside.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::warn;

use super::{
    Accepted, Chunk, EmitError, Emitter, Failed, Prepared, Refused, RefusedList, Unrecorded, submit,
};
use crate::engine::LaneId;
use crate::event::Offer;
use crate::roster::Roster;
use crate::store::StoreError;
use crate::store::command::{Command, OutboxId, RejectOutbox};
use crate::store::read::{OutboxRow, Reader};
use crate::store::reply::Reply;

#[derive(Clone, Debug)]
pub(in crate::runtime) enum Outboxed {
    /// It became an event, or was set aside.
    Gone,
    /// The caller did not want it tried.
    Untried,
    /// It stays. `refused` cannot take it now, and `withheld` were not asked.
    Waits { refused: Vec<LaneId>, withheld: Vec<LaneId>, error: Option<EmitError> },
    /// It stays, and must be matched again.
    Stale,
    /// It stays; the store failed.
    Failed(EmitError),
}

/// Which rows to try, and for which lanes.
pub(in crate::runtime) trait Wanted {
    /// Whether to try a row that these lanes want.
    fn wants(&self, lanes: &[LaneId]) -> bool;
    /// Whether an older row may wait for this lane.
    fn withholds(&self, row: OutboxId, lane: LaneId) -> bool;
}

struct TargetLanes {
    lanes: Vec<LaneId>,
    withheld: Vec<LaneId>,
}

enum Plan {
    Emit(Box<Prepared>, TargetLanes),
    Reject(String),
    Leave(Outboxed),
}

/// `Err` is the reason to set the row aside: it would block itself and all later rows for ever.
fn fate(answer: Result<Accepted, Unrecorded>, asked: TargetLanes) -> Result<Outboxed, String> {
    let TargetLanes { lanes, withheld } = asked;
    let full = match answer {
        Ok(accepted) if accepted.refused.is_empty() && withheld.is_empty() => return Ok(Outboxed::Gone),
        Ok(accepted) => accepted.refused,
        Err(Unrecorded::For(EmitError::Full(full) | EmitError::NeverFits(full))) => full,
        Err(Unrecorded::StaleRoster) => return Ok(Outboxed::Stale),
        // Reading the row again finds lanes that have it.
        Err(Unrecorded::Named) => return Ok(Outboxed::Waits { refused: lanes, withheld, error: None }),
        Err(Unrecorded::For(error)) if !error.may_pass() => return Err(error.to_string()),
        Err(Unrecorded::For(error)) => return Ok(Outboxed::Failed(error)),
    };
    let waiting: Vec<Refused> = full.listed().iter().copied().filter(|full| !full.never_fits()).collect();
    if waiting.is_empty() && withheld.is_empty() {
        return Err(EmitError::NeverFits(full).to_string());
    }
    let refused = waiting.iter().map(Refused::lane).collect();
    let error = (!waiting.is_empty()).then(|| EmitError::Full(RefusedList::new(waiting)));
    Ok(Outboxed::Waits { refused, withheld, error })
}

impl Emitter {
    /// Emits in order, about one commit's worth at a time. Blocks until all is durable.
    pub(in crate::runtime) fn emit_outbox(
        self: &Arc<Self>,
        reader: &dyn Reader,
        rows: &[OutboxRow],
        wanted: &impl Wanted,
    ) -> Result<Vec<Outboxed>, StoreError> {
        let roster = self.roster();
        let mut fates = vec![Outboxed::Gone; rows.len()];
        let mut rejects = Vec::new();
        let mut left = rows.iter().enumerate();
        let mut over = None;
        let mut full: BTreeSet<LaneId> = BTreeSet::new();
        while over.is_none() {
            let (mut chunk, mut asked) = (Chunk::default(), Vec::new());
            while !chunk.is_full()
                && let Some((place, row)) = left.next()
            {
                match self.plan(reader, &roster, row, wanted, &full)? {
                    Plan::Emit(prepared, of) => {
                        chunk.add(place, *prepared);
                        asked.push(of);
                    }
                    Plan::Reject(why) => rejects.push((place, RejectOutbox { id: row.id, why })),
                    Plan::Leave(fate) => fates[place] = fate,
                }
            }
            if chunk.is_empty() {
                break;
            }
            for ((place, answer), asked) in self.record(chunk).zip(asked) {
                match fate(answer, asked) {
                    Ok(fate) => {
                        if let Outboxed::Waits { refused, .. } = &fate {
                            full.extend(refused);
                        }
                        fates[place] = fate;
                    }
                    Err(why) => rejects.push((place, RejectOutbox { id: rows[place].id, why })),
                }
                if matches!(fates[place], Outboxed::Stale | Outboxed::Failed(_)) {
                    over = Some(fates[place].clone());
                }
            }
        }
        // No later row overtakes rows that the store did not take.
        if let Some(over) = over {
            left.for_each(|(place, _)| fates[place] = over.clone());
        }
        let (places, rejects): (Vec<usize>, Vec<RejectOutbox>) = rejects.into_iter().unzip();
        if let Err(error) = self.reject(rejects) {
            for place in places {
                fates[place] = Outboxed::Failed(error.clone());
            }
        }
        Ok(fates)
    }

    fn record(
        self: &Arc<Self>,
        mut chunk: Chunk,
    ) -> impl Iterator<Item = (usize, Result<Accepted, Unrecorded>)> + use<> {
        let places = std::mem::take(&mut chunk.places);
        let told = self.submit(chunk);
        let answers = told.answers.blocking_recv().unwrap_or(told.unanswered);
        self.end_spans(told.spans, &answers);
        places.into_iter().zip(answers)
    }

    fn plan(
        &self,
        reader: &dyn Reader,
        roster: &Roster,
        row: &OutboxRow,
        wanted: &impl Wanted,
        full: &BTreeSet<LaneId>,
    ) -> Result<Plan, StoreError> {
        if let Some(why) = &row.unreadable {
            return Ok(Plan::Reject(why.clone()));
        }
        let (id, key) = (row.event.as_deref(), row.key.as_deref());
        let offer = match Offer::from_parts(id, &row.kind, key, row.data.as_bytes(), &self.limits) {
            Ok(offer) => offer,
            Err(refusal) => return Ok(Plan::Reject(refusal.to_string())),
        };
        let mut lanes: Vec<LaneId> = match roster.in_the_way(&offer.event_type, None) {
            Some((broken, _)) => vec![broken.lane()],
            None => roster.matching(&offer.event_type, None).into_iter().map(|(lane, _)| lane).collect(),
        };
        if !wanted.wants(&lanes) {
            return Ok(Plan::Leave(Outboxed::Untried));
        }
        // Lanes may have their part already. A broken subscriber that matches blocks the event for all.
        if let Some(id) = &row.event
            && roster.in_the_way(&offer.event_type, None).is_none()
        {
            let have_it: BTreeSet<LaneId> = reader.lanes_in_part(id)?.into_iter().collect();
            lanes.retain(|lane| !have_it.contains(lane));
        }
        let is_withheld = |lane: &LaneId| full.contains(lane) || wanted.withholds(row.id, *lane);
        let (withheld, asked): (Vec<LaneId>, Vec<LaneId>) = lanes.iter().copied().partition(is_withheld);
        if asked.is_empty() && !withheld.is_empty() {
            return Ok(Plan::Leave(Outboxed::Waits { refused: Vec::new(), withheld, error: None }));
        }
        Ok(match self.prepare(roster, &offer) {
            Ok(mut prepared) => {
                let wanted: BTreeSet<LaneId> = asked.iter().copied().collect();
                prepared.left_out.retain(|lane| wanted.contains(lane));
                let emit = &mut prepared.emit;
                emit.targets.retain(|target| wanted.contains(&target.lane));
                emit.withheld = !withheld.is_empty() || !prepared.left_out.is_empty();
                emit.outbox = Some(row.id);
                Plan::Emit(Box::new(prepared), TargetLanes { lanes: asked, withheld })
            }
            Err(error) if !error.may_pass() => Plan::Reject(error.to_string()),
            Err(error) => {
                Plan::Leave(Outboxed::Waits { refused: lanes, withheld: Vec::new(), error: Some(error) })
            }
        })
    }

    /// Otherwise the next poll would log them again.
    fn reject(&self, rejects: Vec<RejectOutbox>) -> Result<(), EmitError> {
        if rejects.is_empty() {
            return Ok(());
        }
        let (tell, told) = oneshot::channel();
        let commands = rejects.iter().cloned().map(Command::RejectOutbox).collect();
        submit(&self.store, commands, move |result| drop(tell.send(result)));
        let replies = told.blocking_recv().unwrap_or(Err(Failed::Stopped))?;
        for (RejectOutbox { id, why }, reply) in rejects.iter().zip(replies) {
            // Otherwise another process has logged it.
            if matches!(reply, Reply::Done) {
                warn!(row = id.0, refusal = %why, "rejected an outbox row");
            }
        }
        Ok(())
    }
}
