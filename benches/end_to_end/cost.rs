//! By thread. Other programs on the machine distort it less than wall-clock time.

use std::collections::BTreeMap;

use crate::exchange::Failure;
use crate::figures::{self, Rate};
use crate::process::{Place, Sender};
use crate::sink::Sink;
use crate::{now, offer, serving};

/// Numbers of subscribers beside a single one, with the connections of each.
const SUBSCRIBERS: [(u64, u32); 2] = [(10, 6), (1_000, 1)];
/// Cheaper threads are not listed, in microseconds.
const TOLD_MICROS: f64 = 0.05;

/// Nanoseconds that the threads of each name have run.
pub(crate) struct Spent(BTreeMap<String, u64>);

pub(crate) fn measure(sink: &Sink, events: u64) -> Result<(), Failure> {
    let place = Place::File("power-loss");
    let sender = serving(sink, &place)?;
    figures::title(&format!("one subscriber, {events} events"));
    let one = flood(sink, &sender, events, 1, 0)?;
    sender.stop()?;
    for (subscribers, connections) in SUBSCRIBERS {
        let sender = Sender::start(place.database()?)?;
        sender.subscribe_many(&sink.url(), subscribers, &unlimited(connections))?;
        let several = first_and_more(sink, &sender, events / subscribers, subscribers)?;
        figures::ratio("ratio to one subscriber", several.over(one), 0.9);
        sender.stop()?;
    }
    Ok(())
}

pub(crate) fn unlimited(connections: u32) -> String {
    format!(r#", "limit": {{"rate": "1000000/s", "burst": 100000, "in_flight": {connections}}}"#)
}

/// Emits the first event, which opens each connection, and then more; returns their rate.
pub(crate) fn first_and_more(
    sink: &Sink,
    sender: &Sender,
    each: u64,
    subscribers: u64,
) -> Result<Rate, Failure> {
    figures::title(&format!("{subscribers} subscribers, the first event of each"));
    flood(sink, sender, 1, subscribers, 0)?;
    figures::count("resident memory, MiB", sender.resident_mib()?);
    figures::title(&format!("{subscribers} subscribers, {each} more for each"));
    flood(sink, sender, each, subscribers, subscribers)
}

/// Leaves out the earlier deliveries.
pub(crate) fn flood(
    sink: &Sink,
    sender: &Sender,
    events: u64,
    subscribers: u64,
    recorded: u64,
) -> Result<Rate, Failure> {
    let (deliveries, arrived) = (events * subscribers, sink.arrivals());
    let (before, began) = (Spent::by(sender)?, now());
    offer::flood(sender.address(), offer::KIND, events)?;
    sink.wait_for(arrived + deliveries)?;
    let rate = Rate::new(deliveries, now() - began);
    sender.wait_until_recorded(recorded + deliveries)?;
    figures::rate("delivered", rate);
    before.report(&Spent::by(sender)?, deliveries);
    Ok(rate)
}

impl Spent {
    fn by(sender: &Sender) -> Result<Self, Failure> {
        let mut spent = BTreeMap::<String, u64>::new();
        for thread in std::fs::read_dir(sender.threads())?.map_while(Result::ok) {
            // The thread may have ended.
            let read = |what| std::fs::read_to_string(thread.path().join(what)).unwrap_or_default();
            let nanos = read("schedstat").split(' ').next().and_then(|text| text.parse::<u64>().ok());
            *spent.entry(read("comm").trim().to_owned()).or_default() += nanos.unwrap_or(0);
        }
        Ok(Self(spent))
    }

    fn report(&self, after: &Self, deliveries: u64) {
        let before = |name: &str| self.0.get(name).copied().unwrap_or(0);
        let micros = |nanos: u64| figures::float(nanos) / figures::float(deliveries) / 1_000.0;
        let spent: Vec<_> =
            after.0.iter().map(|(name, nanos)| (name, nanos.saturating_sub(before(name)))).collect();
        for (name, nanos) in spent.iter().filter(|(_, nanos)| micros(*nanos) >= TOLD_MICROS) {
            figures::count(&format!("  {name}: processor time per delivery, µs"), micros(*nanos));
        }
        figures::count(
            "all threads: processor time per delivery, µs",
            micros(spent.iter().map(|(_, n)| n).sum()),
        );
    }
}
