//! A full disk, without a disk to fill: the kernel's limit on the size of the files that a process may write.
//!
//! Every write to a file fails, at whatever place, as long as the limit is nothing. Two differences from a real full disk
//! remain, and are told in the trace: the error is `EFBIG` instead of `ENOSPC`, and overwriting fails too. The signal that
//! would come with it is ignored by whoever was started through [`crate::driver::hold`].

use std::io;

use rustix::process::Pid;

/// Whether there is room on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// None at all.
    Full,
    /// As before.
    Free,
}

/// Says whether a process may write to files.
#[cfg(target_os = "linux")]
pub fn limit_files(pid: Pid, room: Room) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

    let own = getrlimit(Resource::Fsize);
    let current = match room {
        Room::Full => Some(0),
        Room::Free => own.current,
    };
    // The upper limit stays, so that no privilege is needed to go back to it.
    match prlimit(Some(pid), Resource::Fsize, Rlimit { current, maximum: own.maximum }) {
        // Who is gone writes nothing.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Says whether a process may write to files.
#[cfg(not(target_os = "linux"))]
pub fn limit_files(_: Pid, _: Room) -> io::Result<()> {
    Err(io::Error::other("only Linux limits another process"))
}
