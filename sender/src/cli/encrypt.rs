use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::Printer;
use super::session::with_session;
use crate::store::Command;
use crate::store::command::{Reseal, SealedTable};
use crate::store::reply::{Reply, Resealed};

/// One commit.
const STEP_ROWS: u32 = 200;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender encrypt --db sender.db --encryption-key-file sender.key
  HOOKPROOF_ENCRYPTION_KEYS=$NEW,$OLD hookproof sender encrypt --db sender.db

A new database is encrypted from the start, if a key is given; this command is for one that holds something. It seals in small
commits. An interrupted run is finished by another. Until then values that are still plain are read, and afterwards refused.

For a first encryption end all processes on the database. Then give each the key: without it they are refused. Run `vacuum` on a file
afterwards, since free space may hold older content. Backups from before stay plain.

To change the key, write the new one above the old one, restart every process, and run this command. Run it until it seals 0 values,
then remove the old key. Keep it as long as backups need it.")]
pub(super) struct Encrypt {}

impl Encrypt {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let database = common.existing_database()?;
        let Some(key) = common.keys()?.first() else {
            return Err(Failure::usage(
                "no key is given; expected --encryption-key-file FILE, or a key in HOOKPROOF_ENCRYPTION_KEYS",
            ));
        };
        database.begin_encryption()?;
        let (mut values, mut damaged) = (0, 0);
        let log_emptied = with_session(operating(database, &Reach::default(), None)?, |session| {
            let mut from = Some((SealedTable::Events, 0));
            session.in_steps(|| {
                let Some(at) = from else { return Ok(false) };
                let reply = session.command(Command::Reseal(Reseal { from: at, max: STEP_ROWS }))?;
                let Reply::Resealed(resealed) = reply else {
                    return Err(Failure::ours(format_args!("the database answered {reply:?}")));
                };
                let Resealed { values: more, damaged: bad, next } = resealed;
                (values, damaged) = (values + more, damaged + bad);
                // Damaged values keep their keys.
                from = next.filter(|(table, _)| damaged == 0 || *table != SealedTable::Proof);
                Ok(from.is_some())
            })?;
            Ok(session.wait(session.sender().empty_log())?)
        })?;
        if printer.json {
            let told =
                json!({ "key": key, "sealed": values, "damaged": damaged, "log_emptied": log_emptied });
            printer.object(&told)?;
        } else {
            printer.line(format_args!("values sealed with the key {key}: {values}"))?;
        }
        if damaged > 0 {
            return Err(Failure::Damaged(format!(
                "{damaged} values do not open and stay as they are, so the other keys stay necessary; the log names them"
            )));
        }
        if !log_emptied {
            return Err(Failure::refused(
                "the file's log still holds the content as it was, since another program reads or writes the file; repeat \
                 the command to empty the log",
            ));
        }
        Ok(())
    }
}
