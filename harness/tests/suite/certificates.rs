use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::suite::{check, endpoints, hookproof};

/// Of PKCS #8 and of a `SubjectPublicKeyInfo`, up to the bytes of a key.
const PRIVATE_FRONT: &[u8] = b"\x30\x2e\x02\x01\0\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
const PUBLIC_FRONT: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\0";

struct Handed {
    folder: tempfile::TempDir,
}

impl Handed {
    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A key pair in two files; the line of its public key.
    fn pair(&self, name: &str, seed: u8) -> String {
        let pem = |kind: &str, der: &[u8]| {
            let text = STANDARD.encode(der);
            format!("-----BEGIN {kind} KEY-----\n{text}\n-----END {kind} KEY-----\n")
        };
        let public = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let public = [PUBLIC_FRONT, public.public_key().as_ref()].concat();
        let private = pem("PRIVATE", &[PRIVATE_FRONT, &[seed; 32]].concat());
        std::fs::write(self.file(&format!("{name}.key")), private).unwrap();
        std::fs::set_permissions(self.file(&format!("{name}.key")), std::fs::Permissions::from_mode(0o600))
            .unwrap();
        std::fs::write(self.file(&format!("{name}.pem")), pem("PUBLIC", &public)).unwrap();
        STANDARD.encode(public)
    }

    fn judged(&self, options: &[&str]) -> String {
        let url = endpoints::endpoint(|stream| {
            use std::io::Write as _;
            let _written =
                stream.write_all(b"HTTP/1.1 204 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        });
        let whom = ["receiver", &url, "--secret-env", "HOOK_SECRET", "--only", "sig.valid"];
        let out = self.file("handed");
        let output = hookproof(&[&whom[..], &["--certificate", &out], options].concat());
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    fn json(&self) -> PathBuf {
        let mut written = std::fs::read_dir(self.file("handed")).unwrap().map(|entry| entry.unwrap().path());
        written.find(|path| path.extension().is_some_and(|end| end == "json")).unwrap()
    }
}

#[test]
fn a_certificate_says_who_signed_it_and_a_change_of_text_key_or_signature_shows() {
    let handed = Handed { folder: tempfile::tempdir().unwrap() };
    let (own, other) = (handed.pair("own", 1), handed.pair("other", 2));
    let (own_pem, other_pem) = (handed.file("own.pem"), handed.file("other.pem"));
    let told = handed.judged(&["--sign-key", &handed.file("own.key")]);
    assert!(!told.contains("other users"), "{told}");
    let path = handed.json().display().to_string();
    let text = std::fs::read_to_string(&path).unwrap();
    let verify = ["verify-certificate", &path];
    let verify_by =
        |key: &str, code: i32, said: &str| check(&[&verify[..], &["--key", key]].concat(), code, said);
    check(&verify, 0, &format!("; signed by {own}"));
    verify_by(&own_pem, 0, &format!("; signed by {own}"));
    verify_by(&other_pem, 1, &format!("it is signed by another key, {own}; expected {other}"));

    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}: {text}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    };
    changed("\"side\": \"receiver\"", "\"side\": \"reciever\"");
    verify_by(&own_pem, 1, "it was changed");
    changed(&own, &other);
    check(&verify, 1, &format!("its signature is not one of its digest by the key {other}"));
    verify_by(&other_pem, 1, "its signature is not one of its digest");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let signature = value["signature"]["value"].as_str().unwrap();
    let first = if signature.starts_with('A') { "B" } else { "A" };
    changed(signature, &format!("{first}{}", &signature[1..]));
    check(&verify, 1, "its signature is not one of its digest");

    let mut stripped = value;
    stripped.as_object_mut().unwrap().remove("signature").unwrap();
    std::fs::write(&path, serde_json::to_string_pretty(&stripped).unwrap()).unwrap();
    check(&verify, 0, "; not signed");
    verify_by(&own_pem, 1, &format!("it is not signed; expected a signature by {own}"));
}

#[test]
fn a_key_that_cannot_sign_is_refused_and_one_that_others_can_read_is_warned_of() {
    let handed = Handed { folder: tempfile::tempdir().unwrap() };
    handed.pair("own", 1);
    let (private, public) = (handed.file("own.key"), handed.file("own.pem"));
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o644)).unwrap();
    let told = handed.judged(&["--sign-key", &private]);
    assert!(told.contains("other users can read the file of --sign-key"), "{told}");
    let path = handed.json().display().to_string();
    for (key, said) in
        [(&public, "it is no private key of Ed25519 in PEM"), (&handed.file("none"), "No such file")]
    {
        let told = handed.judged(&["--sign-key", key]);
        assert!(told.contains(said), "{told}");
    }
    check(
        &["verify-certificate", &path, "--key", &private],
        64,
        "it is no safe public key of Ed25519 in PEM",
    );
    let receiver = ["receiver", "http://127.0.0.1:9/", "--secret-env", "HOOK_SECRET", "--sign-key", &private];
    check(&receiver, 64, "--certificate <DIR>");
}
