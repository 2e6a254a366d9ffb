//! Correct senders that differ from ours: none may fail a check, and an unobservable check must be not applicable.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use hookproof::run::{Options, play};
use hookproof_judge::check::{Judgement, Status, Strictness, judge};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{CutKind, Trace};
use tokio::sync::{Semaphore, watch};

use crate::sender_mutants::matrix::driver_file;

const AT_ONCE: usize = 3;

struct Stranger {
    way: &'static str,
    without: &'static [&'static str],
    says: &'static str,
    scenario: &'static str,
    not_applicable: &'static [&'static str],
}

const STRANGERS: [Stranger; 13] = [
    Stranger {
        way: "opens-a-connection-for-each-request",
        without: &[],
        says: "",
        scenario: PLAIN,
        not_applicable: &[],
    },
    Stranger {
        way: "has-no-breaker",
        without: &[],
        says: "[declares]\nbreaker = false\n",
        scenario: BROKEN,
        not_applicable: &["breaker.opens", "breaker.one-probe", "breaker.cooldown"],
    },
    Stranger { way: "speaks-http-2-only", without: &[], says: "", scenario: STREAMS, not_applicable: &[] },
    Stranger {
        way: "keeps-no-order",
        without: &[],
        says: "[declares]\nordered = false\n",
        scenario: ORDERLY,
        not_applicable: &["order.per-key"],
    },
    Stranger {
        way: "retries-by-a-schedule-of-its-own",
        without: &[],
        says: "[declares]\nschedule = [\"300ms\", \"700ms\", \"1200ms\"]\njitter = 0.1\n",
        scenario: FAILING,
        not_applicable: &[],
    },
    Stranger {
        way: "sends-its-bodies-in-chunks",
        without: &[],
        says: "",
        scenario: PLAIN,
        not_applicable: &[],
    },
    Stranger {
        way: "asks-before-it-sends-a-body",
        without: &[],
        says: "",
        scenario: PLAIN,
        not_applicable: &[],
    },
    Stranger {
        way: "sends-several-events-in-one-body",
        without: &[],
        says: "",
        scenario: CROWDED,
        not_applicable: &[],
    },
    Stranger {
        way: "names-its-headers-after-itself",
        without: &[],
        says: "[sign]\nprofile = \"standard-webhooks\"\nheader_prefix = \"svix-\"\n",
        scenario: PLAIN,
        not_applicable: &[],
    },
    Stranger {
        way: "cannot-be-asked",
        without: &["[depth]", "[dead]"],
        says: "",
        scenario: PLAIN,
        not_applicable: &["queue.bounded"],
    },
    Stranger {
        way: "gives-up-without-a-word",
        without: &["[depth]", "[dead]"],
        says: "[declares]\nbreaker = false\ndead_letter = false\n",
        scenario: BROKEN,
        not_applicable: &["queue.bounded", "breaker.opens"],
    },
    Stranger { way: "takes-long-to-accept", without: &[], says: "", scenario: FAST, not_applicable: &[] },
    Stranger {
        way: "goes-by-a-clock-of-its-own",
        without: &[],
        says: "",
        scenario: PLAIN,
        not_applicable: &[],
    },
];

const PLAIN: &str = include_str!("played/plain.toml");
const BROKEN: &str = include_str!("played/broken.toml");
const FAILING: &str = include_str!("played/failing.toml");
const STREAMS: &str = include_str!("played/streams.toml");
const ORDERLY: &str = include_str!("played/orderly.toml");
const CROWDED: &str = include_str!("played/crowded.toml");
const FAST: &str = include_str!("played/fast.toml");

pub(crate) async fn play_all() -> Vec<String> {
    let only = std::env::var("HOOKPROOF_STRANGER").ok();
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let wanted = STRANGERS.iter().filter(|one| only.as_deref().is_none_or(|only| only == one.way));
    let runs = wanted.map(|stranger| {
        let permits = Arc::clone(&permits);
        tokio::spawn(async move {
            let _permit = permits.acquire().await.unwrap();
            stranger.complaints().await
        })
    });
    let mut all = Vec::new();
    for run in runs.collect::<Vec<_>>() {
        all.extend(run.await.unwrap());
    }
    all
}

pub(crate) async fn failed_of_one_that_sends_all_again() -> Vec<String> {
    const BRIEF: &str = "name = \"brief\"\ndrain = \"5s\"\n[[traffic]]\nshape = \"burst\"\nevents = 10\n\
                         [[subscriber]]\nname = \"one\"\nlimit = { rate = \"100/s\", burst = 20, in_flight = 10 }\n";
    let way = "sends-everything-again-later";
    let one = Stranger { way, without: &[], says: "", scenario: BRIEF, not_applicable: &[] };
    let scenario = Scenario::from_text(BRIEF, "brief.toml").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let trace = one.play(&scenario, folder.path()).await.unwrap();
    let judgement = judge(&scenario, &trace, Strictness::Usual);
    let failed = judgement.verdicts.into_iter().filter(|verdict| verdict.status == Status::Fail);
    failed.map(|verdict| verdict.id).collect()
}

impl Stranger {
    async fn complaints(&self) -> Vec<String> {
        let scenario = Scenario::from_text(self.scenario, "stranger.toml").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let trace = match self.play(&scenario, folder.path()).await {
            Ok(trace) => trace,
            Err(why) => return vec![format!("{}: {why}", self.way)],
        };
        let judgement = judge(&scenario, &trace, Strictness::Strict);
        let mut complaints = accusations(&judgement);
        if judgement.status != Status::Pass && !excused(&judgement, self.thin()) {
            complaints.push(format!("{}: {}", judgement.status, judgement.sentence));
        }
        for id in self.not_applicable {
            let verdict = judgement.verdicts.iter().find(|verdict| verdict.id == *id).unwrap();
            if verdict.status != Status::NotApplicable || !verdict.sentence.starts_with("the driver file ") {
                complaints.push(format!("{id} is {}: {}", verdict.status, verdict.sentence));
            }
        }
        complaints.extend(self.particulars(&trace, &judgement));
        complaints.into_iter().map(|what| format!("{}: {what}", self.way)).collect()
    }

    async fn play(&self, scenario: &Scenario, folder: &std::path::Path) -> Result<Trace, String> {
        let driver = folder.join("driver.toml");
        std::fs::write(&driver, self.driver()).unwrap();
        let options = Options {
            seed: None,
            driver: Some(driver),
            out: folder.to_owned(),
            program: PathBuf::from(env!("CARGO_BIN_EXE_hookproof")),
            folder: PathBuf::new(),
            show: false,
            live: None,
            reach: hookproof::endpoint::Reach::default(),
        };
        let (_tell, told) = watch::channel(false);
        let played = play(scenario, &options, told).await.map_err(|error| error.to_string())?;
        Trace::open(&played.trace).map_err(|error| error.to_string())
    }

    fn driver(&self) -> String {
        let whole = driver_file(self.way);
        let kept = |section: &&str| {
            !self.without.iter().any(|name| format!("[{section}").starts_with(name.trim_end_matches(']')))
        };
        let (head, sections) = whole.split_once("\n[").unwrap();
        let sections: String = sections.split("\n[").filter(kept).map(|one| format!("\n[{one}")).collect();
        let mut driver = format!("{head}{sections}\n{}", self.says);
        if self.way == "takes-long-to-accept" {
            driver = driver.replace("batch = true", "calls = 4");
        }
        driver
    }

    /// Every subscriber has a limit or a fault.
    fn thin(&self) -> &'static [&'static str] {
        if self.scenario == STREAMS { &["isolation.latency"] } else { &[] }
    }

    fn particulars(&self, trace: &Trace, judgement: &Judgement) -> Option<String> {
        let schedule = judgement.verdicts.iter().find(|verdict| verdict.id == "harness.schedule")?;
        match self.way {
            "takes-long-to-accept" => {
                // Four callers with answers after 100 ms reach 40/s of 200/s.
                let told = schedule.sentence.contains("/s of 200/s offered");
                (!told).then(|| schedule.sentence.clone())
            }
            "speaks-http-2-only" => {
                // One connection carries concurrent requests, and every fault hit some of them.
                let kinds = [CutKind::Reset, CutKind::ResetAfterRead, CutKind::Close, CutKind::HalfAnswer];
                let mut kinds = [&kinds[..], &[CutKind::Blackhole]].concat();
                kinds.retain(|how| !trace.cuts.iter().any(|cut| cut.how == *how));
                let connections: BTreeSet<u64> = trace.arrivals.iter().map(|one| one.connection).collect();
                let shared = connections.len() * 4 < trace.arrivals.len();
                (!shared || !kinds.is_empty())
                    .then(|| format!("{} connections; no {kinds:?}", connections.len()))
            }
            "sends-several-events-in-one-body" => {
                let several = trace.arrivals.iter().any(|arrival| !arrival.more.is_empty());
                (!several).then(|| "no request carried several events".to_owned())
            }
            "goes-by-a-clock-of-its-own" => {
                let ahead = trace.offset.as_ref().is_some_and(|offset| offset.ns > 6_000_000_000);
                (!ahead).then(|| format!("the offset is {:?}", trace.offset))
            }
            _ => None,
        }
    }
}

fn accusations(judgement: &Judgement) -> Vec<String> {
    let failed = judgement.verdicts.iter().filter(|verdict| verdict.status == Status::Fail);
    failed
        .map(|verdict| {
            let witness = verdict.witness.first().map(|witness| format!("{witness:?}")).unwrap_or_default();
            format!("{}: {} {witness}", verdict.id, verdict.sentence)
        })
        .collect()
}

pub(crate) fn excused(judgement: &Judgement, thin: &[&str]) -> bool {
    let open = judgement.verdicts.iter().filter(|verdict| verdict.status == Status::Inconclusive);
    let named = |sentence: &str| ["stall", "generator was late"].iter().any(|word| sentence.contains(word));
    let must = hookproof_judge::catalogue::Severity::Must;
    let stalled = open.clone().any(|one| one.id == "harness.stall");
    accusations(judgement).is_empty()
        && open
            .filter(|one| !stalled && one.severity == must)
            .all(|one| named(&one.sentence) || thin.contains(&one.id.as_str()))
}
