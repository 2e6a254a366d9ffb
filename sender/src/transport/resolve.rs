//! Names to addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::{Cause, lock};

/// The most addresses of a name that are looked at.
const ADDRESSES_MAX: usize = 16;

/// Knows the addresses of names.
pub trait Resolve: Send + Sync {
    /// All addresses of a name, the best first. May block: it is called on a thread for that.
    ///
    /// # Errors
    /// When the name has none, or nobody could be asked.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's own resolver, with all that an operator has configured for it. It knows no deadline.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

/// The answer of a lookup, for all who wait for it.
type Found = Result<Arc<[IpAddr]>, Cause>;
type Coming = watch::Receiver<Option<Found>>;

/// One lane's lookups. At most one for a name runs at a time, and its answer is for all attempts that wait: a name
/// server that hangs holds one thread of its lane, not one for each attempt.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    latest: Mutex<Option<(Box<str>, Coming)>>,
}

impl Lookups {
    /// The addresses of a name, asked for now or since a moment ago. Never remembered: names move.
    pub(super) async fn find(&self, resolver: &Arc<dyn Resolve>, name: &str) -> Found {
        let mut answer = self.join(name).unwrap_or_else(|| self.begin(resolver, name));
        let found = answer.wait_for(Option::is_some).await;
        match found.as_deref() {
            Ok(Some(found)) => found.clone(),
            // The resolver panicked; that must not cost more than the attempt.
            Ok(None) | Err(_) => Err("the resolver ended without an answer".into()),
        }
    }

    /// A lookup of the name that is under way.
    fn join(&self, name: &str) -> Option<Coming> {
        let latest = lock(&self.latest);
        let (known, answer) = latest.as_ref()?;
        let under_way = answer.borrow().is_none() && answer.has_changed().is_ok();
        (under_way && **known == *name).then(|| answer.clone())
    }

    fn begin(&self, resolver: &Arc<dyn Resolve>, name: &str) -> Coming {
        let (tell, answer) = watch::channel(None);
        *lock(&self.latest) = Some((name.into(), answer.clone()));
        let (resolver, name) = (Arc::clone(resolver), name.to_owned());
        tokio::task::spawn_blocking(move || {
            let found = resolver.resolve(&name).map_err(|error| Cause::of(&error));
            tell.send_replace(Some(found.map(|all| all.into_iter().take(ADDRESSES_MAX).collect())));
        });
        answer
    }
}
