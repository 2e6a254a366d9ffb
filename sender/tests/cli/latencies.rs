use serde_json::{Value, json};

use crate::cli::world::{Endpoint, World};

const ASK: [&str; 6] = ["audit", "--latencies", "--subscriber", "shop", "--since", "1d"];
const ADDED: u64 = 1_000_000;

#[test]
fn percentiles_of_a_hundred_thousand_attempts_in_a_file_are_exact_and_those_of_more_say_their_error() {
    let endpoint = Endpoint::answering(200);
    let (world, _) = World::with_shop(&endpoint.url, &[]);
    let numbers = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 110000)";
    check(&world, "deliveries", numbers);
}

#[test]
fn percentiles_of_a_hundred_thousand_attempts_on_a_server_are_exact_and_those_of_more_say_their_error() {
    let endpoint = Endpoint::answering(200);
    let test = "percentiles_of_a_hundred_thousand_attempts_on_a_server_are_exact";
    let Some(world) = World::with_shop_on_postgres(test, &endpoint.url) else { return };
    check(&world, "all_deliveries", "WITH n(n) AS (SELECT generate_series(1, 110000))");
}

#[track_caller]
fn check(world: &World, deliveries: &str, numbers: &str) {
    assert_eq!(world.ok(&ASK), "no attempts in the last 1d\n");
    for n in 0..20 {
        world.ok(&["emit", "--type", "order.paid", "--data", &n.to_string()]);
    }
    world.ok(&["drain", "--for", "5min", "--allow-private-targets"]);
    let answers = sorted(world, "SELECT latency FROM attempts");
    assert_eq!(world.json(&ASK)["latency"], exact(&answers));
    let joined = format!("FROM attempts a JOIN {deliveries} d USING (delivery) JOIN events e USING (event)");
    let waits = sorted(world, &format!("SELECT a.at - received {joined}"));
    assert_eq!(world.json(&ASK)["first_attempt"], exact(&waits));
    let deliveries = sorted(world, &format!("SELECT a.at + a.latency - received {joined}"));
    assert_eq!(world.json(&ASK)["delivery"], exact(&deliveries));
    let [p50, p95, p99] = percentiles(&answers).map(|length| format!("{length}us"));
    let table = world.ok(&ASK);
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["answer", "20", &p50, &p95, &p99, "exact"], "{table}");

    // Lengths up to 1.1 s in random order; every eleventh attempt sent nothing.
    let shop = "(SELECT max(lane) FROM attempts)";
    let past = "(SELECT min(at) - 60000000000 FROM attempts)";
    world.sql(&format!(
        "{numbers} INSERT INTO attempts (at, delivery, lane, number, latency, outcome, body_hash, capped)
         SELECT {past}, {ADDED} + n, {shop}, 1, n * CAST(7919 AS bigint) % 110000 * 10007,
         CASE WHEN n % 11 = 0 THEN 2 ELSE 1 END, 0, {} FROM n",
        if numbers.contains("RECURSIVE") { "NULL" } else { "false" }
    ));
    let answers = sorted(world, "SELECT latency FROM attempts WHERE outcome != 2");
    assert_eq!(answers.len(), 100_020);
    let found = &world.json(&ASK)["latency"];
    assert_eq!((&found["exact"], &found["too_high_permille_max"]), (&json!(false), &json!(1)));
    assert_eq!(found["samples"], 100_020);
    for (exact, name) in percentiles(&answers).into_iter().zip(["p50_us", "p95_us", "p99_us"]) {
        let found = found[name].as_u64().unwrap();
        assert!(exact <= found && found <= exact + exact / 1_000, "{name}: {exact} {found}");
    }
    let table = world.ok(&ASK);
    assert!(table.lines().nth(1).unwrap().ends_with("at most 0.1 % too high"), "{table}");
    assert!(table.lines().nth(2).unwrap().ends_with("exact"), "of the first attempts, there are 20: {table}");

    world.sql(&format!("DELETE FROM attempts WHERE delivery > {ADDED} AND delivery <= {ADDED} + 21"));
    let answers = sorted(world, "SELECT latency FROM attempts WHERE outcome != 2");
    assert_eq!(answers.len(), 100_000);
    assert_eq!(world.json(&ASK)["latency"], exact(&answers));
    assert_eq!(world.run(&["audit", "--latencies", "--over"]).code, 64);
}

fn sorted(world: &World, query: &str) -> Vec<u64> {
    let mut lengths = world.sql(query);
    lengths.sort_unstable();
    lengths
}

fn percentiles(sorted: &[u64]) -> [u64; 3] {
    [50, 95, 99].map(|percent| sorted[(sorted.len() * percent).div_ceil(100) - 1] / 1_000)
}

fn exact(sorted: &[u64]) -> Value {
    let [p50, p95, p99] = percentiles(sorted);
    json!({
        "samples": sorted.len(), "p50_us": p50, "p95_us": p95, "p99_us": p99,
        "exact": true, "too_high_permille_max": 0,
    })
}
