use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::Printer;
use super::session::{Look, WriteSession, with_session};
use crate::engine::LaneId;
use crate::operate::shed::{Plan, STEP_ROWS};
use crate::store::command::Shed as Step;
use crate::store::{Command, Reply};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof-sender subscriber shed --db sender.db shop
  hookproof-sender subscriber shed --db sender.db shop --max 10000 --yes
  hookproof-sender subscriber shed --db sender.db shop --yes

Without --yes it says how many that would be, and changes nothing. Those longest due go first. They become dead letters
(overflow), which `dead redrive` has delivered after all. What a running process holds already is still sent.")]
pub(super) struct Shed {
    /// Its name or id
    name: String,
    /// At most so many; by default, all that wait
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Give them up
    #[arg(long)]
    yes: bool,
}

impl Shed {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let lane = look.subscriber(&self.name)?.lane;
        let max = self.max.unwrap_or(u64::MAX);
        if !self.yes {
            // Other processes' claims are unknown here.
            return self.tell(&Plan::read(&*look.reader, look.now, lane, 0, max)?, printer);
        }
        let options = operating(common.existing_database()?, &Reach::default(), None)?;
        let shed = with_session(options, |session| shed(session, lane, max))?;
        if printer.json {
            return printer.object(&json!({ "name": self.name, "shed": shed }));
        }
        printer.line(format_args!("{shed} deliveries to {} are given up", self.name))
    }

    fn tell(&self, plan: &Plan, printer: &mut Printer) -> Result<(), Failure> {
        if printer.json {
            let mut shown = plan.shown();
            shown["name"] = json!(self.name);
            return printer.object(&shown);
        }
        let Plan { waiting, would_shed, would_forget, .. } = plan;
        let name = &self.name;
        printer.line(format_args!(
            "{would_shed} of {waiting} deliveries to {name} would become dead letters; --yes gives them up"
        ))?;
        if *would_forget == 0 {
            return Ok(());
        }
        printer.line(format_args!(
            "{would_forget} of the oldest dead letters would be forgotten for want of room"
        ))
    }
}

fn shed(session: &WriteSession, lane: LaneId, max: u64) -> Result<u64, Failure> {
    let (mut left, mut shed) = (max, 0);
    session.in_steps(|| {
        let max = u32::try_from(left).unwrap_or(u32::MAX).min(STEP_ROWS);
        match session.command(Command::Shed(Step { lane, max }))? {
            Reply::Dropped { rows, more } => {
                shed += rows;
                left = left.saturating_sub(rows);
                Ok(more && rows > 0 && left > 0)
            }
            other => Err(Failure::ours(format_args!("the store answered {other:?}"))),
        }
    })?;
    Ok(shed)
}
