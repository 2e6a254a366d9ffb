use hookproof_judge::scenario::Scenario;
use hookproof_simulator::plan::machine::{Machine, NAME};
use hookproof_simulator::plan::{Plan, PlanRequest, answer, page, plan, table};

use crate::plan::plan_request;

fn planned(sender: &str, subscriber: &str, machine: Machine) -> Plan {
    let text = format!(
        "name = \"machine\"\ndrain = \"30s\"\n{sender}[[traffic]]\nshape = \"steady\"\nrate = \"10/s\"\nlasts = \"4s\"\n\
         [[subscriber]]\nname = \"a\"\n{subscriber}"
    );
    let scenario = Scenario::from_text(&text, "machine.toml").unwrap();
    plan(&scenario, &PlanRequest { headroom: true, machine, ..plan_request(&["p95<2s"]) }).unwrap()
}

fn carrying(per_second: u64) -> Machine {
    Machine { carries_per_second: Some(per_second), ..Machine::default() }
}

const WIDE: &str = "limit = { rate = \"10000/s\", burst = 1000 }\n";

#[test]
fn headroom_ends_where_the_machine_does() {
    let plan = planned("", WIDE, carrying(45));
    let headroom = plan.headroom.clone().unwrap();
    // Ten events a second, 4.5 times; at the edges of a second there may be one more.
    let (carries, fails) = (headroom.carries.unwrap(), headroom.fails.unwrap());
    assert!((4_300..=4_500).contains(&carries) && fails <= 4_600, "{carries} {fails}");
    assert!(headroom.breaks.iter().all(|breach| breach.subscriber == NAME), "{:?}", headroom.breaks);
    let told = answer(&plan);
    assert!(told.contains("this machine breaks first (requests or events per second<=45/s: 4"), "{told}");
    assert!(told.contains(": to carry 5×, ") && told.contains("use a faster machine"), "{told}");
}

#[test]
fn a_limit_that_breaks_before_the_machine_is_named_as_ever() {
    let narrow = "limit = { rate = \"20/s\", burst = 5 }\n";
    let headroom = planned("", narrow, carrying(1_000)).headroom.unwrap();
    assert_eq!(headroom.breaks[0].subscriber, "a");
    assert_eq!(headroom.advice.needs, []);
}

#[test]
fn nothing_is_said_to_carry_sixty_four_times_that_the_machine_does_not() {
    let headroom = planned("", WIDE, Machine::default()).headroom.unwrap();
    assert_eq!((headroom.carries, headroom.fails), (Some(64_000), None), "nothing is known of the machine");
    let headroom = planned("", WIDE, carrying(500)).headroom.unwrap();
    assert!(headroom.carries.unwrap() < 51_000 && headroom.fails.is_some(), "{headroom:?}");
}

#[test]
fn events_that_nobody_is_owed_load_the_machine_too() {
    let none = "events = [\"nothing.of.that\"]\n".to_owned() + WIDE;
    let plan = planned("", &none, carrying(9));
    assert_eq!((plan.machine.load.peak_per_second, plan.breaches.len()), (0, 1), "{:?}", plan.breaches);
}

#[test]
fn a_shared_store_is_told_in_nodes() {
    let shared = "[sender]\nstore = \"postgres\"\n";
    let plan = planned(shared, WIDE, Machine { nodes: 2, ..carrying(20) });
    assert_eq!(plan.headroom.clone().unwrap().advice.needs[0].nodes, Some(3), "{:?}", plan.headroom);
    let told = table(&plan);
    assert!(
        told.contains("3 such nodes on a shared store")
            && told.contains("capacity of a sender here: 40/s, 2"),
        "{told}"
    );
}

#[test]
fn room_for_the_backlog_is_a_limit() {
    let narrow = "limit = { rate = \"1/s\", burst = 1 }\n";
    let known = planned("", narrow, Machine::default()).machine.load;
    let small = Machine { disk_bytes: Some(known.database_bytes - 1), ..Machine::default() };
    let breaches = planned("", narrow, small).breaches;
    assert!(
        breaches.iter().any(|one| one.subscriber == NAME && one.objective.starts_with("database")),
        "{breaches:?}"
    );
    let little = Machine { memory_bytes: Some(known.memory_bytes - 1), ..Machine::default() };
    let breaches = planned("", narrow, little).breaches;
    assert!(
        breaches.iter().any(|one| one.subscriber == NAME && one.objective.starts_with("memory")),
        "{breaches:?}"
    );
}

#[test]
fn a_measured_lower_bound_is_reported_as_one() {
    let machine = Machine { at_least: true, source: "measured here".to_owned(), ..carrying(45) };
    let plan = planned("", WIDE, machine);
    let told = answer(&plan);
    assert!(
        told.contains("this machine may break first (requests or events per second<=45/s or more: "),
        "{told}"
    );
    let told = table(&plan);
    assert!(told.contains("capacity of a sender here: 45/s or more, 2"), "{told}");
    assert!(page(&plan).contains("45/s or more"));
}

#[test]
fn a_disk_that_is_too_small_is_told_with_what_it_needs() {
    let narrow = "limit = { rate = \"1/s\", burst = 1 }\n";
    let known = planned("", narrow, Machine::default()).machine.load;
    let plan =
        planned("", WIDE, Machine { disk_bytes: Some(known.database_bytes / 8), ..Machine::default() });
    let told = answer(&plan);
    assert!(
        told.contains("this machine breaks first (database<=") && told.contains(", database of "),
        "{told}"
    );
}
