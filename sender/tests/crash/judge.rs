//! The contract's definition: every window of length w has at most burst + rate·w arrivals.

use crate::crash::sink::Arrival;

/// Of all windows that end with an arrival, the worst begins at the arrival that is furthest ahead of the rate: one
/// pass judges every window.
pub(crate) fn conforms(arrivals: &[Arrival], rate_per_second: u64, burst: usize) {
    const SECOND: i128 = 1_000_000_000;
    let mut times: Vec<u64> = arrivals.iter().map(|arrival| arrival.at).collect();
    times.sort_unstable();
    // How far an arrival is ahead of the rate, in billionths of an arrival.
    let ahead =
        |place: usize| place as i128 * SECOND - i128::from(rate_per_second) * i128::from(times[place]);
    let mut first = 0;
    for last in 0..times.len() {
        if ahead(last) < ahead(first) {
            first = last;
        }
        let (count, window) = (last - first + 1, times[last] - times[first]);
        assert!(
            ahead(last) - ahead(first) + SECOND <= burst as i128 * SECOND,
            "{count} arrivals within {window} ns: burst {burst}, rate {rate_per_second}/s"
        );
    }
}

#[test]
fn the_judge_finds_one_too_many() {
    let arrivals = |times: &[u64]| -> Vec<Arrival> { times.iter().map(|at| Arrival::at(*at)).collect() };
    conforms(&arrivals(&[0, 0, 500_000_000]), 2, 2);
    let too_many = std::panic::catch_unwind(|| conforms(&arrivals(&[0, 0, 499_999_999]), 2, 2));
    assert!(too_many.is_err());
}
