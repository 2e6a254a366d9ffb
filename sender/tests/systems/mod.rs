//! Features of earlier systems, with their own figures. The table beside this file names the tests of each row, and
//! another test compares it with the sources.

mod backlog;
mod backoff;
mod limits;
mod operating;
mod pressure;
mod shaping;
mod signing;
mod table;
