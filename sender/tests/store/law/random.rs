use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::Command;
use hookproof_sender::store::command::{
    Acquire, Attempt, AttemptOutcome, Change, Claim, Coalesce, Dead, Details, Emit, Fate, Forget,
    LaneSelection, Persist, Reason, Redrive, Renew, Retry, Settlement, Shed, Sweep, Target, ToRetry,
};
use hookproof_sender::store::lane::{Bounds, LaneState, Limits, OwnerId, WhenFull};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use super::model::{Hands, Model};
use crate::store::world::{at_once, body, later, subscribe};

const LANES: u64 = 4;
const LEASE: Nanos = Nanos::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Pass(Nanos),
    Commit { process: usize, wishes: Vec<Wish> },
    Die { process: usize },
    PowerCut,
}

const KINDS: [&str; 2] = ["k", "video.new"];
const WANTED: [&str; 5] =
    [r#"["*"]"#, r#"["k"]"#, r#"["x", "video.*"]"#, r#"["video", "kk"]"#, "no patterns"];

#[derive(Clone, Copy, Debug)]
pub(crate) struct EmitOptions {
    atomic: bool,
    withheld: bool,
    kind: &'static str,
    /// How many changes of subscribers the emitter has missed.
    behind: u64,
}

/// A command before the state is known.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    Emit {
        lanes: Vec<u64>,
        bytes: usize,
        alike: Option<u8>,
        again: Option<u64>,
        times: (u64, u64),
        how: EmitOptions,
    },
    Claim {
        lane: u64,
        max: u32,
        bytes_max: u64,
        late: bool,
    },
    Settle {
        picks: Vec<(prop::sample::Index, Fate, bool)>,
    },
    Acquire {
        which: u8,
        max: u32,
    },
    Renew,
    Persist {
        lane: u64,
        hand_back: bool,
        late: bool,
    },
    Redrive {
        lane: Option<u64>,
        max: u32,
    },
    Forget {
        lane: Option<u64>,
        max: u32,
    },
    Retry {
        lane: u64,
        max: u32,
    },
    Resend {
        pick: prop::sample::Index,
    },
    Erase {
        pick: prop::sample::Index,
        plan: bool,
    },
    Shed {
        lane: u64,
        max: u32,
    },
    Sweep {
        max: u32,
    },
    Bounds {
        lane: u64,
        bounds: Bounds,
    },
    State {
        lane: u64,
        state: LaneState,
    },
    Patterns {
        lane: u64,
        patterns: &'static str,
    },
    Remove {
        lane: u64,
    },
}

pub(crate) fn limits() -> impl Strategy<Value = Limits> {
    (3..20_u64, 40..400_u64, 1..12_u64, 1..6_u64).prop_map(
        |(waiting_rows_max, waiting_bytes_max, dead_max, dead_per_lane_max)| Limits {
            waiting_rows_max,
            waiting_bytes_max,
            dead_max,
            dead_per_lane_max,
            ..Limits::default()
        },
    )
}

/// Two for each behaviour when full.
pub(crate) fn subscribers() -> Vec<Command> {
    (0..LANES)
        .map(|number| {
            let when_full = if number % 2 == 0 { WhenFull::ShedOldest } else { WhenFull::Refuse };
            let bounds = Bounds { rows_max: 3 + number, bytes_max: 60, when_full };
            Command::Subscribe(subscribe(&number.to_string(), bounds))
        })
        .collect()
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..9_u64).prop_map(|seconds| Step::Pass(Nanos::from_secs(seconds))),
        20 => (0..2_usize, vec(wish(), 1..5)).prop_map(|(process, wishes)| Step::Commit { process, wishes }),
        5 => (0..2_usize, vec(claim(), 1..4)).prop_map(|(process, wishes)| Step::Commit { process, wishes }),
        1 => (0..2_usize).prop_map(|process| Step::Die { process }),
        1 => Just(Step::PowerCut),
    ]
    .prop_map(|step| vec![step]);
    let step = prop_oneof![8 => step, 2 => everyday()];
    let begin = |process| Step::Commit { process, wishes: vec![Wish::Acquire { which: 1, max: 2 }] };
    vec(step, 1..50).prop_map(move |steps| {
        let mut steps: Vec<Step> = steps.into_iter().flatten().collect();
        steps.splice(0..0, [begin(0), begin(1)]);
        steps
    })
}

/// It has claimed every due delivery of a lane, and continues one step at a time.
fn everyday() -> impl Strategy<Value = Vec<Step>> {
    let emit = (0..20_usize, weighted(0.1, 0..2_u8), (0..2_u64, 5..60_u64), how());
    let emit = emit.prop_map(|(bytes, alike, times, how)| Wish::Emit {
        lanes: Vec::new(),
        bytes,
        alike,
        again: None,
        times,
        how,
    });
    let claim = (1..4_u32, 0..100_u64).prop_map(|(max, bytes_max)| (max, bytes_max));
    let one = prop_oneof![
        6 => vec(emit, 1..3).prop_map(Everyday::Wishes),
        6 => claim.prop_map(|(max, bytes_max)| Everyday::Claim { max, bytes_max }),
        3 => settle().prop_map(|settle| Everyday::Wishes(vec![settle])),
        1 => wish().prop_map(|wish| Everyday::Wishes(vec![wish])),
        1 => wish().prop_map(Everyday::Other),
        1 => (0..80_u64).prop_map(|millis| Everyday::Pass(Nanos::from_millis(millis))),
    ];
    (0..2_usize, 1..3_u64, vec(one, 3..15)).prop_map(|(process, lane, ones)| {
        let lane = lane + if process == 0 { 0 } else { 2 };
        let all = Everyday::Claim { max: 100, bytes_max: u64::MAX };
        // The process then knows of others' writes. The first claim of a lane may need a second commit.
        [Everyday::Wishes(vec![Wish::Renew]), all.clone(), all]
            .into_iter()
            .chain(ones)
            .map(|one| one.step(process, lane))
            .collect()
    })
}

#[derive(Clone, Debug)]
enum Everyday {
    Wishes(Vec<Wish>),
    Claim { max: u32, bytes_max: u64 },
    Other(Wish),
    Pass(Nanos),
}

impl Everyday {
    fn step(self, process: usize, lane: u64) -> Step {
        match self {
            Self::Pass(length) => Step::Pass(length),
            Self::Other(wish) => Step::Commit { process: 1 - process, wishes: vec![wish] },
            Self::Claim { max, bytes_max } => {
                Step::Commit { process, wishes: vec![Wish::Claim { lane, max, bytes_max, late: false }] }
            }
            Self::Wishes(mut wishes) => {
                for wish in &mut wishes {
                    if let Wish::Emit { lanes, .. } = wish
                        && lanes.is_empty()
                    {
                        lanes.push(lane);
                    }
                }
                Step::Commit { process, wishes }
            }
        }
    }
}

fn lane() -> impl Strategy<Value = u64> {
    1..=LANES
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Delivered),
        3 => (0..15_u64).prop_map(|seconds| Fate::Retry { due: StoreTime::from_secs(1_800_000_000 + seconds) }),
        1 => Just(Fate::Dead(Reason::Exhausted)),
        1 => Just(Fate::Released),
    ]
}

fn bounds() -> impl Strategy<Value = Bounds> {
    (0..8_u64, 0..120_u64, any::<bool>()).prop_map(|(rows_max, bytes_max, sheds)| {
        let when_full = if sheds { WhenFull::ShedOldest } else { WhenFull::Refuse };
        Bounds { rows_max, bytes_max, when_full }
    })
}

fn how() -> impl Strategy<Value = EmitOptions> {
    let (kind, behind) = (prop::sample::select(KINDS.to_vec()), weighted(0.2, 1..4_u64));
    (prop::bool::weighted(0.3), prop::bool::weighted(0.1), kind, behind).prop_map(
        |(atomic, withheld, kind, behind)| EmitOptions {
            atomic,
            withheld,
            kind,
            behind: behind.unwrap_or(0),
        },
    )
}

fn settle() -> impl Strategy<Value = Wish> {
    vec((any::<prop::sample::Index>(), fate(), prop::bool::weighted(0.15)), 1..5)
        .prop_map(|picks| Wish::Settle { picks })
}

fn claim() -> impl Strategy<Value = Wish> {
    (lane(), 0..4_u32, 0..100_u64, prop::bool::weighted(0.1))
        .prop_map(|(lane, max, bytes_max, late)| Wish::Claim { lane, max, bytes_max, late })
}

fn wish() -> impl Strategy<Value = Wish> {
    let states = [LaneState::Active, LaneState::Active, LaneState::Paused, LaneState::Disabled];
    prop_oneof![
        12 => (vec(lane(), 1..4), 0..40_usize, weighted(0.4, 0..2_u8), weighted(0.2, 0..30_u64), (0..3_u64, 5..60_u64), how())
            .prop_map(|(lanes, bytes, alike, again, times, how)| Wish::Emit { lanes, bytes, alike, again, times, how }),
        8 => claim(),
        8 => settle(),
        6 => (0..3_u8, 1..4_u32).prop_map(|(which, max)| Wish::Acquire { which, max }),
        3 => Just(Wish::Renew),
        2 => (lane(), any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(lane, hand_back, late)| Wish::Persist { lane, hand_back, late }),
        2 => (weighted(0.5, lane()), 1..6_u32).prop_map(|(lane, max)| Wish::Redrive { lane, max }),
        1 => (weighted(0.5, lane()), 1..3_u32).prop_map(|(lane, max)| Wish::Forget { lane, max }),
        2 => (lane(), 1..3_u32).prop_map(|(lane, max)| Wish::Retry { lane, max }),
        3 => any::<prop::sample::Index>().prop_map(|pick| Wish::Resend { pick }),
        2 => (any::<prop::sample::Index>(), prop::bool::weighted(0.2))
            .prop_map(|(pick, plan)| Wish::Erase { pick, plan }),
        1 => (lane(), 1..3_u32).prop_map(|(lane, max)| Wish::Shed { lane, max }),
        2 => (1..6_u32).prop_map(|max| Wish::Sweep { max }),
        1 => (lane(), bounds()).prop_map(|(lane, bounds)| Wish::Bounds { lane, bounds }),
        1 => (lane(), prop::sample::select(states.to_vec())).prop_map(|(lane, state)| Wish::State { lane, state }),
        2 => (lane(), prop::sample::select(WANTED.to_vec()))
            .prop_map(|(lane, patterns)| Wish::Patterns { lane, patterns }),
        1 => prop::sample::select(vec![None, None, None, Some(3_u64)])
            .prop_map(|lane| lane.map_or(Wish::Renew, |lane| Wish::Remove { lane })),
    ]
}

fn picked(model: &Model, pick: &prop::sample::Index) -> DeliveryId {
    let all = usize::try_from(model.next_delivery()).unwrap();
    DeliveryId(u64::try_from(pick.index(all)).unwrap())
}

impl Wish {
    pub(crate) fn command(&self, model: &Model, hands: &Hands, owner: OwnerId) -> Command {
        let term = |lane: LaneId, late: bool| match (hands.term(lane), late) {
            (Some(term), false) => term,
            (Some(term), true) => Term(term.0 - 1),
            // Without ownership, a process knows an older term at most.
            (None, _) => Term(model.term(lane).0.saturating_sub(1)),
        };
        match self {
            Self::Emit { lanes, bytes, alike, again, times, how } => {
                let emit = emit(model, lanes, *bytes, *alike, *again, *times);
                let EmitOptions { atomic, withheld, kind, behind } = *how;
                let roster = emit.roster.saturating_sub(behind);
                Command::Emit(Emit { roster, kind: kind.into(), atomic, withheld, ..emit })
            }
            Self::Claim { lane, max, bytes_max, late } => {
                let lane = LaneId(*lane);
                Command::Claim(Claim { lane, term: term(lane, *late), max: *max, bytes_max: *bytes_max })
            }
            Self::Settle { picks } => Command::Settle(settlements(model, hands, picks)),
            Self::Acquire { which, max } => {
                let which = match which {
                    0 => LaneSelection::WithWork { after: LaneId(*max as u64 % 3) },
                    1 => LaneSelection::All,
                    _ => LaneSelection::These(vec![LaneId(2), LaneId(1), LaneId(2), LaneId(77)]),
                };
                Command::Acquire(Acquire { owner, lease: LEASE, which, homes: None, max: *max })
            }
            Self::Renew => Command::Renew(Renew { owner, lease: LEASE, announce: None }),
            Self::Persist { lane, hand_back, late } => {
                let lane = LaneId(*lane);
                let record = format!("at {}", model.now.0).into_bytes().into();
                Command::Persist(Persist { lane, term: term(lane, *late), record, hand_back: *hand_back })
            }
            Self::Redrive { lane, max } => {
                Command::Redrive(Redrive { which: which(*lane), after: None, max: *max })
            }
            Self::Forget { lane, max } => {
                Command::Forget(Forget { which: which(*lane), after: None, max: *max })
            }
            Self::Retry { lane, max } => {
                let which = ToRetry::Of(LaneId(*lane));
                Command::Retry(Retry { which, insist: false, probe: true, max: *max })
            }
            Self::Resend { pick } => Command::Resend(picked(model, pick)),
            Self::Erase { pick, plan } => Command::Erase(at_once(picked(model, pick), *plan)),
            Self::Shed { lane, max } => Command::Shed(Shed { lane: LaneId(*lane), max: *max }),
            Self::Sweep { max } => Command::Sweep(Sweep { max: *max }),
            Self::Bounds { lane, bounds } => {
                Command::Change(Change { bounds: Some(*bounds), ..Change::of(LaneId(*lane)) })
            }
            Self::State { lane, state } => {
                Command::Change(Change { state: Some(*state), ..Change::of(LaneId(*lane)) })
            }
            Self::Patterns { lane, patterns } => {
                Command::Change(Change { patterns: Some((*patterns).into()), ..Change::of(LaneId(*lane)) })
            }
            Self::Remove { lane } => Command::Remove(LaneId(*lane)),
        }
    }
}

fn which(lane: Option<u64>) -> Dead {
    lane.map_or(Dead::All, |lane| Dead::Of(LaneId(lane)))
}

fn emit(
    model: &Model,
    lanes: &[u64],
    bytes: usize,
    alike: Option<u8>,
    again: Option<u64>,
    (due_in, ttl): (u64, u64),
) -> Emit {
    let number = again.unwrap_or_else(|| 1_000 + model.next_delivery());
    let due = later(model.now, Nanos::from_secs(due_in));
    let expires = later(model.now, Nanos::from_secs(ttl));
    Emit {
        roster: model.roster(),
        id: format!("e{number}").into(),
        id_is_new: false,
        kind: "k".into(),
        key: None,
        received: model.now,
        bodies: vec![body(&vec![b'x'; bytes]), body(b"else")],
        targets: lanes
            .iter()
            .enumerate()
            .map(|(place, lane)| Target {
                lane: LaneId(*lane),
                body: place % 2,
                due,
                expires,
                // Each lane has its own window, and one has none.
                dedupe: Nanos::from_secs(5 * (lane % 4)),
                coalesce: alike
                    .map(|key| Coalesce { key: key.to_string().into(), window: Nanos::from_secs(7) }),
                signature: None,
            })
            .collect(),
        atomic: false,
        withheld: false,
        outbox: None,
        notifies: None,
    }
}

fn settlements(model: &Model, hands: &Hands, picks: &[(prop::sample::Index, Fate, bool)]) -> Vec<Settlement> {
    let held = hands.all();
    picks
        .iter()
        .map(|(pick, fate, stray)| {
            let (lane, delivery, term) = if held.is_empty() || *stray {
                let delivery = DeliveryId(pick.index(usize::try_from(model.next_delivery()).unwrap()) as u64);
                let lane = model.lane_of(delivery).unwrap_or(LaneId(1));
                (lane, delivery, hands.term(lane).unwrap_or(Term(0)))
            } else {
                held[pick.index(held.len())]
            };
            let attempts = model.attempts(delivery) + 1;
            let outcome =
                if *fate == Fate::Delivered { AttemptOutcome::Delivered } else { AttemptOutcome::Silent };
            let attempt = (*fate != Fate::Released).then(|| Attempt {
                // Unique by the delivery, and the number of earlier settlements.
                at: StoreTime(model.now.0 + model.reported_count()),
                latency: Nanos::from_millis(3),
                outcome,
                status: None,
                error: None,
                body_hash: 0,
                received: None,
                details: Details::default(),
            });
            Settlement { lane, term, delivery, attempts, fate: *fate, disables: None, attempt }
        })
        .collect()
}
