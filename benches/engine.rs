//! Complete attempts (claim, send, end, settle) a second on one core, through the pure engine.
//!
//! Time is virtual, so the figure is the engine's own cost: turns, limiter, timers, settlements. Every lane works at
//! its contract's limit, so nearly every attempt sets a timer.

use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hookproof_benches::Treadmill;
use hookproof_sender::engine::Nanos;
use hookproof_sender::engine::contract::Rate;

const ATTEMPTS: u64 = 200_000;

#[expect(clippy::disallowed_methods, reason = "a bench is what measures time")]
#[expect(clippy::cast_precision_loss, reason = "a ratio for a figure that is rounded anyway")]
fn attempts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine attempts");
    group.throughput(Throughput::Elements(ATTEMPTS)).sample_size(20);
    // The first lane has a free contract, and sends in bursts; the others send at their rate.
    for (name, lanes, per_second, burst) in [
        ("1,000 lanes, never limited", 1_000, 1_000_000, 1_000_000),
        ("1,000 lanes at their limit", 1_000, 1_000, 64),
        ("100,000 lanes, never limited", 100_000, 1_000_000, 1_000_000),
        ("100,000 lanes at their limit", 100_000, 10, 8),
    ] {
        group.bench_function(name, |bencher| {
            let rate = Rate::new(per_second, Nanos::SECOND).expect("in range");
            let mut treadmill = Treadmill::new(lanes, rate, burst, 32).expect("in range");
            // Past the first burst, into the steady state.
            treadmill.settle(lanes * u64::from(burst.min(64)));
            bencher.iter_custom(|rounds| {
                let begin = Instant::now();
                let settled = black_box(treadmill.settle(ATTEMPTS * rounds));
                // Many lanes act at one moment, so a round exceeds its number: the actual count is used.
                begin.elapsed().mul_f64((ATTEMPTS * rounds) as f64 / settled as f64)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, attempts);
criterion_main!(benches);
