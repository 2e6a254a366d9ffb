use std::time::Duration;

/// `250ms`, `30s`, `5m` (or `5min`, as in scenarios), `24h` or `7d`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let units =
        [("ms", 1), ("s", 1_000), ("m", 60_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let millis =
        number(text, &units).ok_or("expected a number and its unit, such as 250ms, 30s, 5m, 24h or 7d")?;
    Ok(Duration::from_millis(millis))
}

/// `65536`, `64KiB` or `2MiB`; below 1 GiB.
pub(super) fn size(text: &str) -> Result<u32, String> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("", 1)];
    let bytes = number(text, &units).filter(|bytes| (1..1 << 30).contains(bytes));
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or_else(|| "expected bytes, such as 65536, 64KiB or 2MiB, below 1024MiB".to_owned())
}

pub(super) fn origin(text: &str) -> Result<String, String> {
    let is_name = (1..=253).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let known = Some(text).filter(|text| is_name || *text == "*");
    known
        .map(str::to_owned)
        .ok_or_else(|| "expected a name in DNS, such as events.example.com, or *".to_owned())
}

fn number(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(known, _)| *known == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_name_or_any() {
        for name in ["*", "events.example.com"] {
            assert_eq!(origin(name), Ok(name.to_owned()));
        }
        for text in ["", "a b", "https://events.example", "a,b", &"a".repeat(254)] {
            assert!(origin(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_and_sizes_need_their_units() {
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!((time("5m"), time("5min")), (Ok(Duration::from_secs(300)), time("300s")));
        for text in ["", "5", "s", "-1s", "1.5s", "5 m", "99999999999999999999s", "18446744073709551615d"] {
            assert!(time(text).is_err(), "{text:?}");
        }
        assert_eq!((size("65536"), size("2MiB")), (Ok(65_536), Ok(2 << 20)));
        for text in ["", "0", "2MB", "1024MiB", "-1"] {
            assert!(size(text).is_err(), "{text:?}");
        }
    }
}
