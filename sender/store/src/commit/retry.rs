//! Attempts that an operator asks for. Retries become due now, and the owner of the lane learns of it with the next
//! version of the subscriber set. A settled delivery waits again. A change that has the endpoint tried at once, and the
//! end of a pause, make the earliest retry due.

use super::room::RoomRows;
use super::subscribe::SubscriberRows;
use crate::command::{Change, Retry, ToRetry};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::lane::LaneState;
use crate::read::Place;
use crate::reply::{Refusal, Reply};

pub(crate) struct Resendable {
    pub(crate) bytes: u64,
    pub(crate) ttl: Nanos,
}

pub(crate) trait RetryRows: RoomRows + SubscriberRows {
    fn place_of(&mut self, delivery: DeliveryId) -> Result<Option<(LaneId, Place)>, Self::Error>;

    /// Has retries due now that were due later, the earliest first. A claimed delivery was due already. Returns their
    /// number.
    fn bring_forward(&mut self, lane: LaneId, one: Option<DeliveryId>, max: u32) -> Result<u64, Self::Error>;

    fn set_retried(&mut self, lane: LaneId, insist: bool, version: u64) -> Result<(), Self::Error>;

    /// Nothing if its body is gone.
    fn resendable(&mut self, delivery: DeliveryId) -> Result<Option<Resendable>, Self::Error>;

    /// Makes a settled delivery wait again, due now, and records that an operator asked for it. False if another process
    /// has deleted it meanwhile.
    fn set_resent(&mut self, delivery: DeliveryId, expires: StoreTime) -> Result<bool, Self::Error>;

    /// A delivered one counts as one more that is accepted, so that no such count ever falls.
    fn resend(&mut self, delivery: DeliveryId) -> Result<Reply, Self::Error> {
        let Some((lane, place)) = self.place_of(delivery)? else {
            return Ok(Reply::Refused(Refusal::UnknownDelivery(delivery)));
        };
        match place {
            Place::Waiting => return Ok(Reply::Refused(Refusal::Pending)),
            Place::Coalesced => return Ok(Reply::Refused(Refusal::Replaced)),
            Place::Forgotten => return Ok(Reply::Refused(Refusal::BodyGone)),
            Place::Delivered | Place::Dead => {}
        }
        self.lock([lane])?;
        let state = self.lane(lane)?.map_or(LaneState::Removed, |lane| lane.state);
        if state != LaneState::Active {
            return Ok(Reply::Refused(Refusal::NotActive(state)));
        }
        let Some(body) = self.resendable(delivery)? else {
            return Ok(Reply::Refused(Refusal::BodyGone));
        };
        if let Some(bound) = self.bound_reached(lane, body.bytes)? {
            return Ok(Reply::Refused(Refusal::NoRoom(bound)));
        }
        let is_sent = self.send_again(lane, delivery, place, &body)?;
        Ok(if is_sent { Reply::Resent } else { Reply::Refused(Refusal::BodyGone) })
    }

    /// The lane has room. False if the delivery is gone.
    fn send_again(
        &mut self,
        lane: LaneId,
        delivery: DeliveryId,
        place: Place,
        body: &Resendable,
    ) -> Result<bool, Self::Error> {
        if !self.set_resent(delivery, self.after(body.ttl))? {
            return Ok(false);
        }
        self.disturb(lane)?;
        self.arrive(lane, self.now())?;
        self.stir()?;
        self.count(lane, |counts| {
            if place == Place::Dead {
                counts.dead = counts.dead.saturating_sub(1);
                counts.dead_kept = counts.dead_kept.saturating_sub(1);
            } else {
                counts.accepted += 1;
            }
            counts.waiting += 1;
            counts.waiting_bytes += body.bytes;
        })?;
        Ok(true)
    }

    fn retry_now(&mut self, retry: &Retry) -> Result<Reply, Self::Error> {
        let (lane, one) = match retry.which {
            ToRetry::Of(lane) => (lane, None),
            ToRetry::This(delivery) => match self.place_of(delivery)? {
                Some((lane, Place::Waiting)) => (lane, Some(delivery)),
                Some((_, place)) => return Ok(Reply::Refused(Refusal::NotWaiting(place))),
                None => return Ok(Reply::Refused(Refusal::UnknownDelivery(delivery))),
            },
        };
        self.lock([lane])?;
        let Some(state) =
            self.lane(lane)?.map(|lane| lane.state).filter(|state| *state != LaneState::Removed)
        else {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        };
        if state != LaneState::Active {
            return Ok(Reply::Refused(Refusal::NotActive(state)));
        }
        let rows = self.make_due(lane, one, retry.max)?;
        if retry.probe {
            let version = self.next_roster()?;
            self.set_retried(lane, retry.insist, version)?;
        }
        Ok(Reply::Retried { lane, rows, more: one.is_none() && rows >= u64::from(retry.max) })
    }

    fn change_and_try(&mut self, change: &Change) -> Result<Reply, Self::Error> {
        let lane = change.lane;
        let reply = self.change(change)?;
        if reply == Reply::Done
            && self.lane(lane)?.is_some_and(|lane| lane.state == LaneState::Active)
            && self.retried(lane)? == self.roster()
        {
            self.make_due(lane, None, 1)?;
        }
        Ok(reply)
    }

    fn make_due(&mut self, lane: LaneId, one: Option<DeliveryId>, max: u32) -> Result<u64, Self::Error> {
        let rows = self.bring_forward(lane, one, max)?;
        if rows > 0 {
            self.disturb(lane)?;
            self.arrive(lane, self.now())?;
            self.stir()?;
        }
        Ok(rows)
    }
}
