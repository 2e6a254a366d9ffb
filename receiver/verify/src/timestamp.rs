use super::rejection::Rejection;

/// Seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixSeconds(pub i64);

/// Canonical: only digits, without leading zeros, in range.
pub(super) fn parse(text: &str, name: &'static str) -> Result<UnixSeconds, Rejection> {
    let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let number = if canonical { text.parse().ok() } else { None };
    number.map(UnixSeconds).ok_or(Rejection::Timestamp { name })
}

pub(super) fn check_fresh(now: UnixSeconds, signed_at: UnixSeconds, tolerance: u32) -> Result<(), Rejection> {
    let seconds = now.0.abs_diff(signed_at.0);
    if seconds <= u64::from(tolerance) {
        Ok(())
    } else if signed_at < now {
        Err(Rejection::Old { seconds, tolerance })
    } else {
        Err(Rejection::Ahead { seconds, tolerance })
    }
}
