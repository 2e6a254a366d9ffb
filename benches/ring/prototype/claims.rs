//! Claims: all that wait at a time are asked together, part by part.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use hookproof_sender::store::thread::Clock;
use tokio_postgres::{Error, Row, Statement};

use super::parts::{PARTS, Part, Parts};
use super::{Delivery, Link, int, schema};
use crate::failure::Failure;
use crate::workload::{CLAIM_MAX, Told};

/// A claim.
pub(super) struct Claim {
    pub(super) lane: u64,
    /// Of what is to be tried again something is due.
    pub(super) again: bool,
}

pub(super) struct Claims {
    link: Link,
    of_parts: Vec<Statement>,
    of_late: Statement,
    parts: Arc<Parts>,
    /// How far each lane has come.
    cursors: BTreeMap<u64, Cursor>,
    clock: Clock,
    told: Sender<Told<Delivery>>,
}

#[derive(Clone, Copy, Default)]
struct Cursor {
    delivery: i64,
    /// In `late`: when it was due, and its number.
    late: (i64, i64),
}

/// What lanes are handed out.
type Answers = BTreeMap<u64, (Vec<Delivery>, bool)>;

impl Claims {
    pub(super) fn open(
        address: &str,
        parts: Arc<Parts>,
        clock: Clock,
        told: Sender<Told<Delivery>>,
    ) -> Result<Self, Failure> {
        let link = Link::open(address, schema::HOT)?;
        let prepare = |text: String| link.runtime.block_on(link.client.prepare(&text));
        let of_parts =
            (0..PARTS).map(|part| prepare(schema::claim(part, CLAIM_MAX))).collect::<Result<_, _>>()?;
        let of_late = prepare(schema::LATE.to_owned())?;
        Ok(Self { link, of_parts, of_late, parts, cursors: BTreeMap::new(), clock, told })
    }

    /// Until nobody claims any more.
    pub(super) fn run(mut self, asked: &Receiver<Claim>) {
        while let Ok(first) = asked.recv() {
            let claims: Vec<Claim> = std::iter::once(first).chain(asked.try_iter()).collect();
            let answers = match self.answer(&claims) {
                Ok(answers) => answers,
                Err(error) => {
                    // Whoever has stopped listening has said why.
                    drop(self.told.send(Told::Failed(format!("claims of the ring: {error:?}"))));
                    return;
                }
            };
            for (lane, (rows, more)) in answers {
                drop(self.told.send(Told::Claimed { lane, rows, more }));
            }
        }
    }

    fn answer(&mut self, claims: &[Claim]) -> Result<Answers, Error> {
        let mut answers: Answers = claims.iter().map(|claim| (claim.lane, (Vec::new(), false))).collect();
        let again: Vec<u64> = claims.iter().filter(|claim| claim.again).map(|claim| claim.lane).collect();
        if !again.is_empty() {
            self.late(&again, &mut answers)?;
        }
        let living = self.parts.living();
        let end = living.last().map_or(0, |newest| newest.deliveries.end);
        let mut open: Vec<u64> = claims.iter().map(|claim| claim.lane).collect();
        for part in living {
            let behind = |lane: &u64| self.cursor(*lane).delivery + 1 < part.deliveries.end;
            let lanes: Vec<u64> = open.iter().copied().filter(behind).collect();
            if lanes.is_empty() {
                continue;
            }
            let found = self.part(&part, &lanes, &mut answers)?;
            for lane in lanes {
                let (count, cursor) =
                    (found.get(&lane).copied().unwrap_or(0), self.cursors.entry(lane).or_default());
                if count < CLAIM_MAX {
                    // Nothing is left in here that this lane could want: what comes later has higher numbers.
                    cursor.delivery = part.deliveries.end - 1;
                }
                if count > 0 {
                    open.retain(|other| *other != lane);
                    answers.entry(lane).or_default().1 = cursor.delivery + 1 < end;
                }
            }
        }
        Ok(answers)
    }

    fn cursor(&self, lane: u64) -> Cursor {
        self.cursors.get(&lane).copied().unwrap_or_default()
    }

    /// What waits in a part; how many for each lane.
    fn part(
        &mut self,
        part: &Part,
        lanes: &[u64],
        answers: &mut Answers,
    ) -> Result<BTreeMap<u64, u32>, Error> {
        let numbers: Vec<i32> = lanes.iter().map(|lane| number(*lane)).collect();
        let low: Vec<i64> = lanes.iter().map(|lane| self.cursor(*lane).delivery).collect();
        let high = vec![part.deliveries.end; lanes.len()];
        let now = int((self.clock)().0);
        let statement = &self.of_parts[part.table];
        let mut found = BTreeMap::new();
        for row in self.link.query(statement, &[&numbers, &low, &high, &now])? {
            let row = delivery(&row, Some(part.table))?;
            let lane = u64::from(row.lane.unsigned_abs());
            self.cursors.entry(lane).or_default().delivery = row.delivery;
            *found.entry(lane).or_insert(0) += 1;
            answers.entry(lane).or_default().0.push(row);
        }
        Ok(found)
    }

    fn late(&mut self, lanes: &[u64], answers: &mut Answers) -> Result<(), Error> {
        let numbers: Vec<i32> = lanes.iter().map(|lane| number(*lane)).collect();
        let (due, low): (Vec<i64>, Vec<i64>) = lanes.iter().map(|lane| self.cursor(*lane).late).unzip();
        let now = int((self.clock)().0);
        for row in self.link.query(&self.of_late, &[&numbers, &due, &low, &now])? {
            let row = delivery(&row, None)?;
            let lane = u64::from(row.lane.unsigned_abs());
            self.cursors.entry(lane).or_default().late = (row.due, row.delivery);
            answers.entry(lane).or_default().0.push(row);
        }
        Ok(())
    }
}

fn number(lane: u64) -> i32 {
    i32::try_from(lane).expect("lanes are few")
}

fn delivery(row: &Row, table: Option<usize>) -> Result<Delivery, Error> {
    let text = |column| row.try_get::<_, Option<&str>>(column).map(|text| text.map(Into::into));
    Ok(Delivery {
        table,
        delivery: row.try_get(0)?,
        due: row.try_get(1)?,
        expires: row.try_get(2)?,
        received: row.try_get(3)?,
        hash: row.try_get(4)?,
        lane: row.try_get(5)?,
        attempts: row.try_get(6)?,
        id: row.try_get::<_, &str>(8)?.into(),
        kind: row.try_get::<_, &str>(9)?.into(),
        key: text(10)?,
        signature: text(11)?,
        body: row.try_get::<_, &[u8]>(12)?.into(),
    })
}
