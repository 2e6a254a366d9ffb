/// The failures that an acknowledgement survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: every commit reaches the disk before it is answered.
    #[default]
    PowerLoss,
    /// The death of the process, but not of the machine.
    Process,
}
