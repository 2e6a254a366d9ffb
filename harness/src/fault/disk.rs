//! A full disk, simulated by the kernel's limit on the size of a process's files: with a limit of 0 every write
//! fails.
//!
//! It differs from a full disk: the error is `EFBIG` instead of `ENOSPC`, and overwriting fails too. A process
//! started through [`crate::driver::hold`] ignores the signal that comes with it.

use std::io;

use rustix::process::Pid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Full,
    Free,
}

#[cfg(target_os = "linux")]
pub fn limit_files(pid: Pid, room: Room) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

    let own = getrlimit(Resource::Fsize);
    let current = match room {
        Room::Full => Some(0),
        Room::Free => own.current,
    };
    // The hard limit stays, so that raising it again needs no privilege.
    match prlimit(Some(pid), Resource::Fsize, Rlimit { current, maximum: own.maximum }) {
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub fn limit_files(_: Pid, _: Room) -> io::Result<()> {
    Err(io::Error::other("only Linux limits another process"))
}
