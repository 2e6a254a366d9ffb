//! The time from which this process counts. The store decides it ([`crate::store::clock`]).

use tracing::{error, info, warn};

use super::clock::{Clock, wall};
use crate::boot_clock::{self, BootClock};
use crate::engine::Nanos;
use crate::store::clock::{BACK_MAX, Beginning, Fault, MachineMoment, Start};
use crate::store::lane::OwnerId;
use crate::store::liveness::Liveness;
use crate::store::{Reader, Store, StoreError};

/// Beyond this difference from the wall clock, an operator must act.
pub const FAR_OFF: Nanos = Nanos::HOUR;

/// Starts the clock, and logs its faults.
pub(super) fn begin(
    store: &mut dyn Store,
    liveness: &dyn Liveness,
    ourselves: OwnerId,
    boot: BootClock,
) -> Result<Clock, StoreError> {
    let start = begin_within(BACK_MAX, store, liveness, Some(ourselves))?;
    match start.fault {
        None => {}
        Some(Fault::Corrected(ahead)) => warn!(
            %ahead,
            "the database's time was ahead of the wall clock (its server's, where it has one), since that, or some process's, was wrong \
             for a while: it follows the wall clock again, and what was written to a file meanwhile is brought back"
        ),
        Some(Fault::Kept(ahead)) => error!(
            %ahead,
            "the database's time is ahead of the wall clock (its server's, where it has one), and is kept: other processes count by \
             it, or the wall clock is wrong; nothing expires before the wall clock says so; `doctor` tells more, and brings a file's \
             time back with `--mend`"
        ),
    }
    let clock = Clock::at(boot, start.now);
    if let Some(behind) = clock.behind() {
        info!(%behind, "the wall clock was set forward; the database's time follows when the machine is started anew");
    }
    Ok(clock)
}

/// Starts the clock without logging. Bounds how far the time is set back.
pub(crate) fn begin_within(
    back_max: Nanos,
    store: &mut dyn Store,
    liveness: &dyn Liveness,
    ourselves: Option<OwnerId>,
) -> Result<Start, StoreError> {
    let alone = !liveness.others_may_live(ourselves);
    store.begin_clock(Beginning { wall: wall(), machine: machine().as_ref(), alone, back_max })
}

/// The time from which a process would count now. Writes nothing.
pub(crate) fn look(reader: &dyn Reader, liveness: &dyn Liveness) -> Result<Start, StoreError> {
    let alone = !liveness.others_may_live(None);
    reader.look_at_clock(Beginning { wall: wall(), machine: machine().as_ref(), alone, back_max: BACK_MAX })
}

fn machine() -> Option<MachineMoment> {
    let moment = boot_clock::moment()?;
    let (boot, uptime) = moment.parts();
    Some(MachineMoment { boot: boot.into(), uptime })
}
