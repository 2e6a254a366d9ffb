use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn network(text: &str) -> Network {
    text.parse().unwrap()
}

#[track_caller]
fn check(guard: &Guard, address: &str, expected: Option<Range>) {
    let refused = guard.check(ip(address)).err().map(|refused| refused.range);
    assert_eq!(refused, expected, "{address}");
}

/// The ends of every range, and the addresses just outside.
const JUDGED: &[(&str, Option<Range>)] = &[
    ("0.0.0.0", Some(Range::Unspecified)),
    ("0.255.255.255", Some(Range::Unspecified)),
    ("1.0.0.0", None),
    ("8.8.8.8", None),
    ("9.255.255.255", None),
    ("10.0.0.0", Some(Range::Private)),
    ("10.255.255.255", Some(Range::Private)),
    ("11.0.0.0", None),
    ("100.63.255.255", None),
    ("100.64.0.0", Some(Range::CarrierShared)),
    ("100.100.100.200", Some(Range::Metadata)),
    ("100.127.255.255", Some(Range::CarrierShared)),
    ("100.128.0.0", None),
    ("126.255.255.255", None),
    ("127.0.0.1", Some(Range::Loopback)),
    ("127.255.255.255", Some(Range::Loopback)),
    ("128.0.0.0", None),
    ("168.63.129.16", Some(Range::Metadata)),
    ("168.63.129.17", None),
    ("169.253.255.255", None),
    ("169.254.0.1", Some(Range::LinkLocal)),
    ("169.254.0.22", Some(Range::LinkLocal)),
    ("169.254.0.23", Some(Range::Metadata)),
    ("169.254.42.42", Some(Range::Metadata)),
    ("169.254.42.43", Some(Range::LinkLocal)),
    ("169.254.169.254", Some(Range::Metadata)),
    ("169.254.170.2", Some(Range::Metadata)),
    ("169.254.170.23", Some(Range::Metadata)),
    ("169.255.0.0", None),
    ("172.15.255.255", None),
    ("172.16.0.0", Some(Range::Private)),
    ("172.31.255.255", Some(Range::Private)),
    ("172.32.0.0", None),
    ("192.0.0.1", Some(Range::Reserved)),
    ("192.0.0.192", Some(Range::Metadata)),
    ("192.0.1.0", None),
    ("192.0.2.7", Some(Range::Documentation)),
    ("192.88.99.1", Some(Range::Reserved)),
    ("192.167.255.255", None),
    ("192.168.0.0", Some(Range::Private)),
    ("192.168.255.255", Some(Range::Private)),
    ("192.169.0.0", None),
    ("198.17.255.255", None),
    ("198.18.0.0", Some(Range::Benchmark)),
    ("198.19.255.255", Some(Range::Benchmark)),
    ("198.20.0.0", None),
    ("198.51.100.1", Some(Range::Documentation)),
    ("203.0.113.255", Some(Range::Documentation)),
    ("223.255.255.255", None),
    ("224.0.0.1", Some(Range::Multicast)),
    ("239.255.255.255", Some(Range::Multicast)),
    ("240.0.0.0", Some(Range::Reserved)),
    ("255.255.255.254", Some(Range::Reserved)),
    ("255.255.255.255", Some(Range::Broadcast)),
    ("::", Some(Range::Unspecified)),
    ("::1", Some(Range::Loopback)),
    ("100::1", Some(Range::Reserved)),
    ("1fff:ffff::1", Some(Range::Reserved)),
    ("2000::1", None),
    ("2001:2::1", Some(Range::Benchmark)),
    ("2001:10::1", Some(Range::Reserved)),
    ("2001:1ff:ffff::1", Some(Range::Reserved)),
    ("2001:200::1", None),
    ("2001:4860:4860::8888", None),
    ("2001:db7:ffff::1", None),
    ("2001:db8::1", Some(Range::Documentation)),
    ("2001:db9::1", None),
    ("2606:4700:4700::1111", None),
    ("3ffe::1", Some(Range::Reserved)),
    ("3fff::1", Some(Range::Documentation)),
    ("3fff:1000::1", None),
    ("4000::1", Some(Range::Reserved)),
    ("5f00::1", Some(Range::Reserved)),
    ("fbff::1", Some(Range::Reserved)),
    ("fc00::1", Some(Range::UniqueLocal)),
    ("fd00:42::41", Some(Range::UniqueLocal)),
    ("fd00:42::42", Some(Range::Metadata)),
    ("fd00:ec2::254", Some(Range::Metadata)),
    ("fd00:ec2::23", Some(Range::Metadata)),
    ("fd00:ec2::255", Some(Range::UniqueLocal)),
    ("fd00:a9fe:a9fe::1", Some(Range::Metadata)),
    ("fd00:a9fe:a9fe::2", Some(Range::UniqueLocal)),
    ("fd20:ce::254", Some(Range::Metadata)),
    ("fdff::1", Some(Range::UniqueLocal)),
    ("fe00::1", Some(Range::Reserved)),
    ("fe80::1", Some(Range::LinkLocal)),
    ("febf::1", Some(Range::LinkLocal)),
    ("fec0::1", Some(Range::SiteLocal)),
    ("feff::1", Some(Range::SiteLocal)),
    ("ff02::1", Some(Range::Multicast)),
    // NAT64 of a site's own
    ("64:ff9b:1::808:808", Some(Range::Reserved)),
];

#[test]
fn every_address_is_judged_by_where_it_lies() {
    let strict = Guard::strict();
    for (address, expected) in JUDGED {
        check(&strict, address, *expected);
    }
}

fn carriers(v4: Ipv4Addr) -> Vec<Ipv6Addr> {
    let bits = u128::from(v4.to_bits());
    let low = |prefix: &str| Ipv6Addr::from_bits(prefix.parse::<Ipv6Addr>().unwrap().to_bits() | bits);
    let teredo = |server: Ipv4Addr, client: Ipv4Addr| {
        let bits = 0x2001_u128 << 112 | u128::from(server.to_bits()) << 64 | u128::from(!client.to_bits());
        Ipv6Addr::from_bits(bits)
    };
    let public = Ipv4Addr::new(8, 8, 8, 8);
    vec![
        low("::ffff:0:0"),
        low("::"),
        low("::ffff:0:0:0"),
        low("64:ff9b::"),
        Ipv6Addr::from_bits(0x2002_u128 << 112 | bits << 80 | 0x1234),
        teredo(public, v4),
        teredo(v4, public),
    ]
}

#[test]
fn an_ipv4_address_inside_an_ipv6_one_is_judged_as_itself() {
    for (address, expected) in JUDGED {
        let IpAddr::V4(v4) = ip(address) else { continue };
        // The table has the unspecified address.
        for carrier in carriers(v4).into_iter().filter(|carrier| !carrier.is_unspecified()) {
            check(&Guard::strict(), &carrier.to_string(), *expected);
        }
    }
}

#[test]
fn allowing_private_targets_lifts_what_is_private_and_nothing_else() {
    let lenient = Guard::strict().allow_private_targets();
    for (address, strictly) in JUDGED {
        check(&lenient, address, strictly.filter(|range| !range.is_private()));
    }
    let lifted = ["127.0.0.1", "10.0.0.1", "0.0.0.0", "100.64.0.1", "198.18.0.1", "fc00::1", "fec0::1"];
    for address in lifted {
        check(&lenient, address, None);
    }
    check(&lenient, "::ffff:10.0.0.1", None);
    check(&lenient, "169.254.0.1", Some(Range::LinkLocal));
    check(&lenient, "fe80::a9fe:a9fe", Some(Range::LinkLocal));
    check(&lenient, "169.254.0.23", Some(Range::Metadata));
    check(&lenient, "169.254.42.42", Some(Range::Metadata));
    check(&lenient, "fd00:42::42", Some(Range::Metadata));
    check(&lenient, "192.0.2.7", Some(Range::Documentation));
    check(&lenient, "224.0.0.1", Some(Range::Multicast));
    check(&lenient, "240.0.0.1", Some(Range::Reserved));
    check(&lenient, "255.255.255.255", Some(Range::Broadcast));
    check(&lenient, "fd00:ec2::254", Some(Range::Metadata));
    check(&lenient, "::ffff:169.254.169.254", Some(Range::Metadata));
}

#[test]
fn a_listed_network_lifts_what_lies_in_it_and_nothing_else() {
    let guard = Guard::strict().allow_network(network("10.1.0.0/16")).allow_network(network("fd00:ec2::254"));
    check(&guard, "10.1.255.255", None);
    check(&guard, "::ffff:10.1.0.1", None);
    check(&guard, "64:ff9b::a01:1", None);
    check(&guard, "10.2.0.0", Some(Range::Private));
    check(&guard, "10.0.255.255", Some(Range::Private));
    check(&guard, "fd00:ec2::254", None);
    check(&guard, "fd00:ec2::23", Some(Range::Metadata));
    check(&guard, "169.254.169.254", Some(Range::Metadata));
    // An IPv6 network does not match the IPv4 addresses that it could carry.
    check(&Guard::strict().allow_network(network("::/0")), "::ffff:10.0.0.1", Some(Range::Private));
    check(&Guard::strict().allow_network(network("0.0.0.0/0")), "169.254.169.254", None);
}

#[test]
fn a_refusal_says_what_was_judged_and_what_would_lift_it() {
    let says = |address: &str| Guard::strict().check(ip(address)).unwrap_err().to_string();
    assert_eq!(
        says("::ffff:10.0.0.1"),
        "refusing to connect to ::ffff:10.0.0.1: 10.0.0.1 is a private address; to allow it, allow private targets or list its network"
    );
    assert_eq!(
        says("169.254.169.254"),
        "refusing to connect to 169.254.169.254: 169.254.169.254 is a cloud's metadata service; to allow it, list its network"
    );
}

#[test]
fn the_table_of_ranges_is_well_formed() {
    for (known, _) in &ranges::RANGES {
        assert_eq!(known.to_string().parse::<Network>().as_ref(), Ok(known));
    }
}

#[test]
fn networks_are_read_in_their_usual_forms() {
    assert_eq!(network("10.0.0.0/8").to_string(), "10.0.0.0/8");
    assert_eq!(network("192.0.2.7").to_string(), "192.0.2.7/32");
    assert_eq!(network("::1").to_string(), "::1/128");
    assert_eq!(network("FD00:0::/8").to_string(), "fd00::/8");
    assert!(network("0.0.0.0/0").contains(ip("255.1.2.3")));
    assert!(!network("0.0.0.0/0").contains(ip("::1")));
}

#[test]
fn a_network_that_is_not_quite_one_is_refused_for_its_own_reason() {
    let problem = |text: &str| text.parse::<Network>().unwrap_err().problem();
    for text in ["", "/8", "example.com/8", "10.0.0/8", "10.0.0.0.0", " 10.0.0.0/8", "010.0.0.0/8", "[::1]"] {
        assert_eq!(problem(text), NetworkProblem::Address, "{text}");
    }
    for text in ["10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0.0/999"] {
        assert_eq!(problem(text), NetworkProblem::Prefix { max: 32 }, "{text}");
    }
    assert_eq!(problem("::/129"), NetworkProblem::Prefix { max: 128 });
    assert_eq!(problem("10.1.2.3/8"), NetworkProblem::HostBits { network: network("10.0.0.0/8") });
    assert_eq!(problem("::ffff:10.0.0.0/104"), NetworkProblem::Mapped);
    assert_eq!(
        "10.1.2.3/8".parse::<Network>().unwrap_err().to_string(),
        "cannot read \"10.1.2.3/8\" as a network: it has bits set beyond its prefix; expected 10.0.0.0/8; \
         expected a form such as 10.0.0.0/8 or fd00::/8"
    );
}

#[track_caller]
fn check_url(guard: &Guard, text: &str, expected: Result<&str, &str>) {
    let got = Target::parse(text, guard);
    let got = got.as_ref().map(Target::as_str).map_err(TargetError::code);
    assert_eq!(got, expected, "{text:?}");
}

#[test]
fn urls_that_deliveries_may_go_to() {
    let rows = [
        ("https://example.com/hooks?x=1", "https://example.com/hooks?x=1"),
        ("http://example.com:8080", "http://example.com:8080/"),
        ("HTTPS://Example.COM/", "https://example.com/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700:4700::1111]/", "https://[2606:4700:4700::1111]/"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://localhost.example.com/", "https://localhost.example.com/"),
    ];
    for (text, normal) in rows {
        check_url(&Guard::strict(), text, Ok(normal));
    }
}

#[test]
fn urls_that_no_subscriber_may_have() {
    let long = format!("https://example.com/{}", "a".repeat(Target::BYTES_MAX));
    let longer_encoded = format!("https://example.com/{}", "ü".repeat(Target::BYTES_MAX / 3));
    let rows = [
        (long.as_str(), "url_too_long"),
        (longer_encoded.as_str(), "url_too_long"),
        (" https://example.com", "url_blank"),
        ("https://exa\tmple.com", "url_blank"),
        ("https://example.com/\u{a0}", "url_blank"),
        ("https://example.com/\r\nHost: x", "url_blank"),
        ("", "url_relative"),
        ("example.com/hooks", "url_relative"),
        ("//example.com", "url_relative"),
        ("https://example.com:99999/", "url_malformed"),
        ("https://[::1", "url_malformed"),
        ("https://[fe80::1%25eth0]/", "url_malformed"),
        ("https://1.2.3.4.5/", "url_malformed"),
        ("https://256.256.256.256/", "url_malformed"),
        ("https://{tenant}.example.com/hook", "url_malformed"),
        ("http://exa\"mple.com/", "url_malformed"),
        ("http://exa`mple.com/", "url_malformed"),
        ("https://a*b.example.com/", "url_malformed"),
        ("https://-.example.com/", "url_malformed"),
        ("https://a..example.com/", "url_malformed"),
        ("ftp://example.com/", "url_scheme"),
        ("file:///etc/passwd", "url_scheme"),
        ("gopher://example.com/", "url_scheme"),
        ("unix:/run/x.sock", "url_scheme"),
        ("https://", "url_no_host"),
        ("https://./", "url_no_host"),
        ("https://user@example.com/", "url_user_info"),
        ("https://user:password@example.com/", "url_user_info"),
        ("https://:password@example.com/", "url_user_info"),
        ("https://example.com/#part", "url_fragment"),
        ("https://example.com:0/", "url_port"),
    ];
    for (text, code) in rows {
        check_url(&Guard::strict(), text, Err(code));
    }
}

#[test]
fn a_literal_address_is_judged_at_once_however_oddly_written() {
    let hosts = [
        "127.0.0.1",
        "127.1",
        "127.0.0.1.",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::10.0.0.1]",
        "169.254.169.254",
        "2852039166",
        "localhost",
        "LOCALHOST.",
        "app.localhost",
    ];
    for host in hosts {
        check_url(&Guard::strict(), &format!("http://{host}/"), Err("url_refused"));
    }
    let lenient = Guard::strict().allow_private_targets();
    check_url(&lenient, "http://127.1:8080/", Ok("http://127.0.0.1:8080/"));
    check_url(&lenient, "http://localhost/", Ok("http://localhost/"));
    check_url(&lenient, "http://2852039166/", Err("url_refused"));
    check_url(
        &Guard::strict().allow_network(network("127.0.0.0/8")),
        "http://localhost/",
        Ok("http://localhost/"),
    );
}

#[test]
fn a_host_that_cannot_be_sent_to_is_named_with_what_is_wrong() {
    let says = |url: &str| Target::parse(url, &Guard::strict()).unwrap_err().to_string();
    assert_eq!(
        says("https://{tenant}.example.com/hook?token=s3cret"),
        "the URL's host is \"{tenant}.example.com\": invalid uri character; expected letters, digits, hyphens and dots"
    );
    assert_eq!(
        says("https://a*b.example.com/"),
        "the URL's host is \"a*b.example.com\": invalid dns name; expected letters, digits, hyphens and dots"
    );
}

#[test]
fn a_url_that_an_older_version_accepted_can_still_be_read() {
    let long = format!("https://example.com/{}", "%C3%BC".repeat(Target::BYTES_MAX / 3));
    for url in ["https://{tenant}.example.com/hook", "http://169.254.169.254/", &long] {
        assert!(Target::parse(url, &Guard::strict()).is_err());
        assert_eq!(Target::stored(url).as_ref().map(Target::as_str), Ok(url));
    }
}

#[test]
fn no_error_repeats_a_password() {
    let error = Target::parse("https://user:hunter2@example.com:99999/", &Guard::strict()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}

proptest! {
    #[test]
    fn an_ipv6_address_that_embeds_an_ipv4_address_is_judged_as_that(bits in any::<u32>(), lenient in any::<bool>()) {
        let guard = if lenient { Guard::strict().allow_private_targets() } else { Guard::strict() };
        let v4 = Ipv4Addr::from_bits(bits);
        let fate = guard.check(IpAddr::V4(v4)).map_err(|refused| refused.range);
        for carrier in carriers(v4).into_iter().filter(|c| !c.is_unspecified() && !c.is_loopback()) {
            let carried = guard.check(IpAddr::V6(carrier)).map_err(|refused| refused.range);
            prop_assert_eq!(carried, fate, "{}", carrier);
        }
    }

    #[test]
    fn nothing_that_the_standard_library_calls_special_gets_through(bits in any::<u32>(), shift in 0_u32..32) {
        let v4 = Ipv4Addr::from_bits(bits << shift);
        let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_broadcast()
            || v4.is_documentation() || v4.is_multicast() || v4.is_unspecified();
        prop_assert!(!special || Guard::strict().check(IpAddr::V4(v4)).is_err(), "{}", v4);
    }

    #[test]
    fn no_ipv6_address_outside_the_public_part_gets_through(bits in any::<u128>()) {
        let v6 = Ipv6Addr::from_bits(bits);
        let public = v6.segments()[0] >> 13 == 1;
        let carries = v6.segments()[..4] == [0x64, 0xff9b, 0, 0] || v6.segments()[..4] == [0; 4];
        prop_assert!(public || carries || Guard::strict().check(IpAddr::V6(v6)).is_err(), "{}", v6);
    }

    #[test]
    fn a_listed_network_lifts_exactly_itself(bits in any::<u32>(), other in any::<u32>(), prefix in 0_u8..=32) {
        let address = IpAddr::V4(Ipv4Addr::from_bits(bits));
        let inside = match Network::new(address, prefix) {
            Ok(network) | Err(NetworkProblem::HostBits { network }) => network,
            Err(problem) => return Err(TestCaseError::fail(problem.to_string())),
        };
        let other = Ipv4Addr::from_bits(other);
        let shares = prefix == 0 || (other.to_bits() ^ bits) >> (32 - u32::from(prefix)) == 0;
        prop_assert_eq!(inside.contains(IpAddr::V4(other)), shares);
        prop_assert!(Guard::strict().allow_network(inside).check(address).is_ok());
        prop_assert_eq!(inside.to_string().parse::<Network>(), Ok(inside));
    }

    #[test]
    fn a_url_that_is_accepted_can_be_read_as_it_is_stored(
        host in "example\\.com|bücher\\.example|(ü\\.|㍿\\.){1,300}example",
        letter in "[ü|\"{a?]",
        letters in 0..=Target::BYTES_MAX,
    ) {
        let text = format!("http://{host}/{}", letter.repeat(letters / letter.len()));
        if let Ok(target) = Target::parse(&text, &Guard::strict()) {
            prop_assert_eq!(Target::stored(target.as_str()), Ok(target));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC*|https?://[0-9a-fx.:%\\[\\]@#/]{0,40}") {
        let _ = text.parse::<Network>();
        if let Ok(target) = Target::parse(&text, &Guard::strict()) {
            prop_assert!(Target::parse(target.as_str(), &Guard::strict()).as_ref() == Ok(&target));
        }
    }
}
