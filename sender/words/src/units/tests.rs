use std::fmt::{Debug, Display};

use proptest::prelude::*;

use super::*;

fn read<T: FromStr<Err = UnitError>>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: UnitError| error.problem().clone())
}

#[track_caller]
fn reads_back<T: FromStr<Err = UnitError> + Display + Debug + PartialEq>(value: &T) {
    let text = value.to_string();
    assert_eq!(text.parse::<T>().as_ref(), Ok(value), "printed as {text}");
}

#[test]
fn lengths_of_time_are_read_exactly() {
    let rows = [
        ("0s", Nanos::ZERO),
        ("17ns", Nanos(17)),
        ("250us", Nanos::from_micros(250)),
        ("250ms", Nanos::from_millis(250)),
        ("8s", Nanos::from_secs(8)),
        ("90min", Nanos::from_secs(5_400)),
        ("24h", Nanos::DAY),
        ("7d", Nanos::DAY.times(7)),
        ("18446744073709551615ns", Nanos(u64::MAX)),
        ("213503d", Nanos::DAY.times(213_503)),
    ];
    for (text, expected) in rows {
        assert_eq!(read(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_length_that_is_not_quite_one_is_refused_for_its_own_reason() {
    let rows = [
        ("", Problem::Empty),
        ("8", Problem::NoUnit),
        ("ms", Problem::NoNumber),
        (" 8s", Problem::NoNumber),
        ("-8s", Problem::NoNumber),
        ("+8s", Problem::NoNumber),
        ("inf", Problem::NoNumber),
        ("٣s", Problem::NoNumber),
        ("1.5s", Problem::NotWhole),
        ("1_000s", Problem::NotWhole),
        ("8m", Problem::unknown_unit("m")),
        ("8S", Problem::unknown_unit("S")),
        ("8 s", Problem::unknown_unit(" s")),
        ("8s ", Problem::unknown_unit("s ")),
        ("1h30min", Problem::unknown_unit("h30min")),
        ("8KB", Problem::unknown_unit("KB")),
        ("18446744073709551616ns", Problem::TooLarge),
        ("213504d", Problem::TooLarge),
        (&format!("{}s", "9".repeat(10_000)), Problem::TooLarge),
    ];
    for (text, expected) in rows {
        assert_eq!(read::<Nanos>(text), Err(expected), "{text:?}");
    }
}

#[test]
fn rates_keep_the_stretch_they_were_written_with() {
    let rate = |count, per| Rate { count, per };
    assert_eq!(read("20/s"), Ok(rate(20, Nanos::SECOND)));
    assert_eq!(read("300/min"), Ok(rate(300, Nanos::MINUTE)));
    assert_eq!(read("14000/min"), Ok(rate(14_000, Nanos::MINUTE)));
    assert_eq!(read("1/d"), Ok(rate(1, Nanos::DAY)));
    assert_eq!(read("100/10s"), Ok(rate(100, Nanos::from_secs(10))));
    assert_ne!(read::<Rate>("60/min"), read("1/s"));
}

#[test]
fn a_rate_that_is_not_quite_one_is_refused_for_its_own_reason() {
    let rows = [
        ("", Problem::Empty),
        ("20", Problem::NoUnit),
        ("20/", Problem::NoUnit),
        ("/s", Problem::NoNumber),
        ("0/s", Problem::Zero),
        ("5/0s", Problem::Zero),
        ("0.5/s", Problem::NotWhole),
        ("20/sec", Problem::unknown_unit("sec")),
        ("20/s/s", Problem::unknown_unit("s/s")),
        ("20 /s", Problem::unknown_unit(" /s")),
        ("20/10", Problem::NoUnit),
        ("20s", Problem::unknown_unit("s")),
    ];
    for (text, expected) in rows {
        assert_eq!(read::<Rate>(text), Err(expected), "{text:?}");
    }
}

#[test]
fn window_caps_read_as_so_many_per_length() {
    assert_eq!(read("60 per 1s"), Ok(WindowCap { count: 60, length: Nanos::SECOND }));
    assert_eq!(read::<WindowCap>("60"), Err(Problem::NoUnit));
    assert_eq!(read::<WindowCap>("60 per 1"), Err(Problem::NoUnit));
    assert_eq!(read::<WindowCap>("0 per 1s"), Err(Problem::Zero));
    assert_eq!(read::<WindowCap>("60 per 0s"), Err(Problem::Zero));
    assert_eq!(read::<WindowCap>("60/s"), Err(Problem::unknown_unit("/s")));
}

#[test]
fn sizes_tell_powers_of_ten_from_powers_of_two() {
    assert_eq!(read("2KB"), Ok(Bytes(2_000)));
    assert_eq!(read("2KiB"), Ok(Bytes(2_048)));
    assert_eq!(read("64MiB"), Ok(Bytes(67_108_864)));
    assert_eq!(read("0B"), Ok(Bytes(0)));
    assert_eq!(read::<Bytes>("64"), Err(Problem::NoUnit));
    assert_eq!(read::<Bytes>("64mb"), Err(Problem::unknown_unit("mb")));
    assert_eq!(read::<Bytes>("16777216TiB"), Err(Problem::TooLarge));
}

#[test]
fn values_print_as_a_person_would_write_them() {
    let shown = ["20/s", "300/min", "100/10s", "1/d"].map(|text| read::<Rate>(text).unwrap().to_string());
    assert_eq!(shown, ["20/s", "300/min", "100/10s", "1/d"]);
    assert_eq!(WindowCap::new(60, Nanos::SECOND).unwrap().to_string(), "60 per 1s");
    assert_eq!(Bytes(64 << 20).to_string(), "64MiB");
    assert_eq!(Bytes(2_000).to_string(), "2KB");
    assert_eq!(Bytes(1_001).to_string(), "1001B");
    assert_eq!(Bytes(0).to_string(), "0B");
}

#[test]
fn an_error_names_the_value_and_the_forms_that_would_do() {
    let error = "8".parse::<Nanos>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read \"8\" as a duration: the number has no unit; \
         expected a whole number and one of ns, us, ms, s, min, h, d, such as 250ms"
    );
    let error = "5/fortnight".parse::<Rate>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read \"5/fortnight\" as a rate: the unit \"fortnight\" is not known here; \
         expected a whole number, a slash and a duration, such as 20/s, 300/min or 100/10s"
    );
    assert_eq!(Rate::new(0, Nanos::SECOND).unwrap_err().problem(), &Problem::Zero);
    assert_eq!(WindowCap::new(1, Nanos::ZERO).unwrap_err().problem(), &Problem::Zero);
}

#[test]
fn in_json_a_bare_number_is_an_error_that_says_what_to_write() {
    assert_eq!(serde_json::from_str::<Nanos>(r#""8s""#).unwrap(), Nanos::from_secs(8));
    assert_eq!(serde_json::to_string(&Rate::new(20, Nanos::SECOND).unwrap()).unwrap(), r#""20/s""#);
    let bare = serde_json::from_str::<Nanos>("8").unwrap_err().to_string();
    assert!(bare.contains("integer `8`, expected a duration with its unit, such as \"8s\""), "{bare}");
    let wrong = serde_json::from_str::<Bytes>(r#""64""#).unwrap_err().to_string();
    assert!(wrong.contains("the number has no unit"), "{wrong}");
}

proptest! {
    #[test]
    fn a_printed_unit_reads_back_equal(number in any::<u64>(), shift in 0_u32..64, count in 1_u64..) {
        let nanos = Nanos(number >> shift);
        reads_back(&nanos);
        reads_back(&Bytes(number >> shift));
        if nanos > Nanos::ZERO {
            reads_back(&Rate::new(count, nanos).unwrap());
            reads_back(&WindowCap::new(count, nanos).unwrap());
        }
    }

    #[test]
    fn a_number_times_its_unit_is_exact_or_too_large(number in any::<u64>(), shift in 0_u32..64) {
        let number = number >> shift;
        for (unit, scale) in LENGTHS {
            let expected = number.checked_mul(scale).map(Nanos).ok_or(Problem::TooLarge);
            prop_assert_eq!(read::<Nanos>(&format!("{number}{unit}")), expected);
        }
        for (unit, scale) in SIZES {
            let expected = number.checked_mul(scale).map(Bytes).ok_or(Problem::TooLarge);
            prop_assert_eq!(read::<Bytes>(&format!("{number}{unit}")), expected);
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC*|[0-9./ a-zA-Z]{0,12}") {
        let _ = text.parse::<Nanos>();
        let _ = text.parse::<Rate>();
        let _ = text.parse::<WindowCap>();
        let _ = text.parse::<Bytes>();
    }
}

#[test]
fn lengths_are_as_exact_as_anybody_wants_them() {
    let rows = [
        (Nanos(1_234), "1us"),
        (Nanos::from_micros(1_234_567), "1234ms"),
        (Nanos::from_millis(61_900), "61s"),
        (Nanos::from_secs(3_700), "61min"),
        (Nanos::from_secs(90_000), "25h"),
        (Nanos::from_secs(200_000), "2d"),
        (Nanos::ZERO, "0ns"),
    ];
    for (length, expected) in rows {
        assert_eq!(rough(length).to_string(), expected);
    }
}
