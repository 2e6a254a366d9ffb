//! An unrelated lane, which bad input must not affect.

use crate::binary::endpoint::Endpoint;
use crate::binary::http::request;
use crate::binary::{Database, Serving};

const RATE_PER_SECOND: u64 = 20;
const BURST: u64 = 5;
const BACKLOG: usize = 4_000;
const MEMORY_MIB_MAX: u64 = 300;

pub(crate) struct Bystander {
    sink: Endpoint,
    before: usize,
}

impl Bystander {
    pub(crate) fn beside() -> (Database, Serving, Self) {
        let sink = Endpoint::taking();
        let database = Database::new();
        let contract = ["--events", "tick", "limit.rate=20/s", "limit.burst=5"];
        database.subscribe("bystander", &sink.url, &contract);
        let serving = database.serve();
        let batch = "{\"type\":\"tick\",\"data\":1}\n".repeat(BACKLOG);
        let answer =
            request(&serving.address, "POST", "/v1/events", "application/x-ndjson", batch.as_bytes());
        assert_eq!(answer.status, 202);
        sink.wait_for(1);
        let before = sink.count();
        (database, serving, Self { sink, before })
    }

    /// The lane goes on, within its contract.
    #[track_caller]
    pub(crate) fn did_not_notice(&self, serving: Serving) {
        self.sink.wait_for(self.before + 1);
        let times: Vec<u64> = self.sink.arrivals().iter().map(|arrival| arrival.at).collect();
        for (first, from) in times.iter().enumerate() {
            for (place, until) in times.iter().enumerate().skip(first) {
                let count = (place - first + 1) as u128;
                let allowed =
                    u128::from(BURST) * 1_000_000_000 + u128::from(RATE_PER_SECOND * (until - from));
                assert!(count * 1_000_000_000 <= allowed, "{count} arrivals within {} ns", until - from);
            }
        }
        assert_eq!(serving.get("/healthz").status, 200);
        assert!(serving.peak_mib() < MEMORY_MIB_MAX, "{} MiB", serving.peak_mib());
        serving.stop_in_order();
    }
}
