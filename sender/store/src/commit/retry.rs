//! Retries that an operator asks for. They become due now, and the owner of the lane learns of it with the next
//! version of the subscriber set.

use super::dead::DeadRows;
use super::subscribe::SubscriberRows;
use crate::command::{Retry, ToRetry};
use crate::engine::{DeliveryId, LaneId};
use crate::lane::LaneState;
use crate::read::Place;
use crate::reply::{Refusal, Reply};

pub(crate) trait RetryRows: DeadRows + SubscriberRows {
    fn place_of(&mut self, delivery: DeliveryId) -> Result<Option<(LaneId, Place)>, Self::Error>;

    /// Has retries due now that were due later, the earliest first. A claimed delivery was due already. Returns their
    /// number.
    fn bring_forward(&mut self, lane: LaneId, one: Option<DeliveryId>, max: u32) -> Result<u64, Self::Error>;

    fn set_retried(&mut self, lane: LaneId, insist: bool, version: u64) -> Result<(), Self::Error>;

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
        let rows = self.bring_forward(lane, one, retry.max)?;
        if rows > 0 {
            self.disturb(lane)?;
            self.arrive(lane, self.now())?;
            self.stir()?;
        }
        if retry.probe {
            let version = self.next_roster()?;
            self.set_retried(lane, retry.insist, version)?;
        }
        Ok(Reply::Retried { lane, rows, more: one.is_none() && rows >= u64::from(retry.max) })
    }
}
