use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, Serving};

#[test]
fn an_event_is_one_delivery_for_each_subscriber_whose_pattern_it_matches() {
    let database = Database::new();
    let patterns = ["*", "video.trending", "video.*", "channel.*", "video"];
    for (number, pattern) in patterns.iter().enumerate() {
        let name = format!("s{number}");
        database.subscribe(&name, "http://127.0.0.1:9/", &["--events", pattern]);
    }
    for (kind, deliveries) in [("video.trending", 3), ("video.gone", 2), ("channel.new", 2), ("other", 1)] {
        let answer = database.json(&["emit", "--type", kind, "--data", "1", "--json"]);
        assert_eq!(answer["deliveries"], deliveries, "{kind}");
    }
}

#[test]
fn personal_data_stays_here_and_a_creator_is_known_by_a_pseudonym_of_the_region() {
    let (first, second) = (Endpoint::taking(), Endpoint::taking());
    let database = Database::new();
    let regions = |command: &mut std::process::Command| {
        command.env("EU", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=");
        command.env("HOOKPROOF_REGIONS", "eu=EU");
    };
    for (name, endpoint) in [("first", &first), ("second", &second)] {
        let mut command = database.command(&[
            "subscriber",
            "add",
            name,
            &endpoint.url,
            "--allow-private-targets",
            "--json",
        ]);
        command.args(["shape.allow=views,creator", "shape.pseudonymise=creator", "shape.region=eu"]);
        regions(&mut command);
        crate::binary::read_json(command);
    }
    let mut command = database.command(&crate::binary::SERVE);
    regions(&mut command);
    let serving = Serving::start(command);
    for creator in ["alice", "bob", "alice"] {
        let body = format!(
            r#"{{"type":"video.trending","data":{{"views":7,"creator":"{creator}","email":"a@example.com"}}}}"#
        );
        assert_eq!(serving.post("/v1/events", &body).status, 202);
    }
    let pseudonyms = |endpoint: &Endpoint| -> Vec<String> {
        let arrivals = endpoint.wait_for(3);
        let mut found = vec![];
        for arrival in arrivals {
            let data = arrival.json()["data"].clone();
            assert_eq!((data["views"].as_u64(), data.as_object().unwrap().len()), (Some(7), 2), "{data}");
            let pseudonym = data["creator"].as_str().unwrap().to_owned();
            assert!(
                pseudonym.len() == 64 && pseudonym.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{pseudonym}"
            );
            found.push(pseudonym);
        }
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 2, "two creators");
        found
    };
    let (first, second) = (pseudonyms(&first), pseudonyms(&second));
    assert!(first.iter().all(|pseudonym| !second.contains(pseudonym)), "partners cannot compare notes");
    serving.stop_in_order();
}

#[test]
fn of_fifty_events_of_one_video_the_newest_goes_out_and_all_are_recorded() {
    let sink = Endpoint::taking();
    let rule = r#"coalesce=[{"events":"video.rank_updated","window":"3s"}]"#;
    let database = Database::with_sink(&sink.url, &[rule]);
    let serving = database.serve();
    let lines: String = (1..=50)
        .map(|n| format!("{{\"type\":\"video.rank_updated\",\"key\":\"v1\",\"data\":{{\"rank\":{n}}}}}\n"))
        .collect();
    let kind = "application/x-ndjson";
    let answer = crate::binary::http::request(&serving.address, "POST", "/v1/events", kind, lines.as_bytes());
    assert_eq!(answer.status, 202);
    let arrivals = sink.wait_for(1);
    assert_eq!(arrivals[0].json()["data"]["rank"], 50);
    let status = serving.until("/v1/status", |status| status["deliveries"]["delivered"] == 1);
    assert_eq!(status["deliveries"]["coalesced"], 49, "{status}");
    serving.stop_in_order();
    assert_eq!(sink.count(), 1);
}
