use crate::binary::Database;
use crate::binary::endpoint::Endpoint;
use crate::faults::WIDE;

fn large(key: usize) -> String {
    format!(r#"{{"type":"video.trending","key":"{key}","data":"{}"}}"#, "x".repeat(200 << 10))
}

#[test]
fn a_reader_that_does_not_end_is_told_of_and_the_log_is_cut_once_it_has() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let serving = database.serve();
    let reader = database.sql();
    reader.execute_batch("BEGIN; SELECT count(*) FROM deliveries").unwrap();
    let mut key = 0;
    while serving.figure("hookproof_store_log_bytes") < f64::from(129_u32 << 20) {
        let batch: Vec<String> = (0..4).map(|n| large(key + n)).collect();
        key += batch.len();
        for event in &batch {
            assert_eq!(serving.post("/v1/events", event).status, 202);
        }
        assert!(key < 2_000, "the log grows by all that is written");
    }
    serving.wait_for_line("a program keeps a read transaction open");
    let unready = serving.get("/readyz");
    assert_eq!(unready.status, 503);
    assert!(unready.text().contains("log"), "{unready:?}");
    let output = database.command(&["doctor", "--json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(r#""check":"log""#) && told.contains("MiB"), "{told}");
    // The fault must end without another write.
    serving.until("/v1/status", |status| status["deliveries"]["waiting"] == 0);
    reader.execute_batch("COMMIT").unwrap();
    serving.wait_for_line("the database's write-ahead log is truncated again");
    assert_eq!(serving.get("/readyz").status, 200);
    serving.stop_in_order();
}
