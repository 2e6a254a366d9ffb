//! `status`: how things stand.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::desk::Look;
use super::failure::Failure;
use super::options::Common;
use super::print::Printer;
use super::show::counts_shown;
use super::words::{ago, moment, rough};
use crate::engine::{Nanos, WallTime};
use crate::store::read::{Reader, Status as Figures};

/// What has been due for longer than this says that we are behind.
const BEHIND_AFTER: Nanos = Nanos::from_secs(60);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof-sender status --db sender.db
  hookproof-sender status --db sender.db --json | jq .counts.waiting")]
pub(super) struct Status {}

impl Status {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let look = Look::open(common.existing_database()?)?;
        let figures = look.reader.status(look.now)?;
        let owners = look.reader.owners()?;
        let senders = owners.iter().filter(|owner| owner.lanes > 0 && owner.until > look.now).count();
        let overdue = figures.oldest_due.map_or(Nanos::ZERO, |due| look.now.since(due));
        if printer.json {
            printer.object(&shown(&figures, senders, overdue))?;
        } else {
            printer.pairs(&pairs(&figures, senders, overdue, look.now))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(figures: &Figures, senders: usize, overdue: Nanos) -> serde_json::Value {
    let [active, paused, disabled] = figures.subscribers;
    json!({
        "counts": counts_shown(&figures.counts),
        "last_hour": {
            "delivered": figures.delivered_last_hour, "failed_attempts": figures.failed_last_hour,
            "dead": figures.dead_last_hour,
            "mean_latency_ms": figures.latency_last_hour.map(|latency| latency.0 / 1_000_000),
        },
        "overdue_ms": overdue.0 / 1_000_000, "behind": overdue > BEHIND_AFTER,
        "oldest_waiting": figures.oldest_received.map(moment),
        "subscribers": { "active": active, "paused": paused, "disabled": disabled },
        "outbox": { "waiting": figures.outbox, "rejected": figures.outbox_rejected },
        "delivering_processes": senders,
    })
}

fn pairs(figures: &Figures, senders: usize, overdue: Nanos, now: WallTime) -> Vec<(String, String)> {
    let counts = &figures.counts;
    let [active, paused, disabled] = figures.subscribers;
    let latency = figures.latency_last_hour.map_or_else(String::new, |it| format!(", {} on average", rough(it)));
    let behind = if overdue > BEHIND_AFTER {
        format!("yes: the longest due delivery is {} late", rough(overdue))
    } else {
        "no".to_owned()
    };
    let mut rows = vec![
        ("subscribers", format!("{active} active, {paused} paused, {disabled} disabled")),
        ("waiting", format!("{} ({} bytes, {} tried before)", counts.waiting, counts.waiting_bytes, counts.retrying)),
        ("behind", behind),
        ("delivered", format!("{}, {} in the last hour{latency}", counts.delivered, figures.delivered_last_hour)),
        ("failed attempts", format!("{}, {} in the last hour", counts.failed_attempts, figures.failed_last_hour)),
        ("dead letters", format!("{}, {} in the last hour", counts.dead_kept, figures.dead_last_hour)),
        ("coalesced", counts.coalesced.to_string()),
        ("outbox", format!("{} waiting, {} rejected", figures.outbox, figures.outbox_rejected)),
        ("delivered by", format!("{senders} processes that hold subscribers now")),
    ];
    if let Some(oldest) = figures.oldest_received {
        rows.insert(2, ("oldest waiting", format!("received {}", ago(oldest, now))));
    }
    rows.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}
