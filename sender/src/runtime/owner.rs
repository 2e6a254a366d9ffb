//! This process as an owner of lanes, and the detection of dead owners.

use std::io;
use std::sync::Arc;

use tracing::info;

use super::link::submit;
use super::lookout::{counts, dead_owners};
use crate::store::command::Command;
use crate::store::lane::OwnerId;
use crate::store::liveness::{Life, Liveness, Presence};
use crate::store::node::Announcement;
use crate::store::thread::Handle;
use crate::store::{Reader, StoreError};

/// An owner without lanes. Leaves no trace when dropped.
#[derive(Debug)]
pub(super) struct Registration(Option<Owner>);

impl Registration {
    pub(super) fn new(liveness: &dyn Liveness, id: OwnerId) -> io::Result<Self> {
        Ok(Self(Some(Owner { id, presence: liveness.announce(id)? })))
    }

    pub(super) fn id(&self) -> OwnerId {
        self.0.as_ref().expect("only `hold` takes it").id
    }

    /// From here on others see it alive until this process ends.
    pub(super) fn hold(mut self) -> Owner {
        self.0.take().expect("only `hold` takes it")
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(owner) = self.0.take() {
            owner.end(true);
        }
    }
}

/// Seen alive until the process ends or calls [`Self::end`]: after a drop, requests may still be under way.
#[derive(Debug)]
pub(super) struct Owner {
    id: OwnerId,
    presence: Box<dyn Presence>,
}

impl Owner {
    /// Call it once no request is under way. `left_nothing` decides how others see it afterwards.
    pub(super) fn end(self, left_nothing: bool) {
        self.presence.end(left_nothing);
    }
}

pub(super) fn announcement(name: Option<Arc<str>>, address: Option<Arc<str>>) -> Announcement {
    let usual = || {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let number = std::process::id();
        // Leaves room for the process id, since names are bounded.
        let machine: String = machine.chars().filter(|letter| letter.is_ascii_graphic()).take(48).collect();
        format!("{machine}:{number}").into()
    };
    Announcement {
        name: name.unwrap_or_else(usual),
        version: env!("CARGO_PKG_VERSION").into(),
        address,
        unable: Arc::default(),
        draining: false,
    }
}

pub(super) fn clear_up_the_dead(
    liveness: &Arc<dyn Liveness>,
    reader: &dyn Reader,
    store: &Handle,
    ourselves: OwnerId,
) -> Result<(), StoreError> {
    evict_the_dead(liveness, reader, store, ourselves)?;
    bury_the_dead(&**liveness, reader)
}

/// Forgets dead owners, mostly killed commands.
fn bury_the_dead(liveness: &dyn Liveness, reader: &dyn Reader) -> Result<(), StoreError> {
    let dead = liveness.dead();
    let owners = if dead.is_empty() { Vec::new() } else { reader.owners()? };
    let is_counted_on = |id| owners.iter().any(|owner| owner.owner == id && counts(owner));
    dead.into_iter().filter(|id| !is_counted_on(*id)).for_each(|id| liveness.forget(id));
    Ok(())
}

/// Frees lanes without waiting for leases.
pub(super) fn evict_the_dead(
    liveness: &Arc<dyn Liveness>,
    reader: &dyn Reader,
    store: &Handle,
    ourselves: OwnerId,
) -> Result<(), StoreError> {
    if !liveness.sees_deaths() {
        return Ok(());
    }
    let is_dead = |owner| liveness.life_of(owner) == Life::Dead;
    for owner in dead_owners(reader.owners()?, ourselves, is_dead) {
        info!(owner = owner.owner.0, lanes = owner.lanes, "another process has died; its lanes are free");
        let (id, liveness) = (owner.owner, Arc::clone(liveness));
        submit(store, vec![Command::Evict(id)], move |reply| {
            // Until the eviction is durable, others must see that it is dead.
            if reply.is_ok() {
                liveness.forget(id);
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Database;

    #[test]
    fn an_owner_that_retired_or_never_began_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sender.db");
        std::fs::write(&path, "").unwrap();
        let liveness = Database::from(path).parts().liveness();
        Registration::new(&*liveness, OwnerId(7)).unwrap().hold().end(true);
        drop(Registration::new(&*liveness, OwnerId(8)).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the database");
    }
}
