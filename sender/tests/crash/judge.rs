//! The contract, from its definition: in every window of every length w, no more than burst + rate·w arrivals.

use crate::sink::Arrival;

pub(crate) fn conforms(arrivals: &[Arrival], rate_per_second: u64, burst: usize) {
    let mut times: Vec<u64> = arrivals.iter().map(|arrival| arrival.at).collect();
    times.sort_unstable();
    for first in 0..times.len() {
        for last in first + burst..times.len() {
            let count = (last - first + 1) as u128;
            let window = u128::from(times[last] - times[first]);
            let allowed = burst as u128 * 1_000_000_000 + u128::from(rate_per_second) * window;
            assert!(
                count * 1_000_000_000 <= allowed,
                "{count} arrivals within {window} ns: burst {burst}, rate {rate_per_second}/s"
            );
        }
    }
}

#[test]
fn the_judge_finds_one_too_many() {
    let arrivals = |times: &[u64]| -> Vec<Arrival> { times.iter().map(|at| Arrival::at(*at)).collect() };
    conforms(&arrivals(&[0, 0, 500_000_000]), 2, 2);
    let too_many = std::panic::catch_unwind(|| conforms(&arrivals(&[0, 0, 499_999_999]), 2, 2));
    assert!(too_many.is_err());
}
