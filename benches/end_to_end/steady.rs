//! PostgreSQL keeps every deleted or changed row for a stranger's open transaction.

use std::time::Duration;

use crate::exchange::Failure;
use crate::figures::{self, Rate};
use crate::process::Place;
use crate::server::Server;
use crate::sink::Sink;
use crate::{now, number, offer, serving};

/// The length of each half, which `HOOKPROOF_SECONDS` overrides, and of each reported part.
const SECONDS: u64 = 180;
const PART: Duration = Duration::from_secs(20);
const EVENTS: u64 = 20_000;

/// First alone, then beside an open transaction that has read; or only the latter.
pub(crate) fn measure(sink: &Sink, parts: &[String]) -> Result<(), Failure> {
    let Some(server) = Server::named() else {
        figures::title("nothing is measured: HOOKPROOF_POSTGRES names no server");
        return Ok(());
    };
    let place = Place::Server(server.clone());
    if !parts.iter().any(|part| part == "beside") {
        figures::title("on PostgreSQL, nobody else there");
        slices(sink, &place)?;
    }
    figures::title("on PostgreSQL, beside a stranger's open transaction");
    let stranger = server.hold()?;
    slices(sink, &place)?;
    drop(stranger);
    Ok(())
}

fn slices(sink: &Sink, place: &Place) -> Result<(), Failure> {
    let sender = serving(sink, place)?;
    let mut recorded = 0;
    for part in 1..=number("HOOKPROOF_SECONDS", SECONDS).div_ceil(PART.as_secs()).max(1) {
        let (began, mut events) = (now(), 0);
        let used = place.used()?;
        while now() - began < PART {
            let before = sink.arrivals();
            offer::flood(sender.address(), offer::KIND, EVENTS)?;
            sink.wait_for(before + EVENTS)?;
            events += EVENTS;
        }
        recorded += events;
        sender.wait_until_recorded(recorded)?;
        let rate = Rate::new(events, now() - began);
        figures::rate(&format!("until {} s", PART.as_secs() * part), rate);
        if let Some((before, after)) = used.zip(place.used()?) {
            figures::count(
                "  the server: processor time per delivery, µs",
                before.micros_until(&after, events),
            );
        }
    }
    sender.stop()?.report_tables()
}
