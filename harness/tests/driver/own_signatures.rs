use hookproof::driver::DriverFile;
use hookproof_judge::signature::{CheckedSignature, Key, Received, Scheme, Wrong};
use serde::Deserialize;

const OPENSSL: &str = include_str!("../../../scenarios/vectors/own/openssl.json");

#[derive(Deserialize)]
struct File {
    id: String,
    timestamp: String,
    body: String,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    algorithm: String,
    key: String,
    secret: String,
    encoding: String,
    signature: String,
}

fn scheme(sign: &str) -> Scheme {
    let text = format!(
        "name = \"x\"\nsubscribe = {{ request = \"POST {{{{ base }}}}/\", save = {{ secret = \"/key\" }} }}\n\
         emit = {{ request = \"POST {{{{ base }}}}/\", body = \"\" }}\n[sign]\n{sign}"
    );
    DriverFile::parse(&text, "x.toml").unwrap_or_else(|error| panic!("{error}")).sign.unwrap().scheme
}

fn verify(scheme: &Scheme, keys: &[Key], headers: &[(&str, &str)], body: &str) -> CheckedSignature {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    scheme.verify(keys, &Received { headers: &headers, body: body.as_bytes(), ..Received::default() })
}

#[test]
fn the_judge_agrees_with_openssl_and_with_no_changed_request() {
    let file: File = serde_json::from_str(OPENSSL).unwrap();
    assert!(file.vectors.len() >= 18, "{} vectors", file.vectors.len());
    for vector in &file.vectors {
        let scheme = scheme(&format!(
            "algorithm = {:?}\nkey = {:?}\nencoding = {:?}\nheader = \"X-Signature\"\nprefix = \"v1=\"\n\
             signed = [\"{{id}}.{{timestamp}}.\", \"{{body}}\"]\ntimestamp = \"X-Time\"\nid = \"X-Id\"\n",
            vector.algorithm, vector.key, vector.encoding
        ));
        let key = scheme.key(&vector.secret).unwrap();
        let other = scheme.key(&vector.secret.replace("twenty", "eleven")).unwrap();
        let signature = format!("v1={}", vector.signature);
        let judged = |keys: &[Key], id: &str, timestamp: &str, body: &str| {
            let headers = [("x-signature", &*signature), ("x-time", timestamp), ("x-id", id)];
            verify(&scheme, keys, &headers, body).verdict
        };
        let File { id, timestamp, body, .. } = &file;
        assert_eq!(judged(std::slice::from_ref(&key), id, timestamp, body), Ok(vec![0]), "{}", vector.name);
        if vector.secret.contains("twenty") {
            let both = [other.clone(), key.clone()];
            assert_eq!(judged(&both, id, timestamp, body), Ok(vec![1]), "{}", vector.name);
            assert_eq!(judged(&[other], id, timestamp, body), Err(Wrong::NoKey), "{}", vector.name);
        }
        for (id, timestamp, body) in
            [("evt_2", &**timestamp, &**body), (id, "1700000001", body), (id, timestamp, "event=x")]
        {
            assert_eq!(
                judged(std::slice::from_ref(&key), id, timestamp, body),
                Err(Wrong::NoKey),
                "{}",
                vector.name
            );
        }
    }
}

#[test]
fn a_timestamp_may_stand_beside_several_signatures_in_one_header() {
    let file: File = serde_json::from_str(OPENSSL).unwrap();
    let vector = file.vectors.iter().find(|vector| vector.name == "sha256 in hex").unwrap();
    let scheme = scheme(
        "algorithm = \"hmac-sha256\"\nheader = \"X-Signature\"\nseparator = \",\"\nprefix = \"v1=\"\n\
         timestamp_prefix = \"t=\"\nsigned = [\"{header.X-Id}.{timestamp}.{body}\"]\n",
    );
    let key = [scheme.key(&vector.secret).unwrap()];
    let judged =
        |value: &str| verify(&scheme, &key, &[("X-Signature", value), ("X-Id", &file.id)], &file.body);
    let foreign = "00ff".repeat(16);
    let right = format!("t={},v0=00,v1={foreign},v1={}", file.timestamp, vector.signature);
    let seen = judged(&right);
    assert_eq!((seen.verdict, seen.timestamp), (Ok(vec![0]), Some(file.timestamp.clone())));
    let without = format!("v1={}", vector.signature);
    assert!(matches!(judged(&without).verdict, Err(Wrong::Missing(_))));
    assert!(matches!(judged(&format!("{right},t=1")).verdict, Err(Wrong::Several(_))));
    assert!(matches!(judged("t=1,v0=00").verdict, Err(Wrong::NoSignature(_))));
    assert!(matches!(judged("t=1,v1=0g").verdict, Err(Wrong::Encoding(2))));
    let crowd = format!("t=1{}", ",v1=00".repeat(64));
    assert!(matches!(judged(&crowd).verdict, Err(Wrong::TooMany)));
}

#[test]
fn a_timestamp_may_stand_beside_a_signature_without_a_prefix() {
    let file: File = serde_json::from_str(OPENSSL).unwrap();
    let vector = file.vectors.iter().find(|vector| vector.name == "sha256 in hex").unwrap();
    let rows = [("", "t=", "t=@,#"), ("", "t=", "#,t=@"), ("v1=", "v", "v@,v1=#")];
    for (prefix, stamp, value) in rows {
        let scheme = scheme(&format!(
            "algorithm = \"hmac-sha256\"\nheader = \"X-Sig\"\nseparator = \",\"\nprefix = {prefix:?}\n\
             timestamp_prefix = {stamp:?}\nsigned = [\"{{header.X-Id}}.{{timestamp}}.{{body}}\"]\n"
        ));
        let key = [scheme.key(&vector.secret).unwrap()];
        let value = value.replace('@', &file.timestamp).replace('#', &vector.signature);
        let judged =
            |body: &str| verify(&scheme, &key, &[("X-Sig", &value), ("X-Id", &file.id)], body).verdict;
        assert_eq!(judged(&file.body), Ok(vec![0]), "{value}");
        assert_eq!(judged("event=x"), Err(Wrong::NoKey), "{value}");
    }
}

#[test]
fn a_timestamp_in_milliseconds_is_told_in_seconds() {
    let scheme = scheme(
        "algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{timestamp}{body}\"]\ntimestamp = \"T\"\n\
         timestamp_unit = \"ms\"\n",
    );
    let seen = verify(&scheme, &[], &[("S", "00"), ("T", "1700000000123")], "");
    assert_eq!(seen.timestamp.as_deref(), Some("1700000000"));
}

#[test]
fn a_header_that_is_missing_or_there_twice_is_no_signature() {
    let scheme = scheme("algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{body}\"]\n");
    let key = [scheme.key("secret").unwrap()];
    assert_eq!(verify(&scheme, &key, &[], "x").verdict, Err(Wrong::Missing("S".into())));
    assert_eq!(
        verify(&scheme, &key, &[("S", "00"), ("s", "00")], "x").verdict,
        Err(Wrong::Several("S".into()))
    );
    assert_eq!(verify(&scheme, &key, &[("S", "")], "x").verdict, Err(Wrong::Text("S".into())));
}

#[test]
fn keys_of_another_form_are_refused_without_a_word_of_what_they_hold() {
    let rows = [
        ("hmac-sha256", "hex", "a secret, as it is"),
        ("hmac-sha256", "base64", "sp ace"),
        ("ed25519", "pem", "no-pem-at-all"),
    ];
    for (algorithm, form, text) in rows {
        let sign =
            format!("algorithm = {algorithm:?}\nkey = {form:?}\nheader = \"S\"\nsigned = [\"{{body}}\"]\n");
        let error = scheme(&sign).key(text).unwrap_err().to_string();
        assert!(error.contains("declares") && !error.contains(text), "{error}");
    }
}
