//! The behaviour of an endpoint, without its sockets: the answer that a request gets, and its bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hookproof_judge::scenario::quantity::{Day, MONTHS};
use hookproof_judge::scenario::{
    Answer, Behaviour, Certificate, Duration, Millionths, Range, Rate, Reply, RetryAfter, SECOND,
};

use crate::traffic::{Chance, mix};

thread_local! {
    /// The latest date, which the next answer usually repeats.
    static LAST: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

/// Formats seconds since 1970 as an HTTP date: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[must_use]
pub fn http_date(unix_seconds: u64) -> String {
    LAST.with_borrow_mut(|last| {
        if last.0 != unix_seconds {
            *last = (unix_seconds, written(unix_seconds));
        }
        last.1.clone()
    })
}

fn written(unix_seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = Day(days).civil();
    let weekday = usize::try_from(days % 7).unwrap_or_default();
    let month = usize::try_from(month - 1).unwrap_or_default();
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{}, {day:02} {} {year:04} {hour:02}:{minute:02}:{second:02} GMT", DAYS[weekday], MONTHS[month])
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    pub status: u16,
    /// Word for word.
    pub retry_after: Option<String>,
    /// In order.
    pub fields: Vec<(&'static str, String)>,
    /// It repeats one letter, so it is never stored.
    pub body_bytes: u64,
}

impl Rendered {
    /// Over HTTP/1.1.
    pub fn head(&self) -> Vec<u8> {
        const USUAL_BYTES: usize = 256;
        let mut head = String::with_capacity(USUAL_BYTES);
        let _ = write!(head, "HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        let mut head = head.into_bytes();
        for (name, value) in &self.fields {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            // A line break inside a value would begin another field.
            head.extend(value.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

pub fn render(reply: &Reply, unix_ns: u64) -> Rendered {
    let seconds = unix_ns / SECOND;
    let retry_after = reply.retry_after.as_ref().map(|retry_after| match retry_after {
        RetryAfter::Seconds(seconds) => seconds.to_string(),
        RetryAfter::Date(ahead) => http_date(unix_ns.saturating_add(ahead.0) / SECOND),
        RetryAfter::Text(text) => text.clone(),
    });
    let bodiless = matches!(reply.status, 204 | 304);
    let body_bytes = if bodiless { 0 } else { reply.body.0 };
    let fields = [
        Some(("date", http_date(seconds))),
        retry_after.clone().map(|text| ("retry-after", text)),
        reply.location.clone().map(|location| ("location", location)),
        (!bodiless).then(|| ("content-length", body_bytes.to_string())),
    ];
    let fields = fields.into_iter().flatten().collect();
    Rendered { status: reply.status, retry_after, fields, body_bytes }
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
}

/// Deliveries whose attempts an endpoint counts. Attempts of further ones count as first attempts.
const COUNTED_MAX: usize = 1_000_000;

#[derive(Debug)]
pub struct Choices {
    behaviours: Vec<Behaviour>,
    answers: Range<Duration>,
    seed: u64,
    /// Each draws its own luck.
    requests: AtomicU64,
    /// None unless a behaviour depends on them.
    attempts: Option<Mutex<BTreeMap<u64, u64>>>,
    /// One value for each behaviour. With a limit: when its bucket will be empty. With serial work: when that
    /// is done.
    levels: Vec<AtomicU64>,
}

/// The random draw of a request, which decides every share.
#[derive(Clone, Copy, Debug)]
pub struct Luck(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Read,
    Reset,
    Wait(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforced {
    Inside,
    Past { retry_after_s: u64 },
}

impl Choices {
    pub fn new(behaviours: Vec<Behaviour>, answers: Range<Duration>, seed: u64, endpoint: u64) -> Self {
        let counts = behaviours.iter().any(|behaviour| behaviour.attempts.is_some());
        Self {
            levels: behaviours.iter().map(|_| AtomicU64::new(0)).collect(),
            behaviours,
            answers,
            seed: mix(seed ^ mix(endpoint.wrapping_add(1))),
            requests: AtomicU64::new(0),
            attempts: counts.then(Mutex::default),
        }
    }

    pub fn draw(&self) -> Luck {
        Luck(mix(self.seed ^ mix(self.requests.fetch_add(1, Ordering::Relaxed))))
    }

    /// The action for a request that is still unread.
    pub fn before(&self, now: u64, luck: Luck) -> Before {
        let Some((place, behaviour)) = self.matching(now, luck).next() else { return Before::Read };
        match behaviour.answer {
            // The attempt's number is known only after reading.
            _ if behaviour.attempts.is_some() => Before::Read,
            // The port is open, since only a share is refused; a reset is the nearest to a refusal.
            Answer::Reset | Answer::Refuse | Answer::NoAccept => Before::Reset,
            Answer::Stall => Before::Wait(self.behaviours[place].until().unwrap_or(u64::MAX)),
            _ => Before::Read,
        }
    }

    /// None unless it shows one.
    pub fn certificate(&self, now: u64) -> Option<Certificate> {
        let wrong = |behaviour: &Behaviour| match behaviour.answer {
            Answer::WrongCertificate(certificate) if behaviour.covers(now) => Some(certificate),
            _ => None,
        };
        self.behaviours.iter().find_map(wrong)
    }

    pub fn certificate_until(&self, now: u64) -> Option<u64> {
        let wrong = self.behaviours.iter().filter(|one| matches!(one.answer, Answer::WrongCertificate(_)));
        wrong.flat_map(|one| [Some(one.at.0), one.until()]).flatten().filter(|t| *t > now).min()
    }

    /// Only a stall that holds for every request.
    pub fn stalls_until(&self, now: u64) -> Option<u64> {
        let first = self.behaviours.iter().find(|behaviour| behaviour.covers(now))?;
        let is_for_all = first.share == Millionths::ONE && first.attempts.is_none();
        (is_for_all && first.answer == Answer::Stall).then(|| first.until().unwrap_or(u64::MAX))
    }

    pub fn choose(&self, now: u64, luck: Luck, delivery: Option<u64>) -> Option<(usize, &Behaviour)> {
        let attempt = self.count(delivery);
        self.matching(now, luck).find(|(_, behaviour)| {
            let counts = |range: Range<_>| {
                (range.least..=range.most).contains(&hookproof_judge::scenario::Whole(attempt))
            };
            behaviour.attempts.is_none_or(counts)
        })
    }

    fn matching(&self, now: u64, luck: Luck) -> impl Iterator<Item = (usize, &Behaviour)> {
        let all = self.behaviours.iter().enumerate();
        all.filter(move |(place, behaviour)| behaviour.covers(now) && luck.hits(*place, behaviour.share))
    }

    /// From 1.
    fn count(&self, delivery: Option<u64>) -> u64 {
        let (Some(attempts), Some(delivery)) = (&self.attempts, delivery) else { return 1 };
        let mut attempts = attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() >= COUNTED_MAX && !attempts.contains_key(&delivery) {
            return 1;
        }
        let count = attempts.entry(delivery).or_default();
        *count += 1;
        *count
    }

    pub fn latency(&self, chosen: Option<(usize, &Behaviour)>, luck: Luck, now: u64) -> u64 {
        if let Some((place, Behaviour { serves: Some(work), .. })) = chosen {
            let done = |free: u64| free.max(now).saturating_add(work.0);
            let free = self.levels[place]
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| Some(done(free)));
            return done(free.unwrap_or_else(|free| free)) - now;
        }
        let range = chosen.and_then(|(_, behaviour)| behaviour.latency).unwrap_or(self.answers);
        let takes = Chance::new(luck.0, LATENCY).between(range.least.0, range.most.0);
        // A stall by attempt begins after the request was read.
        let stall = chosen.filter(|(_, behaviour)| behaviour.answer == Answer::Stall);
        let over = stall.map_or(0, |(_, behaviour)| behaviour.until().unwrap_or(u64::MAX));
        over.saturating_sub(now).saturating_add(takes)
    }

    /// A leaky bucket of capacity `burst`.
    pub fn enforce(&self, place: usize, limit: Rate, burst: u32, now: u64) -> Enforced {
        let drop_ns = (limit.per.0 / limit.count.max(1)).max(1);
        let room_ns = drop_ns.saturating_mul(u64::from(burst.max(1)));
        let charge = |empty: u64| {
            let level = empty.max(now).saturating_add(drop_ns);
            (level - now <= room_ns).then_some(level)
        };
        match self.levels[place].fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge) {
            Ok(_) => Enforced::Inside,
            Err(empty) => {
                let over_ns =
                    empty.max(now).saturating_add(drop_ns).saturating_sub(now.saturating_add(room_ns));
                Enforced::Past { retry_after_s: over_ns.div_ceil(1_000_000_000).max(1) }
            }
        }
    }

    /// The times when the port is shut, in order. They never overlap: such a scenario is refused.
    pub fn closures(&self) -> Vec<Closure> {
        let closure = |behaviour: &Behaviour| {
            let shut = if behaviour.answer == Answer::NoAccept { Shut::Ignores } else { Shut::Refuses };
            Closure { from: behaviour.at.0, until: behaviour.until(), shut }
        };
        let shutting = self.behaviours.iter().filter(|behaviour| behaviour.shuts_the_port());
        let mut closures: Vec<Closure> = shutting.map(closure).collect();
        closures.sort_unstable_by_key(|closure| closure.from);
        closures
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closure {
    /// In nanoseconds since the run began.
    pub from: u64,
    /// None for never.
    pub until: Option<u64>,
    pub shut: Shut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    Refuses,
    /// The port is open, and the connection waits to be accepted.
    Ignores,
}

/// A stream of its own.
const LATENCY: u64 = 1 << 32;

impl Luck {
    fn hits(self, place: usize, share: Millionths) -> bool {
        let place = u64::try_from(place).unwrap_or_default();
        Chance::new(self.0, place).below(Millionths::ONE.0) < share.0
    }
}

#[cfg(test)]
mod tests {
    use hookproof_judge::scenario::{Duration, SECOND, Size, Whole};

    use super::*;

    #[test]
    fn moments_are_written_as_the_standard_writes_them() {
        for (seconds, expected) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(http_date(seconds), expected);
        }
    }

    #[track_caller]
    fn check(reply: Reply, expected: &str) {
        let rendered = render(&reply, 784_111_777_900_000_000);
        assert_eq!(String::from_utf8(rendered.head()).unwrap().replace("\r\n", "|"), expected);
    }

    fn reply(status: u16, retry_after: Option<RetryAfter>) -> Reply {
        Reply { status, retry_after, body: Size(0), location: None }
    }

    #[test]
    fn answers_say_what_the_scenario_asks_for_and_when() {
        check(reply(204, None), "HTTP/1.1 204 No Content|date: Sun, 06 Nov 1994 08:49:37 GMT||");
        check(
            reply(429, Some(RetryAfter::Seconds(3))),
            "HTTP/1.1 429 Too Many Requests|date: Sun, 06 Nov 1994 08:49:37 GMT|retry-after: 3|content-length: 0||",
        );
        check(
            reply(503, Some(RetryAfter::Date(Duration(200_000_000)))),
            "HTTP/1.1 503 Service Unavailable|date: Sun, 06 Nov 1994 08:49:37 GMT|\
             retry-after: Sun, 06 Nov 1994 08:49:38 GMT|content-length: 0||",
        );
        check(
            reply(299, Some(RetryAfter::Text("1\r\nx: y".to_owned()))),
            "HTTP/1.1 299 Unknown|date: Sun, 06 Nov 1994 08:49:37 GMT|retry-after: 1  x: y|content-length: 0||",
        );
    }

    fn behaviour(answer: Answer) -> Behaviour {
        Behaviour {
            at: Duration(0),
            lasts: None,
            answer,
            share: Millionths::ONE,
            attempts: None,
            latency: None,
            serves: None,
        }
    }

    fn choices(behaviours: &[Behaviour]) -> Choices {
        Choices::new(behaviours.to_vec(), Range::just(Duration(0)), 7, 0)
    }

    /// The behaviours that requests of these deliveries meet at a moment.
    fn met(choices: &Choices, now: u64, deliveries: &[u64]) -> Vec<Option<usize>> {
        let meet =
            |delivery: &u64| choices.choose(now, choices.draw(), Some(*delivery)).map(|(place, _)| place);
        deliveries.iter().map(meet).collect()
    }

    #[test]
    fn the_first_that_matches_by_time_wins() {
        let late = Behaviour { at: Duration(10), lasts: Some(Duration(5)), ..behaviour(Answer::Close) };
        let choices = choices(&[late, behaviour(Answer::Blackhole)]);
        let at = |now| met(&choices, now, &[0])[0];
        assert_eq!([9, 10, 14, 15].map(at), [Some(1), Some(0), Some(0), Some(1)]);
    }

    #[test]
    fn attempts_are_counted_for_each_delivery() {
        let first_two = Range { least: Whole(1), most: Whole(2) };
        let choices = choices(&[Behaviour { attempts: Some(first_two), ..behaviour(Answer::Close) }]);
        let expected = [Some(0), Some(0), Some(0), None, None];
        assert_eq!(met(&choices, 0, &[1, 2, 1, 1, 1]), expected);
    }

    #[test]
    fn a_share_is_met_by_so_many_and_by_the_same_ones_each_time() {
        let some = [Behaviour { share: Millionths(250_000), ..behaviour(Answer::Close) }];
        let all: Vec<u64> = (0..10_000).collect();
        let seen = met(&choices(&some), 0, &all);
        assert_eq!(seen, met(&choices(&some), 0, &all));
        let hits = seen.iter().flatten().count();
        assert!(hits.abs_diff(2_500) < 220, "{hits} of 10000");
    }

    #[test]
    fn a_limit_of_its_own_holds_and_says_when_to_come_back() {
        let choices = choices(&[behaviour(Answer::Blackhole)]);
        let limit = Rate { count: 1, per: Duration(2 * SECOND) };
        let ask = |now| choices.enforce(0, limit, 2, now);
        assert_eq!([0, 0].map(ask), [Enforced::Inside; 2]);
        assert_eq!(ask(0), Enforced::Past { retry_after_s: 2 });
        assert_eq!(ask(SECOND + 1), Enforced::Past { retry_after_s: 1 });
        assert_eq!(ask(2 * SECOND), Enforced::Inside);
        assert_eq!(ask(2 * SECOND), Enforced::Past { retry_after_s: 2 });
    }

    #[test]
    fn one_that_works_on_one_request_after_another_takes_longer_the_more_are_open() {
        let one = Behaviour { serves: Some(Duration(30)), ..behaviour(Answer::Close) };
        let choices = choices(std::slice::from_ref(&one));
        let takes = |now| choices.latency(Some((0, &one)), choices.draw(), now);
        assert_eq!([0, 0, 10, 89, 200].map(takes), [30, 60, 80, 31, 30]);
    }

    #[test]
    fn an_attempt_that_had_to_be_read_is_stalled_to_the_end_all_the_same() {
        let first = Behaviour { attempts: Some(Range::just(Whole(1))), ..behaviour(Answer::Close) };
        let stall = Behaviour { lasts: Some(Duration(90)), ..behaviour(Answer::Stall) };
        let choices = choices(&[first, stall]);
        assert_eq!(choices.before(0, choices.draw()), Before::Read, "it may be a first attempt");
        let takes = |now, delivery| {
            let luck = choices.draw();
            choices.latency(choices.choose(now, luck, Some(delivery)), luck, now)
        };
        assert_eq!([(0, 1), (20, 1), (89, 1), (90, 1)].map(|(now, one)| takes(now, one)), [0, 70, 1, 0]);
    }

    #[test]
    fn behaviour_before_the_request_is_read_waits_for_no_attempt() {
        let luck = |choices: &Choices| choices.before(0, choices.draw());
        assert_eq!(luck(&choices(&[behaviour(Answer::Reset)])), Before::Reset);
        assert_eq!(luck(&choices(&[behaviour(Answer::Close)])), Before::Read);
        let stall = Behaviour { lasts: Some(Duration(9)), ..behaviour(Answer::Stall) };
        assert_eq!(luck(&choices(&[stall])), Before::Wait(9));
        let first = Behaviour { attempts: Some(Range::just(Whole(1))), ..behaviour(Answer::Reset) };
        assert_eq!(luck(&choices(&[first])), Before::Read);
    }
}
