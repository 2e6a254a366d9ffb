use hookproof_simulator::plan::{plan, sheets};

use crate::plan::{launch, plan_request};

#[test]
fn a_sheet_says_what_the_partner_will_see_and_nothing_of_others() {
    let scenario = launch();
    let plan = plan(&scenario, &plan_request(&[])).unwrap();
    let sheets: Vec<_> = sheets(&scenario, &plan).collect();
    assert_eq!(sheets.len(), 3);
    let lane = &plan.figures.as_ref().unwrap().lanes[1];
    let (_, text) = sheets.iter().find(|(name, _)| name == "partner-b.md").unwrap();
    assert!(lane.busiest.count > 10 && lane.busiest.count <= 30 + 20, "{:?}", lane.busiest);
    for part in [
        "# capacity-launch: requests to partner-b (forecast)".to_owned(),
        format!("| deliveries in all | {} |", lane.owed),
        format!("| requests in the peak second | {}, ", lane.busiest.count),
        "20 at once, 30/s in the long run; 60 per 1s; 10 requests in flight".to_owned(),
        "| events | video.trending, video.rank_updated |".to_owned(),
    ] {
        assert!(text.contains(&part), "no {part} in {text}");
    }
    assert!(!text.contains("partner-a") && !text.contains("partner-c"), "{text}");
}
