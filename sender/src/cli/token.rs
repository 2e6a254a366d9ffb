use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::{Printer, Table, moment};
use super::session::{Look, PAGE_ROWS, each, user, with_session};
use crate::engine::Nanos;
use crate::operate::tokens::{life, make, names, to_json};
use crate::runtime::clock::wall;
use crate::store::Command;
use crate::store::read::Subscriber;
use crate::store::token::{Scope, SubscriberNames};
use crate::subscriber::checked_name;

#[derive(Subcommand, Debug)]
pub(super) enum Token {
    /// Make a token, and print it this once
    #[command(after_help = "\
Examples:
  hookproof sender token create --db sender.db shop --scope emit --expires 90d
  hookproof sender token create --db sender.db ann --scope admin
  hookproof sender token create --db sender.db acme --scope operate --subscriber 'acme-*'

The database has the digest alone. Each `serve` accepts the token within a second. From then on it answers no request without a
token, not even on loopback, and so until its end.")]
    Create(Create),
    /// Show the tokens by name, expired ones too; none is shown itself
    #[command(after_help = "Example:\n  hookproof sender token list --db sender.db")]
    List,
    /// Revoke a token, or clear an expired one away; each `serve` refuses it within a second
    #[command(after_help = "Example:\n  hookproof sender token revoke --db sender.db shop")]
    Revoke { name: String },
}

#[derive(Args, Debug)]
pub(super) struct Create {
    #[arg(value_parser = name)]
    name: Arc<str>,
    /// The requests that it allows, as with `serve --token-env`: emit, read, operate or admin. There is no default
    #[arg(long, value_parser = scope)]
    scope: Scope,
    /// How long it is valid, by the wall clock; by default until it is revoked
    #[arg(long, value_name = "TIME", value_parser = life)]
    expires: Option<Nanos>,
    /// Let it reach only this subscriber, or those with this prefix: acme-*. Repeat it for more
    #[arg(long, value_name = "NAME")]
    subscriber: Vec<String>,
}

fn name(text: &str) -> Result<Arc<str>, String> {
    checked_name(text).map(Into::into)
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::named(text).ok_or_else(|| format!("expected one of {}", Scope::ALL.map(Scope::name).join(", ")))
}

impl Token {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(common, printer),
            Self::List => list(common, printer),
            Self::Revoke { name } => {
                let options = operating(common.existing_database()?, &Reach::default(), None)?;
                let revoke = Command::RevokeToken(name.as_str().into());
                with_session(options, |session| session.change(revoke))?;
                if printer.json {
                    return printer.object(&json!({ "name": name, "revoked": true }));
                }
                printer.line(format_args!("the token {name} is revoked"))
            }
        }
    }
}

impl Create {
    fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let options = operating(common.existing_database()?, &Reach::default(), None)?;
        let names = (!self.subscriber.is_empty()).then(|| names(self.subscriber)).transpose();
        let names = names.map_err(|problem| Failure::usage(format_args!("--subscriber: {problem}")))?;
        let (stored, token) = make(self.name, self.scope, (self.expires, names), user());
        let mut value = to_json(&stored, stored.created);
        let names = stored.subscribers.clone();
        with_session(options, |session| session.change(Command::CreateToken(stored)))?;
        if let Some(names) = names
            && !is_present(&names, common)?
        {
            let names = names.as_slice().join("` or `");
            eprintln!("note: no present subscriber is named `{names}`; repeat --subscriber for each name");
        }
        if printer.json {
            value["token"] = token.into();
            return printer.object(&value);
        }
        printer.line(token)?;
        eprintln!("the token is not shown again");
        Ok(())
    }
}

fn is_present(names: &SubscriberNames, common: &Common) -> Result<bool, Failure> {
    let (look, mut found) = (Look::open(&common.existing_database()?)?, false);
    let check = |subscriber: Subscriber| {
        found = names.include(&subscriber.name);
        Ok(!found)
    };
    each(|from| look.reader.subscribers(from, PAGE_ROWS), check)?;
    Ok(found)
}

fn list(common: &Common, printer: &mut Printer) -> Result<(), Failure> {
    let (look, now) = (Look::open(&common.existing_database()?)?, wall());
    let mut table = Table::new(&["NAME", "SCOPE", "SUBSCRIBERS", "EXPIRES", "MADE", "BY"]);
    for token in look.reader.tokens()? {
        if printer.json {
            printer.object(&to_json(&token, now))?;
            continue;
        }
        let ended = if token.is_expired(now) { ", expired" } else { "" };
        table.row([
            token.name.to_string(),
            token.scope.name().to_owned(),
            token.subscribers.as_ref().map_or_else(|| "all".to_owned(), |names| names.as_slice().join(", ")),
            token.expires.map_or_else(|| "never".to_owned(), |at| format!("{}{ended}", moment(at))),
            moment(token.created),
            token.by.to_string(),
        ]);
    }
    if printer.json { Ok(()) } else { printer.table(&table, "no tokens") }
}
