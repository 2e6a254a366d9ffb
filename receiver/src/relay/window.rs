use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tokio::sync::watch;

use crate::clock::Millis;

/// Recently forwarded ids, and those under way; failed ones are forgotten at once.
#[derive(Debug)]
pub(super) struct Window {
    length: Duration,
    seen: Mutex<RecentIds>,
}

#[derive(Debug)]
struct RecentIds {
    remembered_max: usize,
    ids: BTreeMap<String, State>,
    /// The oldest first, with their expiry.
    done: VecDeque<(Millis, String)>,
}

#[derive(Debug)]
enum State {
    UnderWay(watch::Sender<()>),
    Done(StatusCode),
}

pub(super) enum Entry<'w> {
    /// The caller forwards it.
    First(Claim<'w>),
    /// The channel closes when that request ends.
    UnderWay(watch::Receiver<()>),
    Known(StatusCode),
    /// All ids are under way.
    Full,
}

impl Window {
    pub(super) fn new(length: Duration, remembered_max: usize) -> Self {
        let seen = RecentIds { remembered_max, ids: BTreeMap::new(), done: VecDeque::new() };
        Self { length, seen: Mutex::new(seen) }
    }

    /// Changes the bound. Beyond it, the oldest ids are forgotten.
    pub(super) fn resize(&self, remembered_max: usize) {
        let mut seen = self.lock();
        seen.remembered_max = remembered_max;
        while seen.ids.len() > remembered_max && seen.forget_oldest() {}
    }

    pub(super) fn enter(&self, id: &str, now: Millis) -> Entry<'_> {
        let mut seen = self.lock();
        while seen.done.front().is_some_and(|(until, _)| *until <= now) {
            seen.forget_oldest();
        }
        match seen.ids.get(id) {
            Some(State::UnderWay(over)) => return Entry::UnderWay(over.subscribe()),
            Some(State::Done(status)) => return Entry::Known(*status),
            None => {}
        }
        if seen.ids.len() >= seen.remembered_max && !seen.forget_oldest() {
            return Entry::Full;
        }
        seen.ids.insert(id.to_owned(), State::UnderWay(watch::Sender::new(())));
        Entry::First(Claim { window: self, id: id.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, RecentIds> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecentIds {
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.done.pop_front();
        oldest.is_some_and(|(_, id)| self.ids.remove(&id).is_some())
    }
}

/// Dropping it before `complete` frees the id.
pub(super) struct Claim<'w> {
    window: &'w Window,
    id: String,
}

impl Claim<'_> {
    pub(super) fn complete(self, status: StatusCode, now: Millis) {
        let mut seen = self.window.lock();
        let until = now.after(self.window.length);
        seen.done.push_back((until, self.id.clone()));
        // This drops the sender, which wakes the waiting repeats.
        seen.ids.insert(self.id.clone(), State::Done(status));
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut seen = self.window.lock();
        if matches!(seen.ids.get(&self.id), Some(State::UnderWay(_))) {
            seen.ids.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(30);

    fn name(entry: &Entry<'_>) -> &'static str {
        match entry {
            Entry::First(_) => "first",
            Entry::UnderWay(_) => "under way",
            Entry::Known(_) => "known",
            Entry::Full => "full",
        }
    }

    #[track_caller]
    fn check(window: &Window, id: &str, at: u64, expected: &str) {
        assert_eq!(name(&window.enter(id, Millis(at))), expected, "{id} at {at}");
    }

    fn forward(window: &Window, id: &str, at: u64) {
        let Entry::First(claim) = window.enter(id, Millis(at)) else { panic!("{id} is not free at {at}") };
        claim.complete(StatusCode::NO_CONTENT, Millis(at));
    }

    #[test]
    fn a_forwarded_id_is_remembered_for_the_window() {
        let window = Window::new(WINDOW, 10);
        forward(&window, "a", 0);
        check(&window, "a", 29_999, "known");
        check(&window, "b", 29_999, "first");
        check(&window, "a", 30_000, "first");
    }

    #[test]
    fn a_failed_id_is_forgotten_at_once() {
        let window = Window::new(WINDOW, 10);
        check(&window, "a", 0, "first");
        check(&window, "a", 0, "first");
    }

    #[test]
    fn one_at_a_time_forwards_an_id() {
        let window = Window::new(WINDOW, 10);
        let first = window.enter("a", Millis(0));
        let Entry::UnderWay(over) = window.enter("a", Millis(0)) else { panic!("two forward it") };
        assert!(over.has_changed().is_ok(), "it is not over");
        drop(first);
        assert!(over.has_changed().is_err(), "it is over");
        check(&window, "a", 0, "first");
    }

    #[test]
    fn the_oldest_makes_room_and_what_is_under_way_does_not() {
        let window = Window::new(WINDOW, 2);
        forward(&window, "a", 0);
        forward(&window, "b", 1);
        let first = window.enter("c", Millis(2));
        assert_eq!(name(&first), "first");
        check(&window, "b", 2, "known");
        let second = window.enter("a", Millis(2));
        assert_eq!(name(&second), "first");
        check(&window, "d", 2, "full");
        check(&window, "c", 2, "under way");
    }

    #[test]
    fn a_smaller_window_forgets_the_oldest_and_nothing_that_is_under_way() {
        let window = Window::new(WINDOW, 4);
        let first = window.enter("under way", Millis(0));
        for id in ["a", "b", "c"] {
            forward(&window, id, 1);
        }
        window.resize(2);
        check(&window, "c", 2, "known");
        check(&window, "under way", 2, "under way");
        check(&window, "a", 2, "first");
        window.resize(0);
        check(&window, "under way", 2, "under way");
        check(&window, "c", 2, "full");
        drop(first);
    }
}
