use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::options::{Common, Durable, Reach, operating};
use super::print::Printer;
use super::session::{WriteSession, with_session};
use crate::event::{Limits, Offer, Refusal};
use crate::runtime::{Accepted, EmitError};

/// Events in one batch, which also bounds the reading ahead.
const BATCH_EVENTS: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender emit --db sender.db --type video.trending --key v1 --data '{\"views\":1200000}'
  render-event | hookproof sender emit --db sender.db --type video.trending -
  hookproof sender emit --db sender.db --ndjson events.ndjson --json

A line of NDJSON is {\"type\":\"video.trending\",\"key\":\"v1\",\"id\":\"my-id-1\",\"data\":{…}}; id, key and atomic may be left out.
An answered event is durable. A bad line does not affect the others; the exit code is then 1, as it is if a subscriber had no room.
A subscriber without room refuses the event for itself alone. Emit the event again with its id: only subscribers that lack it
get it.")]
pub(super) struct Emit {
    /// The event's type, such as video.trending
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "ndjson")]
    event_type: Option<String>,
    /// Its subject, such as a video or an order
    #[arg(long, conflicts_with = "ndjson")]
    key: Option<String>,
    /// Your own id for it: the same id twice is the same event
    #[arg(long, conflicts_with = "ndjson")]
    id: Option<String>,
    /// Refuse it for all of its subscribers if one of them has no room; otherwise those with room get it
    #[arg(long, conflicts_with = "ndjson")]
    atomic: bool,
    /// Its data, as JSON
    #[arg(long, value_name = "JSON", conflicts_with_all = ["data_file", "stdin", "ndjson"])]
    data: Option<String>,
    /// A file with its data; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "ndjson"])]
    data_file: Option<PathBuf>,
    /// Many events, one JSON object a line; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "event_type")]
    ndjson: Option<PathBuf>,
    /// - to read the data from stdin
    #[arg(value_name = "-", value_parser = ["-"], conflicts_with = "ndjson")]
    stdin: Option<String>,
    #[command(flatten)]
    durable: Durable,
    #[command(flatten)]
    reach: Reach,
}

impl Emit {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let options = operating(common.existing_database()?, &self.reach, Some(self.durable))?;
        let limits = options.limits;
        match &self.ndjson {
            Some(path) => {
                let mut input = open(path)?;
                with_session(options, |session| emit_lines(session, &mut *input, &limits, printer))
            }
            None => {
                let data = self.data(&limits)?;
                let kind = self.event_type.as_deref().unwrap_or_default();
                let offer = Offer::from_parts(self.id.as_deref(), kind, self.key.as_deref(), &data, &limits);
                let offer = Offer { atomic: self.atomic, ..offer.map_err(Failure::usage)? };
                with_session(options, |session| emit_one(session, offer, printer))
            }
        }
    }

    fn data(&self, limits: &Limits) -> Result<Vec<u8>, Failure> {
        let path = match (&self.data, &self.data_file, &self.stdin) {
            (Some(data), ..) => return Ok(data.clone().into_bytes()),
            (_, Some(path), _) => path.as_path(),
            (_, _, Some(_)) => Path::new("-"),
            (None, None, None) => {
                let problem = "the event has no data; expected --data JSON, --data-file FILE, or - for stdin";
                return Err(Failure::usage(problem));
            }
        };
        let most = u64::try_from(limits.event_bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        let mut data = Vec::new();
        open(path)?.take(most).read_to_end(&mut data).map_err(|error| unreadable(path, &error))?;
        Ok(data)
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    Ok(Box::new(BufReader::new(file)))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format_args!("cannot read {}: {error}", path.display()))
}

fn emit_one(session: &WriteSession, offer: Offer<'_>, printer: &mut Printer) -> Result<ExitCode, Failure> {
    let answer = session.wait(session.sender().emit(&[offer])).pop();
    let accepted = answer.unwrap_or(Err(EmitError::Busy)).map_err(|error| match error {
        EmitError::Store(_) => Failure::ours(error),
        error => Failure::refused(error),
    })?;
    let refused = refused(session, &accepted);
    let any = !refused.is_empty();
    if printer.json {
        printer.object(&to_json(&accepted, refused))
    } else {
        printer.line(summary(&accepted, &refused))
    }?;
    Ok(if any { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

type Refused = (String, &'static str);

fn refused(session: &WriteSession, accepted: &Accepted) -> Vec<Refused> {
    let listed = accepted.refused.listed().iter();
    let roster = session.sender().roster();
    let name =
        |lane| roster.get(lane).map_or_else(|| format!("lane {}", lane.0), |known| known.name().to_string());
    listed.map(|refused| (name(refused.lane()), refused.as_str())).collect()
}

fn to_json(accepted: &Accepted, refused: Vec<Refused>) -> Value {
    let mut shown = json!({
        "id": &*accepted.id, "deliveries": accepted.deliveries, "duplicates": accepted.duplicates,
        "shed": accepted.shed,
    });
    if !refused.is_empty() {
        let refused =
            refused.into_iter().map(|(subscriber, why)| json!({ "subscriber": subscriber, "why": why }));
        shown["refused"] = refused.collect();
    }
    if accepted.refused.others() > 0 {
        shown["refused_others"] = accepted.refused.others().into();
    }
    shown
}

fn summary(accepted: &Accepted, refused: &[Refused]) -> String {
    let Accepted { id, deliveries, duplicates, shed, refused: _ } = accepted;
    let mut text = match (deliveries, duplicates) {
        (0, 0) => format!("{id}: no subscriber wants it"),
        (1, _) => format!("{id}: recorded for 1 subscriber"),
        (count, _) => format!("{id}: recorded for {count} subscribers"),
    };
    if *duplicates > 0 {
        text.push_str(&format!(", {duplicates} had it already"));
    }
    if *shed > 0 {
        text.push_str(&format!(", older deliveries shed to make room: {shed}"));
    }
    for (subscriber, why) in refused {
        text.push_str(&format!("; refused by {subscriber}: {why}"));
    }
    match accepted.refused.others() {
        0 => {}
        1 => text.push_str("; refused by 1 other"),
        others => text.push_str(&format!("; refused by {others} others")),
    }
    if accepted.refused.may_pass() {
        text.push_str(&format!("; emit it again with id {id} once there is room"));
    }
    text
}

#[derive(Default)]
struct Tally {
    lines: u64,
    recorded: u64,
    deliveries: u64,
    /// Recorded, except for subscribers without room.
    in_part: u64,
    refused: u64,
}

fn emit_lines(
    session: &WriteSession,
    input: &mut dyn BufRead,
    limits: &Limits,
    printer: &mut Printer,
) -> Result<ExitCode, Failure> {
    let mut tally = Tally::default();
    session.in_steps(|| {
        let (batch, is_last) = read_batch(input, limits, tally.lines)?;
        if let Some((number, _)) = batch.last() {
            tally.lines = *number;
        }
        emit_batch(session, &batch, limits, &mut tally, printer)?;
        Ok(!is_last)
    })?;
    let Tally { recorded, deliveries, in_part, refused, .. } = tally;
    if !printer.json {
        let in_part = if in_part == 0 { String::new() } else { format!(" ({in_part} in part)") };
        printer.line(format_args!(
            "events recorded: {recorded}{in_part}; deliveries owed: {deliveries}; events refused: {refused}"
        ))?;
    }
    Ok(if refused + in_part == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

type Numbered = (u64, Line);

/// Lines with numbers from 1, and whether the input has ended.
fn read_batch(
    input: &mut dyn BufRead,
    limits: &Limits,
    after: u64,
) -> Result<(Vec<Numbered>, bool), Failure> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut number = after;
    while batch.len() < BATCH_EVENTS && bytes < BATCH_BYTES {
        let line = next_line(input, limits.event_bytes_max);
        match line.map_err(|error| Failure::ours(format_args!("cannot read the events: {error}")))? {
            None => return Ok((batch, true)),
            Some(line) => {
                number += 1;
                bytes += match &line {
                    Line::Whole(line) => line.len(),
                    Line::TooLong(_) => 0,
                };
                batch.push((number, line));
            }
        }
    }
    Ok((batch, false))
}

fn emit_batch(
    session: &WriteSession,
    batch: &[Numbered],
    limits: &Limits,
    tally: &mut Tally,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let (mut offers, mut answers) = (Vec::new(), Vec::new());
    for (number, line) in batch {
        let offer = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => continue,
            Line::Whole(line) => Offer::parse(line.trim_ascii(), limits),
            Line::TooLong(bytes) => {
                Err(Refusal::EventTooLarge { bytes: *bytes, max: limits.event_bytes_max })
            }
        };
        match offer {
            Ok(offer) => {
                offers.push(offer);
                answers.push((*number, None));
            }
            Err(refusal) => answers.push((*number, Some(EmitError::Offer(refusal)))),
        }
    }
    let mut recorded = session.wait(session.sender().emit(&offers)).into_iter();
    for (number, refused) in answers {
        let answer = refused.map_or_else(|| recorded.next().unwrap_or(Err(EmitError::Busy)), Err);
        match &answer {
            Ok(accepted) => {
                tally.recorded += 1;
                tally.deliveries += u64::try_from(accepted.deliveries).unwrap_or(u64::MAX);
                tally.in_part += u64::from(!accepted.refused.is_empty());
            }
            Err(_) => tally.refused += 1,
        }
        answer_line(session, number, &answer, printer)?;
    }
    Ok(())
}

fn answer_line(
    session: &WriteSession,
    number: u64,
    answer: &Result<Accepted, EmitError>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    match answer {
        Ok(accepted) if printer.json => {
            let mut shown = to_json(accepted, refused(session, accepted));
            shown["line"] = number.into();
            printer.object(&shown)
        }
        Err(error) if printer.json => {
            let (code, field) = match error {
                EmitError::Offer(refusal) => (refusal.code(), refusal.field()),
                EmitError::Full(_) => ("full", None),
                EmitError::NeverFits(_) => ("too_large_for_subscriber", Some("data")),
                EmitError::Broken { .. } => ("broken_subscriber", None),
                EmitError::Busy => ("busy", None),
                EmitError::Store(_) => ("store", None),
            };
            printer.object(&json!({
                "line": number,
                "error": { "code": code, "message": error.to_string(), "field": field, "may_pass": error.may_pass() },
            }))
        }
        Ok(accepted) => {
            let refused = refused(session, accepted);
            if !refused.is_empty() {
                eprintln!("line {number}: {}", summary(accepted, &refused));
            }
            Ok(())
        }
        Err(error) => {
            eprintln!("line {number}: {error}");
            Ok(())
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    TooLong(usize),
}

pub(super) fn next_line(input: &mut dyn BufRead, bytes_max: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut length = 0;
    loop {
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = piece.iter().position(|byte| *byte == b'\n');
        let (taken, used) = match end {
            Some(end) => (&piece[..end], end + 1),
            None => (piece, piece.len()),
        };
        length += taken.len();
        if length <= bytes_max {
            line.extend_from_slice(taken);
        }
        input.consume(used);
        if end.is_some() || used == 0 {
            let is_over = used == 0 && length == 0;
            let line = if length <= bytes_max { Line::Whole(line) } else { Line::TooLong(length) };
            return Ok((!is_over).then_some(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::LaneId;
    use crate::runtime::{self, RefusedList};
    use crate::store::reply::{Bound, FullLane};

    #[test]
    fn unlisted_subscribers_are_counted() {
        let check = |count: u64, listed: usize, expected: &str| {
            let full = |lane| FullLane { lane: LaneId(lane), bound: Bound::LaneRows };
            let mut refused = RefusedList::new((0..count).map(full).map(runtime::Refused::Full).collect());
            refused.shorten(listed);
            let accepted = Accepted { id: "mine".into(), deliveries: 0, duplicates: 2, shed: 0, refused };
            let names = accepted.refused.listed().iter();
            let names: Vec<_> =
                names.map(|refused| (refused.lane().0.to_string(), refused.as_str())).collect();
            let text = summary(&accepted, &names);
            let text = text.strip_prefix("mine: recorded for 0 subscribers, 2 had it already").unwrap();
            let text = text.replace("; refused by 0: its queue has reached queue.rows", "");
            assert_eq!(text.replace("; emit it again with id mine once there is room", ""), expected);
            let others = to_json(&accepted, names)["refused_others"].as_u64();
            assert_eq!(others, Some(count - 1).filter(|others| *others > 0));
        };
        check(1, 1, "");
        check(2, 1, "; refused by 1 other");
        check(250, 1, "; refused by 249 others");
    }
}

#[cfg(test)]
mod lines_tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one_and_long_ones_are_passed_over() {
        let mut input = io::BufReader::with_capacity(3, &b"ab\n\nabcdef\nxyz"[..]);
        let whole = |text: &[u8]| Some(Line::Whole(text.to_vec()));
        let expected = [whole(b"ab"), whole(b""), Some(Line::TooLong(6)), whole(b"xyz"), None, None];
        for expected in expected {
            assert_eq!(next_line(&mut input, 4).unwrap(), expected);
        }
    }
}
