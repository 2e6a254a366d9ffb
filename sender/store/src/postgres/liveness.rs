use std::io;

use crate::lane::OwnerId;
use crate::liveness::{Life, Liveness, Presence};

/// On a server, only leases tell which processes are alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeasesAlone;

impl Liveness for LeasesAlone {
    fn sees_deaths(&self) -> bool {
        false
    }

    fn announce(&self, _: OwnerId) -> io::Result<Box<dyn Presence>> {
        Ok(Box::new(LeasesAlone))
    }

    fn life_of(&self, _: OwnerId) -> Life {
        Life::Unknown
    }

    fn others_may_live(&self, _: Option<OwnerId>) -> bool {
        true
    }

    fn dead(&self) -> Vec<OwnerId> {
        Vec::new()
    }

    fn forget(&self, _: OwnerId) {}
}

impl Presence for LeasesAlone {
    fn end(self: Box<Self>, _: bool) {}
}
