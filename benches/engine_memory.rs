#![expect(clippy::print_stdout, reason = "what a bench is for")]

use std::alloc::System;

use hookproof_benches::Treadmill;
use hookproof_sender::engine::contract::Rate;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LANES: u64 = 100_000;

fn main() {
    let rate = Rate::per_second(10).expect("in range");
    let region = Region::new(ALLOCATOR);
    let treadmill = Treadmill::idle(LANES, rate, 8, 8).expect("in range");
    let stats = region.change();
    let bytes = stats.bytes_allocated as u64 - stats.bytes_deallocated as u64;
    println!("engine memory, {LANES} idle lanes that share their settings: {} bytes a lane", bytes / LANES);
    drop(treadmill);
}
