//! The record of a run: a trace, or the hash of its content.

use hookproof_judge::scenario::Scenario;
use hookproof_judge::signature::{hex, sha256_hex};
use hookproof_judge::trace::{ClockKind, FORMAT, Header, Record, Writer};
use hookproof_play::traffic::Schedule;
use ring::digest;

use super::error::SimError;
use super::options::{EPOCH, Keep};

pub(super) struct Book {
    writer: Option<Writer<Vec<u8>>>,
    digest: digest::Context,
    pub(super) later: Vec<Record>,
}

impl Book {
    pub(super) fn new(header: Header, keep: Keep) -> Result<Self, SimError> {
        let mut digest = digest::Context::new(&digest::SHA256);
        digest.update(header.schedule_sha256.as_bytes());
        let writer = match keep {
            Keep::Trace => Some(Writer::new(Vec::new(), header).map_err(unwritten)?),
            Keep::Figures => None,
        };
        Ok(Self { writer, digest, later: Vec::new() })
    }

    pub(super) fn write_record(&mut self, record: &Record) -> Result<(), SimError> {
        match &mut self.writer {
            Some(writer) => writer.write(record).map_err(unwritten),
            None => Ok(()),
        }
    }

    pub(super) fn digest_words(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.digest.update(&word.to_le_bytes()));
    }

    pub(super) fn finish(self, end: hookproof_judge::trace::End) -> Result<(Vec<u8>, String), SimError> {
        match self.writer {
            Some(writer) => {
                let bytes = writer.finish(end).map_err(unwritten)?;
                let sha256 = sha256_hex(&bytes);
                Ok((bytes, sha256))
            }
            None => Ok((Vec::new(), hex(self.digest.finish().as_ref()))),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn unwritten(error: std::io::Error) -> SimError {
    SimError::Defect(format!("a record cannot be written to memory: {error}"))
}

pub(super) fn header(scenario: &Scenario, schedule: &Schedule, seed: u64) -> Header {
    Header {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: scenario.name.clone(),
        scenario_sha256: sha256_hex(scenario.text.as_bytes()),
        schedule_sha256: schedule.sha256(),
        seed,
        driver: "sim".to_owned(),
        clock: ClockKind::Virtual,
        clock_resolution_ns: 1,
        began_unix_ns: EPOCH.0,
        scenario_toml: scenario.text.clone(),
    }
}
