//! The cost of verification, compared with the necessary hash: `cargo bench -p hookproof-benches --bench receiver`.

use std::hint::black_box;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hmac::{Hmac, KeyInit as _, Mac as _};
use hookproof_verify::{Keys, Profile, Secret, UnixSeconds, verify};
use sha2::Sha256;

const KEY: &[u8; 32] = b"0123456789abcdef0123456789abcdef";
const NOW: i64 = 1_700_000_000;
const ID: &str = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W";

fn sizes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("receiver");
    let secret = Secret::new(format!("whsec_{}", STANDARD.encode(KEY))).expect("a secret of 32 bytes");
    let keys = Keys::new(Profile::StandardWebhooks, [&secret]).expect("one key is enough");
    let ready = Hmac::<Sha256>::new_from_slice(KEY).expect("hmac takes a key of any length");
    for (name, bytes) in [("300 B", 300), ("20 kB", 20_000), ("1 MB", 1_000_000)] {
        let body = vec![b'x'; bytes];
        let tag = |body: &[u8]| {
            let mut mac = ready.clone();
            mac.update(body);
            mac.finalize().into_bytes()
        };
        let signed = [format!("{ID}.{NOW}.").as_bytes(), &body].concat();
        let signature = format!("v1,{}", STANDARD.encode(tag(&signed)));
        let mut headers = http::HeaderMap::new();
        for (name, value) in
            [("webhook-id", ID), ("webhook-timestamp", &NOW.to_string()), ("webhook-signature", &signature)]
        {
            let value = http::HeaderValue::from_str(value).expect("visible ascii");
            headers.insert(http::HeaderName::from_bytes(name.as_bytes()).expect("a name"), value);
        }
        headers.insert("content-type", http::HeaderValue::from_static("application/json"));
        assert!(verify(UnixSeconds(NOW), &headers, &body, &keys).is_ok(), "the bench measures a refusal");
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_with_input(BenchmarkId::new("bare HMAC", name), &body, |bencher, body| {
            bencher.iter(|| tag(black_box(body)));
        });
        group.bench_with_input(BenchmarkId::new("verify", name), &body, |bencher, body| {
            bencher.iter(|| verify(UnixSeconds(NOW), black_box(&headers), black_box(body), &keys).is_ok());
        });
    }
    group.finish();
}

criterion_group!(benches, sizes);
criterion_main!(benches);
