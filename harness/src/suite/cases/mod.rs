//! Every case in its order: correct requests first, attacks on the process last.

mod ack;
mod header;
mod limit;
mod memory;
mod packed;
mod raw;
mod replay;
mod rotation;
mod signature;
mod telling;
mod time;

use super::course::Case;

pub(super) fn all() -> Vec<Case> {
    [
        signature::CASES.as_slice(),
        &rotation::CASES,
        &raw::CASES,
        &time::CASES,
        &header::CASES,
        &replay::CASES,
        &memory::CASES,
        &ack::CASES,
        &limit::CASES,
        &packed::CASES,
        &telling::CASES,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookproof_judge::catalogue;

    #[test]
    fn there_is_a_case_for_every_entry_of_the_catalogue_and_no_other() {
        let cases: Vec<_> = all().iter().map(|case| case.id).collect();
        let entries: Vec<_> = catalogue::receiver().iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(cases, entries);
    }
}
